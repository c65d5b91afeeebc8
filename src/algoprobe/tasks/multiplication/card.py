"""Task card: what a config's training rows are, counted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from algoprobe.core.config import to_dict

from .baselines import baselines

if TYPE_CHECKING:
    from .task import MultiplicationTask


def histogram(values: np.ndarray) -> dict[str, int]:
    """How often each value is there."""
    found, counts = np.unique(values, return_counts=True)
    return {str(int(value)): int(count) for value, count in zip(found, counts)}


def card(task: MultiplicationTask, seed: int, rows: int) -> dict[str, Any]:
    """Config, digests, length of the chain; histograms, means and baselines of `rows` rows of the card stream."""
    config, operands = task.config, task.operands("card", seed, np.arange(rows))
    every = np.ones(operands.product.shape, np.bool_)
    spread = operands.running_sums.astype(np.float64)
    return {
        "task": task.name,
        "config": to_dict(config),
        "train_digest": config.train_digest,
        "test_digest": config.test_digest,
        "seed": seed,
        "rows": rows,
        "pairs": config.pairs,
        "chain_length": config.chain_length,
        "running_sum": {"mean": spread.mean(0).round(2).tolist(), "deviation": spread.std(0).round(2).tolist()},
        "means": {"attempts": float(operands.attempts.mean()), "digits": float(operands.lengths.max(1).mean())},
        "histograms": {
            "attempts": histogram(operands.attempts),
            "digits of a": histogram(operands.lengths[:, 0]),
            "digits of b": histogram(operands.lengths[:, 1]),
        },
        "baselines": {name: float(values.mean()) for name, values in baselines(operands, every, config).items()},
    }
