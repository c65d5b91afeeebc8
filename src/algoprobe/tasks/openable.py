"""What a task family can offer on top of `Task`, so that lenses speak of its rows in the task's own words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float

from .batch import Batch


@dataclass(frozen=True)
class Pair:
    """Rows and their corrupted partners, for patching: equal shapes and lengths, no right answer in common."""

    clean: Batch
    corrupted: Batch
    columns: dict[str, Bool[np.ndarray, "batch columns"]]
    """Named groups of columns that partition the real ones, such as `clean path`; padding is in none."""


@runtime_checkable
class Openable(Protocol):
    """A task that says which rows are each other's counterparts and what its columns hold."""

    def pair(self, batch: Batch) -> Pair:
        """The rows of `batch` that have a corrupted partner, with it. Raises `UsageError` when none has."""

    def column_kinds(self, batch: Batch) -> dict[str, Bool[np.ndarray, "batch columns"]]:
        """What each column holds: named groups that partition the real columns of every row."""

    def column_targets(self, batch: Batch) -> dict[str, Float[np.ndarray, "batch columns"]]:
        """Named facts about single columns that a linear probe can look for; NaN at columns they do not concern."""


@runtime_checkable
class Numbered(Protocol):
    """A task whose columns hold numbers that a linear probe can look for."""

    def column_numbers(self, batch: Batch) -> dict[str, Float[np.ndarray, "batch columns"]]:
        """Named numbers at single columns, for regression; NaN at columns they do not concern."""
