"""What a model must know of a task: its sizes, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Sizes:
    """Shapes of a task's rows, enough to build a model without importing the task."""

    vocabulary: int
    """Number of token ids in each field."""
    length: int
    """Largest number of columns in a row."""
    outputs: int
    """Number of classes in the logits."""
    fields: int = 1
    """Ids in one column: 1 for a plain token, 2 for a packed edge (source and target)."""
    names: int = 0
    """Ids 1 … names and names+1 … 2·names, and so on, name the same things in other roles; 0: ids are unrelated."""
    prompt: int = 0
    """Columns at the beginning of every row that are given and never answered; 0: rows have no such part."""
    align: Literal["left", "right"] = "right"
    """Where a row shorter than `length` stands; the other side is padding. Position ids follow the full length."""
