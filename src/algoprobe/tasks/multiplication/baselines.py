"""Shortcuts that do not multiply, as the probability that each answers a row right.

`chance`: uniformly random digits. The others name the digit of the product that is commonest among training rows with
the same `last_digit` of both operands, the same `last_two_digits`, or the same `first_two_digits`; `both_ends` takes,
for each digit of the product, that of the three which is right most often. A context that no counted row has is
answered by chance. 100,000 training rows are counted, of operands with all their digits.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from jaxtyping import Bool, Float, Int

from algoprobe.core.stream import Stream

from .config import MultiplicationConfig
from .operands import Operands
from .sampling import TRAIN, drawn

COUNTED = 100_000
SLICES = {"last_digit": slice(0, 1), "last_two_digits": slice(0, 2), "first_two_digits": slice(-2, None)}


def contexts(operands: Operands, name: str) -> Int[np.ndarray, "batch"]:
    """What a shortcut sees of each row, as one number."""
    seen = np.concatenate([operands.a[:, SLICES[name]], operands.b[:, SLICES[name]]], axis=1).astype(np.int64)
    return seen @ operands.base ** np.arange(seen.shape[1])


@lru_cache(maxsize=8)
def tables(config: MultiplicationConfig) -> dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """For each shortcut: the contexts counted, the commonest digits in each, and how often each digit was right."""
    key = Stream("multiplication", config.test_digest, "counted", 0).key
    rows = drawn(config, key, np.arange(COUNTED), TRAIN, mixed=False)
    found = {}
    for name in SLICES:
        known, place = np.unique(contexts(rows, name), return_inverse=True)
        commonest = np.empty((len(known), config.product_digits), np.int64)
        share = np.empty(config.product_digits)
        for k in range(config.product_digits):
            counts = np.bincount(place * config.base + rows.product[:, k], minlength=len(known) * config.base)
            counts = counts.reshape(-1, config.base)
            commonest[:, k] = counts.argmax(1)
            share[k] = counts.max(1).sum() / COUNTED
        found[name] = known, commonest, share
    return found


def digit_hits(operands: Operands, config: MultiplicationConfig) -> dict[str, Float[np.ndarray, "batch NM"]]:
    """Probability that each shortcut names each digit of the product."""
    product, chance, counted = operands.product, 1 / config.base, tables(config)
    found = {"chance": np.full(product.shape, chance)}
    for name, (known, commonest, _) in counted.items():
        seen = contexts(operands, name)
        at = np.minimum(np.searchsorted(known, seen), len(known) - 1)
        found[name] = np.where((known[at] == seen)[:, None], commonest[at] == product, chance)
    best = np.stack([share for _, _, share in counted.values()]).argmax(0)
    every = np.stack([found[name] for name in counted])
    found["both_ends"] = np.take_along_axis(every, best[None, None], axis=0)[0]
    return found


def baselines(
    operands: Operands, counted: Bool[np.ndarray, "batch NM"], config: MultiplicationConfig
) -> dict[str, Float[np.ndarray, "batch"]]:
    """Probability that each shortcut has all `counted` digits of a row right."""
    return {name: np.where(counted, hits, 1.0).prod(1) for name, hits in digit_hits(operands, config).items()}
