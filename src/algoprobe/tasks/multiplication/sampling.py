"""Pairs of operands as a kernel, and which of them are kept for tests and validation.

A pair is kept by a hash that does not depend on the order of its operands: neither a · b nor b · a of a test row is
ever trained on. Pairs with an operand of a single digit are all trained on, since they are too few to be spared,
unless an operand of the task has no more.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from jaxtyping import Int
from numba import njit

from algoprobe.core.generator import GOLDEN, begin, below, mix, uniform
from algoprobe.core.stream import Stream

from .config import MultiplicationConfig
from .operands import Operands

TRAIN, VALIDATION, TEST = 0, 1, 2
MOST_OFFSET = 10.0**9
"""More tokens than any chain has."""
FEW_NEW = 0.01
"""Share of new pairs in a block of draws below which a small group counts as exhausted."""


@njit(inline="always")
def _hash(number):
    value = np.uint64(0)
    for k in range(len(number)):
        # Zeros above the number change nothing, so a pair is itself in every width.
        if number[k]:
            value += mix(np.uint64(k + 1) * GOLDEN ^ mix(np.uint64(number[k])))
    return mix(value)


@njit(inline="always")
def _part(a, b, held_out, fewest):
    """Which part a pair belongs to: kept for tests, for validation, or trained on."""
    long_a = long_b = fewest == 1
    for k in range(1, len(a)):
        long_a |= a[k] != 0
    for k in range(1, len(b)):
        long_b |= b[k] != 0
    if not (long_a and long_b):
        return TRAIN
    share = np.float64(mix(_hash(a) + _hash(b)) >> np.uint64(11)) * (1.0 / 9007199254740992.0)
    if share < held_out:
        return TEST
    return VALIDATION if share < 2 * held_out else TRAIN


@njit(inline="always")
def _number(state, number, length, base):
    """`length` random digits without a leading zero (but for 0 itself), zeros above."""
    for k in range(len(number)):
        number[k] = below(state, base) if k < length else 0
    if length > 1:
        number[length - 1] = 1 + below(state, base - 1)


@njit(inline="always")
def _thin(state, number, kept):
    """Each digit becomes 0 unless it is kept."""
    for k in range(len(number)):
        if uniform(state) >= kept:
            number[k] = 0


@njit(cache=True)
def _draw(key, indices, most_a, most_b, base, shorter, sparse, held_out, fewest, part, a, b, attempts):
    state = np.empty(2, np.uint64)
    for row in range(len(indices)):
        begin(state, key, indices[row])
        while True:
            attempts[row] += 1
            length_a, length_b = most_a, most_b
            if shorter > 0 and uniform(state) < shorter:
                length_a, length_b = 1 + below(state, most_a), 1 + below(state, most_b)
            _number(state, a[row], length_a, base)
            _number(state, b[row], length_b, base)
            if sparse > 0 and uniform(state) < sparse:
                kept = uniform(state)
                _thin(state, a[row], kept)
                _thin(state, b[row], kept)
            if _part(a[row], b[row], held_out, fewest) == part:
                break


def drawn(
    config: MultiplicationConfig,
    key: int,
    indices: Int[np.ndarray, "batch"],
    part: int,
    most: int | None = None,
    mixed: bool = True,
) -> Operands:
    """The pairs of a stream at `indices`, drawn again until they belong to `part`; of at most `most` digits each.

    Where `most` leaves too few pairs for some to be spared, they are training rows whatever `part` says.
    `mixed` says whether there are rows with shorter and sparse operands among them, as the config has it.
    """
    shorter, sparse = (config.shorter, config.sparse) if mixed else (0.0, 0.0)
    rows, n, m = len(indices), config.digits, config.b_digits
    a, b, attempts = np.zeros((rows, n), np.int16), np.zeros((rows, m), np.int16), np.zeros(rows, np.int64)
    most_a, most_b = min(n, most or n), min(m, most or m)
    if not config.spares(most_a, most_b):
        part = TRAIN  # the first stages of a curriculum over digits: so few pairs belong nowhere else
    _draw(
        np.uint64(key), np.ascontiguousarray(indices, np.int64), most_a, most_b, config.base, shorter, sparse,
        config.held_out, config.fewest_spared, part, a, b, attempts,
    )  # fmt: skip
    return Operands(a, b, config.base, attempts)


def first_distinct(config: MultiplicationConfig, split: str, part: int, count: int) -> Operands:
    """The first `count` distinct pairs of a stream of full operands (nearly all there are, where they are fewer)."""
    key = Stream("multiplication", config.test_digest, split, 0).key
    return _first_distinct(config, key, part, count)


@lru_cache(maxsize=8)
def _first_distinct(config: MultiplicationConfig, key: int, part: int, count: int) -> Operands:
    block, found, start = max(1024, count // 2), None, 0
    while found is None or len(found) < count:
        more = drawn(config, key, np.arange(start, start + block), part, mixed=False)
        before = 0 if found is None else len(found)
        found = more if found is None else found.followed_by(more)
        rows = np.concatenate([found.a, found.b], axis=1)
        found = found[np.sort(np.unique(rows, axis=0, return_index=True)[1])]
        start += block
        if len(found) - before < FEW_NEW * block:
            break
    return found[:count]


def offsets(key: int, indices: Int[np.ndarray, "batch"], smoothing: float) -> Int[np.ndarray, "batch"]:
    """o of each row, P(o) = (1 - exp(-λ)) exp(-λ o)."""
    out = np.empty(len(indices), np.int64)
    _offsets(np.uint64(key), np.ascontiguousarray(indices, np.int64), smoothing, out)
    return out


@njit(cache=True)
def _offsets(key, indices, smoothing, out):
    state = np.empty(2, np.uint64)
    for row in range(len(indices)):
        begin(state, key, indices[row])
        # The largest o with u <= exp(-λ o), for u uniform in (0, 1].
        out[row] = np.int64(min(-np.log(1.0 - uniform(state)) / smoothing, MOST_OFFSET))


def parts(operands: Operands, config: MultiplicationConfig) -> Int[np.ndarray, "batch"]:
    """Which part each pair belongs to: `TRAIN`, `VALIDATION` or `TEST`."""
    out = np.empty(len(operands), np.int64)
    _parts(operands.a, operands.b, config.held_out, config.fewest_spared, out)
    return out


@njit(cache=True)
def _parts(a, b, held_out, fewest, out):
    for row in range(len(out)):
        out[row] = _part(a[row], b[row], held_out, fewest)
