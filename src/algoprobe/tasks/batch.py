"""What a sampler hands to everybody else: a dataclass of arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Int

IGNORE = -100
"""Target value that no loss counts (the default `ignore_index` of `torch.nn.functional.cross_entropy`)."""

FAR = 2**15 - 1
"""Number of steps, in intermediate targets, to what cannot be reached."""


@dataclass(frozen=True)
class Batch:
    """Rows of a task.

    The answers are read from the last `read` columns of every row; `targets[:, k]` belongs to column
    `length - read + k`. Columns beyond a row's `lengths` are padding (left or right, see `Sizes.align`).
    """

    tokens: Int[np.ndarray, "batch length fields"]
    """Token ids; `fields` is 1 for plain tokens and 2 for packed edges."""
    lengths: Int[np.ndarray, "batch"]
    """Columns of each row that are not padding."""
    targets: Int[np.ndarray, "batch read"]
    """The right answer that a loss trains on; `IGNORE` where there is none."""
    accepted: Bool[np.ndarray, "batch read outputs"]
    """Every right answer."""
    axes: dict[str, Int[np.ndarray, "batch"]]
    """What accuracy is plotted against, one number a row (lookahead, hops, digits, …)."""
    index: Int[np.ndarray, "batch"]
    """The index of each row in its stream."""
    decoded: bool = False
    """Whether the model is to read its own answers: the token of each read column but the first is then what it
    answered at the column before, and that of the row only an example."""
    source: Any = None
    """The task's own record of the rows (for search: the graphs), for baselines, cards and drawings."""

    def __len__(self) -> int:
        return len(self.tokens)
