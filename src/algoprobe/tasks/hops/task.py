"""The hops task: chains of facts drawn, encoded, graded; the same for training, validation and test."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int, Int16

from algoprobe.core.errors import outside
from algoprobe.core.stream import Stream, check_split
from algoprobe.tasks.batch import Batch
from algoprobe.tasks.openable import Pair
from algoprobe.tasks.task import Cell, cells_of_all

from .chains import Chains
from .config import MOST_HOPS, HopsConfig
from .encoding import encode, sizes
from .reserve import STANDARD, cell_chains, cells_of, training_stream
from .sampling import fresh
from .splits import pairs_of
from .validation import validation_stream


class HopsTask:
    """Name the entity that a chain of relations leads to from a head, by facts that only training rows tell.

    task = HopsTask(HopsConfig.paper("k-hop", hops=8))
    batch = task.sample("train", 0, np.arange(128))

    Training index i is row p(i mod N) of the fixed training set of N rows, p the permutation of epoch i div N (see
    `core.permutation`); with `fresh` it is the i-th of an endless one. Source: arXiv 2604.07822.
    """

    name = "hops"
    stage_axis = "hops"
    ordered = True
    counted = ()
    summed = ()

    def __init__(self, config: HopsConfig):
        self.config = config
        self.sizes = sizes(config)
        if config.setting == "two-hop":
            pairs_of(config)  # raises where φ asks for more pairs than there are

    def chains(self, split: str, seed: int, indices: Int[np.ndarray, "batch"]) -> Chains:
        """The chains of a stream at `indices`; the layout does not matter."""
        check_split(split)
        config = self.config
        key = Stream(self.name, config.train_digest, split, seed).key
        if split == "validation":
            return validation_stream(config, key, indices)
        if config.fresh and config.setting == "k-hop":
            return fresh(config, key, indices)
        return training_stream(config, key, indices)

    def sample(self, split: str, seed: int, indices: Int[np.ndarray, "batch"]) -> Batch:
        """The rows of a stream at `indices`: each a pure function of (config, split, seed, its index).

        `validation` has rows that no other split holds, but for single facts, which are all trained on; every other
        split but `test` has training rows. None ever holds a test row, again but for single facts.
        """
        indices = np.ascontiguousarray(indices, np.int64)
        return encode(self.chains(split, seed, indices), self.config, indices)

    def stages(self) -> int:
        """K-hop: a curriculum walks through the numbers of hops. Two-hop has a single stage."""
        return self.config.hops if self.config.setting == "k-hop" else 1

    def at_stage(self, stage: int) -> HopsTask:
        """The task of at most `stage` hops. It has a stream of its own and the same test rows."""
        if not 1 <= stage <= self.stages():
            raise outside("stage", stage, f"1 to {self.stages()}")
        if self.config.setting == "two-hop":
            return self
        return HopsTask(dataclasses.replace(self.config, hops=stage, hops_max_test=self.config.n))

    def at_size(self, n: int) -> HopsTask:
        """K-hop: the task with test rows of up to `n` hops. `UsageError` in the two-hop setting."""
        if self.config.setting == "two-hop":
            raise outside("n", n, "2 (two-hop rows have two hops; task.setting 'k-hop' has other sizes)")
        if not 2 <= n <= MOST_HOPS:
            raise outside("n", n, f"2 to {MOST_HOPS}, the most hops of a test row")
        return HopsTask(dataclasses.replace(self.config, hops_max_test=n))

    def cells(self, on: tuple[str, ...] = ()) -> list[Cell]:
        """Test cells of the named distributions (see `reserve`); by default the standard ones of the setting."""
        return cells_of_all(on, STANDARD[self.config.setting], lambda name: cells_of(name, self.config))

    def test(self, cell: Cell, rows: int) -> Batch:
        """The first `rows` test rows of `cell`, or all it has; the same for every φ and number of trained hops."""
        chains = cell_chains(self.config, cell, rows)
        return encode(chains, self.config, np.arange(len(chains)))

    def grade(self, batch: Batch, answers: Any) -> Bool[np.ndarray, "batch"]:
        """Whether each row's answer is the entity its chain ends with.

        `answers` are class ids, `[batch, 1]` or `[batch]`. Raises `UsageError` on another shape.
        """
        ids = np.asarray(answers)
        if ids.shape not in ((len(batch),), (len(batch), 1)) or not np.issubdtype(ids.dtype, np.integer):
            raise outside(
                "answers",
                f"{ids.dtype} of shape {list(ids.shape)}",
                f"whole numbers of shape [{len(batch)}] or [{len(batch)}, 1], the class with the largest logit",
            )
        return np.take_along_axis(batch.accepted[:, 0], ids.reshape(-1, 1).astype(np.int64), axis=1)[:, 0]

    def intermediate(self, batch: Batch) -> dict[str, Int16[np.ndarray, "batch columns"]]:
        """None: what is known on the way is an entity, not a number of steps (see `column_targets`)."""
        return {}

    def baselines(self, batch: Batch) -> dict[str, Float[np.ndarray, "batch"]]:
        """Probability that each shortcut answers each row right (see `baselines`)."""
        from .baselines import baselines

        return baselines(batch.source, self.config)

    def card(self, seed: int, rows: int) -> dict[str, Any]:
        """Config, counts and histograms of `rows` training rows, as JSON values."""
        from .card import card

        return card(self, seed, rows)

    def leaks(self, seed: int, rows: int) -> dict[str, Any]:
        """How many of `rows` training rows stand among the test rows, and what parts of test rows training has."""
        from .leaks import leaks

        return leaks(self, seed, rows)

    def worked(self, batch: Batch, row: int, answer: Int[np.ndarray, "read"]) -> dict[str, Any]:
        """One row with the answer given to it, as JSON values: what `draw` takes."""
        return batch.source.fields_of(row) | {
            "answer": int(answer[0]),
            "entity_count": self.config.entities,
            "index": int(batch.index[row]),
        }

    def draw(self, worked: dict[str, Any]) -> str:
        """An SVG drawing of what `worked` returned, with the answer marked."""
        from .drawing import draw

        return draw(worked)

    def pair(self, batch: Batch) -> Pair:
        """Rows beside the same relations after another head and first relation (see `opening.pair`)."""
        from .opening import pair

        return pair(batch, self.config)

    def column_kinds(self, batch: Batch) -> dict[str, Bool[np.ndarray, "batch columns"]]:
        """Head, relation 1, relation 2, …, query."""
        from .opening import column_kinds

        return column_kinds(batch, self.config)

    def column_targets(self, batch: Batch) -> dict[str, Float[np.ndarray, "batch columns"]]:
        """The entities passed, at the relations that lead to them and at the answer's column (see `opening`)."""
        from .opening import column_targets

        return column_targets(batch, self.config)
