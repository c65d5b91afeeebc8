"""Leak report: what do training rows have of the test rows?

A pair that stands among the test rows, in either order of its operands, is drawn again, so none may be left. What is
left is that single operands recur, since there are far more pairs than numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .operands import Operands
from .sampling import TRAIN, parts

if TYPE_CHECKING:
    from .task import MultiplicationTask


def leaks(task: MultiplicationTask, seed: int, rows: int) -> dict[str, Any]:
    """Of `rows` training rows: how many are test rows, exactly and with operands exchanged, and share their numbers."""
    from .task import test_batch

    config = task.config
    test = test_batch(config, None, config.test_rows).source
    trained = task.operands("train", seed, np.arange(rows))
    known = pairs(test)
    found = {
        "test_rows": len(test),
        "training_rows": rows,
        "exact": int(np.isin(pairs(trained), known).sum()),
        "exchanged": int(np.isin(pairs(trained, exchanged=True), known).sum()) if same_width(trained) else 0,
        "kept_by_hash": int((parts(trained, config) != TRAIN).sum()),
    }
    # Single numbers are not held out, pairs are.
    numbers = np.unique(rows_of(trained.a))
    found["first_operand_trained_on"] = float(np.isin(rows_of(test.a), numbers).mean())
    return found


def same_width(operands: Operands) -> bool:
    """Whether a and b can be exchanged."""
    return operands.a.shape[1] == operands.b.shape[1]


def rows_of(digits: np.ndarray) -> np.ndarray:
    """Each row as one comparable value."""
    whole = np.ascontiguousarray(digits)
    return whole.view(np.dtype((np.void, whole.dtype.itemsize * whole.shape[1])))[:, 0]


def pairs(operands: Operands, exchanged: bool = False) -> np.ndarray:
    """Each pair as one comparable value."""
    both = (operands.b, operands.a) if exchanged else (operands.a, operands.b)
    return rows_of(np.concatenate(both, axis=1))
