"""The search task's config. Section numbers refer to *Transformers Struggle to Learn to Search* (ICLR 2025)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from algoprobe.core.config import check_choices, digest
from algoprobe.core.errors import outside

DISTRIBUTIONS = ("naive", "star", "balanced")
LEAST_N, LEAST_NAIVE_N, MOST_N = 14, 17, 1000
MOST_IDS, MOST_GOALS = 1000, 1000
SMALLEST = 12
"""Vertices of the graphs that a growing curriculum begins with."""


@dataclass(frozen=True)
class SearchConfig:
    """Given a directed acyclic graph, a start and a goal, name the next vertex on a path from start to goal."""

    kind: Literal["search"] = "search"
    n: int = 128
    """Input size (§3.1): a row has at most V = (n-5)//3 edges and V vertices, lookahead at most (V-1)//2."""
    ids: int | None = None
    """Vertices are named by distinct numbers from 1..ids; None: 1..V. More let a model be tested at a larger n."""
    distribution: Literal["naive", "star", "balanced"] = "balanced"
    """What training graphs are drawn from (§3.1.1, A.1)."""
    lookahead: int | None = None
    """Largest lookahead in training (star, balanced); None: the largest possible."""
    most: int | None = None
    """Training graphs have at most this many vertices and edges; None: V. Test graphs have up to V all the same."""
    grow: float | None = None
    """With a curriculum, graphs grow too: at stage c they have up to the larger of 12 and grow·c vertices, at the last
    stage up to `most`. None: `most` from the start."""
    encoding: Literal["triples", "packed"] = "triples"
    """`triples`: the paper's three tokens an edge. `packed`: one token an edge and one query token."""
    mix: Literal["uniform", "paper"] = "uniform"
    """Balanced only. `uniform`: every lookahead equally often. `paper`: the skewed mix the paper's runs really saw."""
    in_degree: Literal[3, 4] = 3
    """Naive only: largest number of parents; 3 is what the authors' code drew, 4 what the paper says."""
    chain: bool = True
    """Balanced only: an incoming chain ends at the start, so that the start is not the only source (A.1.2)."""
    naive_share: float = 0.0
    """Share of training rows drawn from the naive distribution instead."""
    goals: int = 1
    """Neighbouring training rows that ask for different goals in one graph (see `questions`)."""
    along_path: float = 0.0
    """Probability that a training row's goal is replaced by a vertex on its own shortest path (see `questions`)."""
    test_edges: Literal["shuffled", "grouped"] = "shuffled"
    """Edge order in test rows; the authors' test rows group edges by source, their training rows do not."""
    test_rows: int = 1000
    """Test rows reserved in each cell; none of them, in any edge order, is ever trained on."""

    def __post_init__(self) -> None:
        check_choices(self, "task")
        if self.n < LEAST_N:
            raise outside("task.n", self.n, f"{LEAST_N} and more (three vertices, so that a lookahead of 1 fits)")
        if self.n > MOST_N:
            raise outside("task.n", self.n, f"at most {MOST_N} ({(MOST_N - 5) // 3} vertices)")
        if self.lookahead is not None and not 1 <= self.lookahead <= self.lookahead_limit:
            raise outside(
                "task.lookahead",
                self.lookahead,
                f"1 to {self.lookahead_limit} at n = {self.n} (half of its {self.vertices} vertices less one)",
            )
        least = max(4 if self.draws_naive else 3, 2 * self.lookahead_max + 1)
        if self.most is not None and not least <= self.most <= self.vertices:
            raise outside(
                "task.most",
                self.most,
                f"{least} to {self.vertices} (a lookahead of {self.lookahead_max} needs {least} vertices; "
                f"n = {self.n} holds {self.vertices})",
            )
        if self.grow is not None and not 2.5 <= self.grow <= 1000:
            raise outside("task.grow", self.grow, "2.5 to 1000 (a lookahead of c needs 2c+1 vertices)")
        if not 0.0 <= self.naive_share <= 1.0:
            raise outside("task.naive_share", self.naive_share, "0 to 1")
        if self.n < LEAST_NAIVE_N and self.draws_naive:
            raise outside(
                "task.n", self.n, f"{LEAST_NAIVE_N} and more with the naive distribution (it draws 3 to V-1 vertices)"
            )
        if self.ids is not None and not self.vertices <= self.ids <= MOST_IDS:
            raise outside(
                "task.ids", self.ids, f"{self.vertices} to {MOST_IDS} (a graph has up to {self.vertices} vertices)"
            )
        if not 1 <= self.goals <= MOST_GOALS:
            raise outside("task.goals", self.goals, f"1 to {MOST_GOALS}")
        if not 0.0 <= self.along_path <= 1.0:
            raise outside("task.along_path", self.along_path, "0 to 1")
        if not 1 <= self.test_rows <= 1_000_000:
            raise outside("task.test_rows", self.test_rows, "1 to 1000000")

    @property
    def draws_naive(self) -> bool:
        """Whether any training row is naive."""
        return self.distribution == "naive" or self.naive_share > 0.0

    @property
    def vertices(self) -> int:
        """V: the largest number of vertices, and of edges."""
        return (self.n - 5) // 3

    @property
    def largest_id(self) -> int:
        """Vertices are named by numbers from 1 to this."""
        return self.vertices if self.ids is None else self.ids

    @property
    def lookahead_limit(self) -> int:
        """The largest lookahead that fits: two branches of that length and the start."""
        return (self.vertices - 1) // 2

    @property
    def lookahead_max(self) -> int:
        """The largest lookahead in training."""
        if self.lookahead is not None:
            return self.lookahead
        return self.lookahead_limit if self.most is None else max(1, (min(self.most, self.vertices) - 1) // 2)

    def vertices_at(self, stage: int) -> int | None:
        """`most` at a stage of a curriculum: what `grow` says, and at the last stage no less than the whole."""
        if self.grow is None or stage >= self.lookahead_max:
            return self.most
        return min(self.most or self.vertices, max(SMALLEST, math.ceil(self.grow * stage)))

    @property
    def drawn_from(self) -> str:
        """The field that says what training rows are drawn from, and its value."""
        easiest = self.distribution != "naive" and self.lookahead_max == 1
        return f"task.distribution {self.distribution!r}" + (", lookahead 1 at most" * easiest)

    @property
    def train_digest(self) -> str:
        """Names the training stream: the fields that decide which graphs are drawn. The encoding does not."""
        fields = ("n", "distribution", "lookahead_max", "mix", "in_degree", "chain", "naive_share")
        values = [[name, getattr(self, name)] for name in fields] + [["test", self.test_digest, self.test_rows]]
        # Fields that came later count only where they change what is drawn, so that older streams keep their names.
        if self.goals != 1:
            values.append(["goals", self.goals])
        if self.most not in (None, self.vertices):
            values.append(["most", self.most])
        if self.along_path != 0.0:
            values.append(["along_path", self.along_path])
        return digest(values)

    @property
    def test_digest(self) -> str:
        """Names the test rows: equal for every training config of the same size and ids, whatever it trains on."""
        values = [[name, getattr(self, name)] for name in ("n", "in_degree", "test_edges")]
        return digest(values + ([["ids", self.ids]] if self.largest_id != self.vertices else []))

    def build(self):
        """The task itself."""
        from .task import SearchTask

        return SearchTask(self)
