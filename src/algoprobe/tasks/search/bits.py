"""Sets of vertices as bit masks: vertex v is bit v mod 64 of word v // 64.

A table of sets is one flat `uint64[vertices * words]` array. Kernels get the number of words as the length of a tuple,
`words = (0,) * W`, which the compiler knows: at V <= 63 every loop over words disappears.
"""

from __future__ import annotations

import numpy as np
from numba import njit, types
from numba.extending import intrinsic

ONE = np.uint64(1)
ZERO = np.uint64(0)


def words_for(vertices: int) -> int:
    """Words that hold the ids 1..vertices."""
    return (vertices + 1 + 63) // 64


@intrinsic
def lowest(typingctx, word):
    """Position of the lowest set bit of a non-zero `uint64`, as int64."""

    def build(context, builder, signature, arguments):
        (value,) = arguments
        return builder.cttz(value, context.get_constant(types.boolean, True))

    return types.int64(types.uint64), build


@intrinsic
def highest(typingctx, word):
    """Position of the highest set bit of a non-zero `uint64`, as int64."""

    def build(context, builder, signature, arguments):
        (value,) = arguments
        zeros = builder.ctlz(value, context.get_constant(types.boolean, True))
        return builder.sub(context.get_constant(types.int64, 63), zeros)

    return types.int64(types.uint64), build


@intrinsic
def ones(typingctx, word):
    """Number of set bits of a `uint64`, as int64."""

    def build(context, builder, signature, arguments):
        (value,) = arguments
        return builder.ctpop(value)

    return types.int64(types.uint64), build


@njit(inline="always")
def bit(v):
    """The word that holds only vertex v."""
    return ONE << np.uint64(v & 63)


@njit(inline="always")
def put(table, row, words, v):
    """Add v to set `row` of `table`."""
    table[row * len(words) + (v >> 6)] |= bit(v)


@njit(inline="always")
def holds(table, row, words, v):
    """Whether v is in set `row` of `table`."""
    return (table[row * len(words) + (v >> 6)] & bit(v)) != ZERO


@njit(inline="always")
def size(table, row, words):
    """Number of vertices in set `row` of `table`."""
    count = 0
    for w in range(len(words)):
        count += ones(table[row * len(words) + w])
    return count


@njit(inline="always")
def clear(table, row, words):
    """Empty set `row` of `table`."""
    for w in range(len(words)):
        table[row * len(words) + w] = ZERO
