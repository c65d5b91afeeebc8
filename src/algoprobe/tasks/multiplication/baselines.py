"""Shortcuts that do not multiply, as the probability that each answers a row right.

`chance`: uniformly random digits. The others name the digit of the product that is commonest among training rows with
the same `last_digit` of both operands, the same `last_two_digits`, or the same `first_two_digits`; `both_ends` takes,
for each digit of the product, that of the three which is right most often. A context that no counted row has is
answered by chance. 100,000 training rows are counted, of operands with all their digits.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np
from jaxtyping import Bool, Float, Int

from algoprobe.core.stream import Stream

from .config import MultiplicationConfig
from .operands import Operands
from .sampling import TRAIN, drawn

COUNTED = 100_000
SEEN = ("last_digit", "last_two_digits", "first_two_digits")


def contexts(operands: Operands, name: str, widths: tuple[int, int]) -> Int[np.ndarray, "batch"]:
    """What a shortcut sees of each row, as one number; the operands have `widths` digits, with zeros above them."""
    parts = []
    for number, width in zip((operands.a, operands.b), widths):
        few = {"last_digit": slice(0, 1), "last_two_digits": slice(0, 2)}
        parts.append(number[:, few.get(name, slice(max(0, width - 2), width))])
    seen = np.concatenate(parts, axis=1).astype(np.int64)
    return seen @ operands.base ** np.arange(seen.shape[1])


@lru_cache(maxsize=8)
def tables(config: MultiplicationConfig, digits: int | None) -> dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """For each shortcut: the contexts counted, the commonest digits in each, and how often each digit was right.

    The counted rows have operands of `digits` digits (None: all), as the rows to be answered.
    """
    drawn_as = config if digits is None else replace(config, digits=digits, digits_b=digits, trained_digits=None)
    key = Stream("multiplication", drawn_as.test_digest, "counted", 0).key
    rows = drawn(drawn_as, key, np.arange(COUNTED), TRAIN, mixed=False).padded(config.digits, config.b_digits)
    widths = (drawn_as.digits, drawn_as.b_digits)
    found = {}
    for name in SEEN:
        known, place = np.unique(contexts(rows, name, widths), return_inverse=True)
        commonest = np.empty((len(known), config.product_digits), np.int64)
        share = np.empty(config.product_digits)
        for k in range(config.product_digits):
            counts = np.bincount(place * config.base + rows.product[:, k], minlength=len(known) * config.base)
            counts = counts.reshape(-1, config.base)
            commonest[:, k] = counts.argmax(1)
            share[k] = counts.max(1).sum() / COUNTED
        found[name] = known, commonest, share
    return found


def digit_hits(
    operands: Operands, config: MultiplicationConfig, digits: int | None = None
) -> dict[str, Float[np.ndarray, "batch NM"]]:
    """Probability that each shortcut names each digit of the product."""
    product, chance, counted = operands.product, 1 / config.base, tables(config, digits)
    widths = (config.digits, config.b_digits) if digits is None else (digits, digits)
    found = {"chance": np.full(product.shape, chance)}
    for name, (known, commonest, _) in counted.items():
        seen = contexts(operands, name, widths)
        at = np.minimum(np.searchsorted(known, seen), len(known) - 1)
        found[name] = np.where((known[at] == seen)[:, None], commonest[at] == product, chance)
    best = np.stack([share for _, _, share in counted.values()]).argmax(0)
    every = np.stack([found[name] for name in counted])
    found["both_ends"] = np.take_along_axis(every, best[None, None], axis=0)[0]
    return found


def baselines(
    operands: Operands, counted: Bool[np.ndarray, "batch NM"], config: MultiplicationConfig, digits: int | None = None
) -> dict[str, Float[np.ndarray, "batch"]]:
    """Probability that each shortcut has all `counted` digits of a row right; its operands have `digits` of them."""
    hits_of = digit_hits(operands, config, digits)
    return {name: np.where(counted, hits, 1.0).prod(1) for name, hits in hits_of.items()}
