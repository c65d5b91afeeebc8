"""The hops task's config. Section numbers refer to *Loop, Think, & Generalize* (arXiv 2604.07822).

The defaults are the paper's two-hop sizes (§5.1); `HopsConfig.paper("k-hop")` has those of its chains (§6.1, App. B).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

from algoprobe.core.config import check_choices, digest
from algoprobe.core.errors import outside

MOST_TOKENS = 32_767
MOST_ROWS = 10_000_000
"""Most facts, and most pairs of facts, that are enumerated."""
MOST_HOPS = 1000
MOST_KEPT = 20_000_000
"""Most rows of all hops together that a fixed set holds."""


class GraphFields(NamedTuple):
    """What decides the facts, and with them every walk along them."""

    entities: int
    relations: int
    out_degree: int
    tails: str
    graph: int

    @property
    def digest(self) -> str:
        """Names the facts."""
        return digest([[name, value] for name, value in self._asdict().items()])


@dataclass(frozen=True)
class HopsConfig:
    """Given an entity and relations r1 … rk, name the entity that following them leads to."""

    kind: Literal["hops"] = "hops"
    setting: Literal["two-hop", "k-hop"] = "two-hop"
    """`two-hop`: facts and pairs of facts, some facts never inside a training pair (§5). `k-hop`: longer and longer
    chains, tested beyond those of training (§6)."""
    entities: int = 2000
    """Entities, named 1..entities."""
    relations: int = 200
    """Relations, named 1..relations."""
    out_degree: int = 20
    """Facts of each entity as the head, all of different relations."""
    tails: Literal["any", "permutation"] = "any"
    """`any`: each tail is any entity. `permutation`: each relation is a permutation of the entities, so that no two
    chains of the same relations meet and every token counts (App. K); it needs out_degree = relations."""
    graph: int = 0
    """Which graph: another number gives other facts, another split of them, and other rows."""
    ood_share: float = 0.05
    """Two-hop: share of the facts that are trained on alone and never inside a training pair (OOD)."""
    phi: float = 7.2
    """Two-hop: training pairs for each ID fact (φ, the ratio of inferred to atomic facts)."""
    test_share: float = 0.005
    """Two-hop: probability that a pair of ID facts is kept for the ID test."""
    hops: int = 40
    """K-hop: most hops in training; one hop is a fact."""
    hops_max_test: int | None = None
    """K-hop: most hops in test rows; None: as in training."""
    train_rows: int = 15_000
    """K-hop: training rows of each number of hops from two on, a fixed set."""
    fresh: bool = False
    """K-hop: draw training rows without end instead, every number of hops equally often."""
    answer_at: Literal["query", "last", "padded"] = "query"
    """Where the answer is read. `query`: at a query token after the row. `last`: at the last relation. `padded`: as the
    authors' code, two-hop rows at the third column, where a fact alone has the query token."""
    test_rows: int = 3000
    """Most test rows in each cell; k-hop cells have all of them."""
    validation_rows: int = 250
    """Rows for validation and curricula, of each number of hops from two on; never trained on."""

    def __post_init__(self) -> None:
        check_choices(self, "task")
        for name, least, most in (
            ("entities", 2, MOST_TOKENS - 3),
            ("relations", 1, MOST_TOKENS - 4),
            ("graph", 0, 2**31 - 1),
            ("hops", 1, MOST_HOPS),
            ("train_rows", 1, MOST_ROWS),
            ("test_rows", 1, 1_000_000),
            ("validation_rows", 1, 1_000_000),
        ):
            if not least <= getattr(self, name) <= most:
                raise outside(f"task.{name}", getattr(self, name), f"{least} to {most}")
        if self.hops_max_test is not None and not 2 <= self.hops_max_test <= MOST_HOPS:
            raise outside("task.hops_max_test", self.hops_max_test, f"2 to {MOST_HOPS}")
        if self.vocabulary > MOST_TOKENS:
            raise outside("task.relations", self.relations, f"at most {MOST_TOKENS - 2 - self.entities} (token ids)")
        if not 1 <= self.out_degree <= self.relations:
            raise outside("task.out_degree", self.out_degree, f"1 to {self.relations}, the number of relations")
        if self.tails == "permutation" and self.out_degree != self.relations:
            raise outside(
                "task.out_degree", self.out_degree, f"{self.relations} (a permutation is defined on every entity)"
            )
        if max(self.pairs, self.entities * self.relations) > MOST_ROWS:
            raise outside(
                "task.entities",
                self.entities,
                f"at most {MOST_ROWS // max(self.out_degree**2, self.relations)} at out-degree {self.out_degree} and "
                f"{self.relations} relations ({MOST_ROWS:,} pairs of facts)",
            )
        if self.answer_at == "padded" and self.setting == "k-hop":
            raise outside("task.answer_at", "padded", "'query', which computes the same in fewer columns, or 'last'")
        if self.setting == "two-hop":
            self._check_two_hop()
        else:
            self._check_k_hop()

    def _check_two_hop(self) -> None:
        if not (0 <= self.ood_share < 1 and self.id_facts >= 1):
            raise outside("task.ood_share", self.ood_share, "0 to below 1, so that an ID fact is left")
        if not 0 <= self.test_share < 1:
            raise outside("task.test_share", self.test_share, "0 to below 1")
        if not (math.isfinite(self.phi) and self.phi >= 0 and self.train_pairs >= 1):
            raise outside("task.phi", self.phi, f"{1 / self.id_facts:.2g} and more (a training pair)")
        # How many pairs of ID facts there are is known only when the graph is drawn; the task tells then.
        if self.train_pairs > self.pairs:
            raise outside(
                "task.phi", self.phi, f"at most {self.pairs / self.id_facts:g} (there are {self.pairs} pairs)"
            )

    def _check_k_hop(self) -> None:
        share, room = ("half of the ", self.pairs // 2) if self.fresh else ("the ", self.pairs)
        parts = ["test", "validation"] if self.fresh else ["train", "test", "validation"]
        rows = {part: getattr(self, f"{part}_rows") for part in parts}
        if room < len(parts):
            raise outside("task.entities", self.entities, f"more (there are {self.pairs} rows of two hops)")
        if self.rows_kept > room:
            # Where the others alone are too many, the largest of them is at fault.
            blamed = parts[0] if self.rows_kept - rows[parts[0]] < room else max(rows, key=rows.get)
            others = self.rows_kept - rows[blamed]
            named = " and ".join(part for part in parts if part != blamed)
            raise outside(
                f"task.{blamed}_rows",
                rows[blamed],
                f"at most {max(1, room - others)} with {others} {named} rows ({share}{self.pairs} rows of two hops)",
            )
        if self.hops * self.rows_kept > MOST_KEPT:
            raise outside(
                "task.hops", self.hops, f"at most {MOST_KEPT // self.rows_kept} with {self.rows_kept} rows each"
            )

    @classmethod
    def paper(cls, setting: Literal["two-hop", "k-hop"], **changes: Any) -> HopsConfig:
        """The paper's sizes of a setting, with some fields changed."""
        if setting == "two-hop":
            return replace(cls(), **changes)
        sizes = {"entities": 200, "relations": 10, "out_degree": 10, "tails": "permutation", "test_rows": 750}
        return cls(setting="k-hop", **(sizes | changes))

    @property
    def vocabulary(self) -> int:
        """Padding, entities, relations, query."""
        return self.entities + self.relations + 2

    @property
    def facts(self) -> int:
        """Number of facts."""
        return self.entities * self.out_degree

    @property
    def pairs(self) -> int:
        """Rows of two hops that there are."""
        return self.facts * self.out_degree

    @property
    def ood_facts(self) -> int:
        """Two-hop: number of OOD facts."""
        return math.floor(self.ood_share * self.facts + 0.5)

    @property
    def id_facts(self) -> int:
        """Two-hop: number of ID facts."""
        return self.facts - self.ood_facts

    @property
    def train_pairs(self) -> int:
        """Two-hop: number of training pairs."""
        return math.floor(self.phi * self.id_facts + 0.5)

    @property
    def n(self) -> int:
        """Input size: most hops in a test row."""
        return 2 if self.setting == "two-hop" else self.hops_max_test or max(2, self.hops)

    @property
    def distribution(self) -> str:
        """What validation rows of two and more hops are drawn from."""
        return "id" if self.setting == "two-hop" else "walks"

    @property
    def drawn_from(self) -> str:
        """The field that says what training rows are drawn from, and its value."""
        return f"task.setting {self.setting!r}" + (", task.hops 1" * (self.setting == "k-hop" and self.hops == 1))

    @property
    def rows_kept(self) -> int:
        """K-hop: rows of each number of hops that are kept: test, validation, and training when that is fixed."""
        return self.test_rows + self.validation_rows + (0 if self.fresh else self.train_rows)

    @property
    def graph_fields(self) -> GraphFields:
        """The fields that decide the facts."""
        return GraphFields(self.entities, self.relations, self.out_degree, self.tails, self.graph)

    @property
    def train_digest(self) -> str:
        """Names the training stream: the fields that decide which rows are drawn. The layout does not."""
        if self.setting == "two-hop":
            names = ["ood_share", "test_share", "phi", "validation_rows"]
        else:
            names = ["hops", "fresh", "test_rows", "validation_rows", *([] if self.fresh else ["train_rows"])]
        return digest([self.setting, self.graph_fields.digest, [[name, getattr(self, name)] for name in names]])

    @property
    def test_digest(self) -> str:
        """Names the test rows: equal for every φ, number of training rows and number of hops."""
        names = ["ood_share", "test_share"] if self.setting == "two-hop" else []
        return digest([self.setting, self.graph_fields.digest, [[name, getattr(self, name)] for name in names]])

    def build(self):
        """The task itself."""
        from .task import HopsTask

        return HopsTask(self)
