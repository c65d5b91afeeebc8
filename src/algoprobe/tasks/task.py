"""What every task family provides. A task that has these works with every model, recipe, probe and report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Int

from algoprobe.core.errors import outside
from algoprobe.core.sizes import Sizes

from .batch import Batch


@dataclass(frozen=True)
class Cell:
    """One group of test rows, scored and reported on its own: a point on one of the task's axes."""

    axis: str
    """`lookahead`, `naive`, `hops`, `digit`, …"""
    value: int | None
    """Where on the axis; None where the axis has a single cell."""
    distribution: str
    """What the rows were drawn from."""

    @property
    def name(self) -> str:
        """`balanced lookahead 3`, `naive`."""
        return self.distribution if self.value is None else f"{self.distribution} {self.axis} {self.value}"


def cells_of_all(on: tuple[str, ...], standard: tuple[str, ...], cells_of: Callable[[str], list[Cell]]) -> list[Cell]:
    """`cells_of` each distribution in `on`, each once; by default of the `standard` ones, of which some may lack rows.

    Raises `UsageError` on one that is named and has no rows at the task's sizes.
    """
    found = {name: cells_of(name) for name in on or standard}
    for name in on:
        if not found[name]:
            there = ", ".join(known for known in standard if cells_of(known))
            raise outside("on", name, f"{there} (at these sizes there are no {name} rows)")
    return [cell for cells in found.values() for cell in cells]


@runtime_checkable
class Task(Protocol):
    """A task built from its config."""

    name: str
    config: Any
    """Beside its fields: `n`, the input size; `distribution`, what validation rows are of; `drawn_from`, the field that
    decides it, in words; `test_rows`, the most test rows a cell has."""
    sizes: Sizes
    stage_axis: str
    """The axis that orders difficulty: curricula and validation go by it."""
    ordered: bool
    """Whether rows differ along `stage_axis`. They can where a curriculum has a single stage."""
    counted: tuple[str, ...]
    """The names of what `intermediate` returns in steps."""
    summed: tuple[str, ...]
    """The names of other numbers that it returns, at columns that answer."""

    def sample(self, split: str, seed: int, indices: np.ndarray) -> Batch:
        """The rows of a stream at `indices`: each a pure function of (config, split, seed, its index)."""

    def stages(self) -> int:
        """How many difficulty levels a curriculum can walk through; 1 when the task has no such order."""

    def at_stage(self, stage: int) -> Task:
        """The same task restricted to difficulty at most `stage` (1-based), on a stream of its own."""

    def at_size(self, n: int) -> Task:
        """The same task at another input size, with this one's tokens and outputs, for test rows of other sizes."""

    def cells(self, on: tuple[str, ...] = ()) -> list[Cell]:
        """The test cells of the named distributions (default: the task's standard ones).

        `UsageError` where a named one has no rows.
        """

    def test(self, cell: Cell, rows: int) -> Batch:
        """The first `rows` reserved test rows of `cell`; the same for every training config of the same size.

        All that there are when a small cell has fewer.
        """

    def grade(self, batch: Batch, answers: np.ndarray) -> np.ndarray:
        """Whether each row's answers (class ids, `[batch, read]`) are right; accepts every right answer."""

    def intermediate(self, batch: Batch) -> dict[str, Int[np.ndarray, "batch columns"]]:
        """Named targets for the states on the way to an answer, for auxiliary losses; may be empty.

        One number a column: how many steps are needed, `FAR` where none are enough, `IGNORE` where nothing is asked; or
        a number that is to be held where an answer is given.
        """

    def baselines(self, batch: Batch) -> dict[str, np.ndarray]:
        """Probability that each heuristic answers each row right; the key `chance` is always there."""

    def card(self, seed: int, rows: int) -> dict[str, Any]:
        """Config, counts and histograms of the training stream, as JSON values."""

    def leaks(self, seed: int, rows: int) -> dict[str, Any]:
        """How many training rows stand among the test rows, exactly and up to reordering and renaming."""

    def worked(self, batch: Batch, row: int, answer: np.ndarray) -> dict[str, Any]:
        """One row with the answer given to it, as JSON values: enough for the task's `draw` and for its key."""

    def draw(self, worked: dict[str, Any]) -> str:
        """An SVG drawing of what `worked` returned, with the answer marked."""
