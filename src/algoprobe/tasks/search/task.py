"""The search task: graphs drawn, encoded, graded; the same for training, validation and test."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int, Int16

from algoprobe.core.errors import UsageError, outside
from algoprobe.core.stream import Stream, check_split
from algoprobe.tasks.batch import Batch
from algoprobe.tasks.openable import Pair
from algoprobe.tasks.task import Cell, cells_of_all

from .config import LEAST_N, LEAST_NAIVE_N, MOST_N, SearchConfig
from .encoding import encode, sizes
from .graphs import Graphs
from .reserve import cell_graphs, cells_of, reserved
from .sampling import KINDS, Plan, draw_graphs

GIVE_UP = 2_000_000
"""Draws for one training row after which the reserved rows count as having used up what there is."""


class SearchTask:
    """Name the vertex that follows the start on a path to the goal, in a directed acyclic graph.

    task = SearchTask(SearchConfig(n=128, lookahead=12))
    for batch in task.batches(1024): ...
    """

    name = "search"
    stage_axis = "lookahead"
    counted = ("steps_to_goal",)
    summed = ()

    def __init__(self, config: SearchConfig):
        self.config = config
        self.sizes = sizes(config.encoding, config.largest_id, config.n)
        self.plan = Plan(
            vertices=config.most or config.vertices,
            ids=config.largest_id,
            kind=KINDS[config.distribution],
            lookahead_max=config.lookahead_max,
            wanted=-1,
            paper_mix=int(config.mix == "paper"),
            in_degree=config.in_degree,
            chain=int(config.chain),
            test=0,
            grouped=0,
            limit=GIVE_UP,
        )

    def graphs(self, split: str, seed: int, indices: Int[np.ndarray, "batch"]) -> Graphs:
        """The graphs of a stream at `indices`; the encoding does not matter."""
        check_split(split)
        config = self.config
        key = Stream(self.name, config.train_digest, split, seed).key
        if config.goals == 1 and config.along_path == 0.0:
            graphs, stuck = draw_graphs(self.plan, key, indices, reserved(config), config.naive_share)
        else:
            from .questions import draw_questions

            graphs, stuck = draw_questions(
                self.plan, key, indices, reserved(config), config.naive_share, config.goals, config.along_path
            )
        if stuck >= 0:
            raise UsageError(
                f"task.test_rows: {config.test_rows} reserved rows a cell leave nothing to train on at n = {config.n} "
                f"(row {int(indices[stuck])} was given up after {GIVE_UP} draws); allowed: fewer, or a larger n."
            )
        return graphs

    def sample(self, split: str, seed: int, indices: Int[np.ndarray, "batch"]) -> Batch:
        """The rows of a stream at `indices`: each a pure function of (config, split, seed, its index).

        Every split but `test` has the training distribution; none ever holds a reserved test row.
        """
        indices = np.asarray(indices, np.int64)
        return encode(self.graphs(split, seed, indices), self.config.encoding, indices)

    def batches(self, batch_size: int, seed: int = 0, split: str = "train", start: int = 0) -> Iterator[Batch]:
        """Batches without end, from batch number `start`: batch k holds the rows k·size … (k+1)·size - 1."""
        if batch_size < 1:
            raise outside("batch_size", batch_size, "1 and more")
        number = start
        while True:
            yield self.sample(split, seed, np.arange(number * batch_size, (number + 1) * batch_size))
            number += 1

    def dataset(
        self, batch_size: int, seed: int = 0, split: str = "train", start: int = 0, batches: int | None = None
    ) -> Any:
        """A `torch.utils.data.IterableDataset` of the same batches, as dicts of tensors; give it to
        `DataLoader(…, batch_size=None, num_workers=w)`. The order is the same for every number of workers."""
        from .dataset import SearchDataset

        return SearchDataset(self, batch_size, seed, split, start, batches)

    def stages(self) -> int:
        """A curriculum walks through the lookaheads; the naive distribution has no such order."""
        return 1 if self.config.distribution == "naive" else self.config.lookahead_max

    @property
    def ordered(self) -> bool:
        """Whether rows differ in lookahead."""
        return self.stages() > 1

    def at_stage(self, stage: int) -> SearchTask:
        """The task with lookahead at most `stage`. It has a stream of its own and the same reserved rows."""
        if not 1 <= stage <= self.stages():
            raise outside("stage", stage, f"1 to {self.stages()}")
        if self.config.distribution == "naive":
            return self
        config = self.config
        return SearchTask(dataclasses.replace(config, lookahead=stage, most=config.vertices_at(stage), grow=None))

    def at_size(self, n: int) -> SearchTask:
        """The task at input size `n` with the same ids, so that a model of this task can read and answer its rows."""
        ids = self.config.largest_id
        least = LEAST_NAIVE_N if self.config.draws_naive else LEAST_N
        most = min(MOST_N, 3 * ids + 7)
        if not least <= n <= most:
            raise outside(
                "n",
                n,
                f"{least} to {most} (the vertex ids are 1 to {ids}; train with more task.ids for larger graphs)",
            )
        return SearchTask(dataclasses.replace(self.config, n=n, ids=ids, lookahead=None, most=None, grow=None))

    def cells(self, on: tuple[str, ...] = ()) -> list[Cell]:
        """Test cells of the named distributions; by default each balanced lookahead and the naive cell."""
        return cells_of_all(on, ("balanced", "naive"), lambda name: cells_of(name, self.config))

    def test(self, cell: Cell, rows: int) -> Batch:
        """The first `rows` reserved rows of `cell`; the same for every training config of the same n and ids."""
        return encode(cell_graphs(self.config, cell, rows), self.config.encoding, np.arange(rows))

    def grade(self, batch: Batch | Mapping[str, Any], answers: Any) -> Bool[np.ndarray, "batch"]:
        """Whether each row's answer is one of its right answers.

        `answers` are class ids, `[batch, 1]` or `[batch]`, of any array type: for logits `[batch, outputs]` that is
        `logits.argmax(-1)`. `batch` is a `Batch` or a dict of `dataset`. Raises `UsageError` on another shape.
        """
        accepted = np.asarray(batch["accepted"] if isinstance(batch, Mapping) else batch.accepted)[:, 0]
        ids = np.asarray(answers)
        if ids.shape not in ((len(accepted),), (len(accepted), 1)) or not np.issubdtype(ids.dtype, np.integer):
            raise outside(
                "answers",
                f"{ids.dtype} of shape {list(ids.shape)}",
                f"whole numbers of shape [{len(accepted)}] or [{len(accepted)}, 1], the class with the largest logit",
            )
        return np.take_along_axis(accepted, ids.reshape(-1, 1).astype(np.int64), axis=1)[:, 0]

    def intermediate(self, batch: Batch) -> dict[str, Int16[np.ndarray, "batch columns"]]:
        """`steps_to_goal`: how far the goal is from the vertex in each column (see `intermediate.steps_to_goal`)."""
        from .intermediate import steps_to_goal

        return {"steps_to_goal": steps_to_goal(batch.source, self.config.encoding, batch.tokens.shape[1])}

    def baselines(self, batch: Batch) -> dict[str, Float[np.ndarray, "batch"]]:
        """Probability that each shortcut answers each row right."""
        from .baselines import baselines

        return baselines(batch.source)

    def card(self, seed: int, rows: int) -> dict[str, Any]:
        """Config, counts and histograms of `rows` training rows, as JSON values."""
        from .card import card

        return card(self, seed, rows)

    def leaks(self, seed: int, rows: int) -> dict[str, Any]:
        """How many of `rows` training rows stand among the test rows, up to reordering and up to renaming."""
        from .leaks import leaks

        return leaks(self, seed, rows)

    def worked(self, batch: Batch, row: int, answer: Int[np.ndarray, "read"]) -> dict[str, Any]:
        """One row with the answer given to it, as JSON values: what `draw` takes."""
        return batch.source.fields_of(row) | {"answer": int(answer[0]), "index": int(batch.index[row])}

    def draw(self, worked: dict[str, Any]) -> str:
        """An SVG drawing of what `worked` returned, with the answer marked."""
        from .drawing import draw

        return draw(worked)

    def pair(self, batch: Batch) -> Pair:
        """Rows beside the same graphs with the goal moved to another branch (see `opening.pair`)."""
        from .opening import pair

        return pair(batch, self.config.encoding)

    def column_kinds(self, batch: Batch) -> dict[str, Bool[np.ndarray, "batch columns"]]:
        """The query, edges on a shortest path, and other edges by where they stand."""
        from .opening import column_kinds

        return column_kinds(batch, self.config.encoding)

    def column_targets(self, batch: Batch) -> dict[str, Float[np.ndarray, "batch columns"]]:
        """Edges within k steps of the start or the goal, and the vertices of the path counted back from the goal."""
        from .opening import column_targets

        return column_targets(batch, self.config.encoding, self.config.lookahead_limit)
