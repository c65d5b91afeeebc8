"""The counter generator that kernels draw from. Its state is a `uint64[2]` array: position and increment."""

from __future__ import annotations

import numpy as np
from numba import njit

GOLDEN = np.uint64(0x9E3779B97F4A7C15)


@njit(inline="always")
def mix(z):
    """A bijection of 64-bit words whose output bits all depend on all input bits (Stafford's variant 13)."""
    z = np.uint64(z)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@njit(inline="always")
def begin(state, key, index):
    """Put `state` at the start of example `index` of the stream `key`."""
    first = mix(np.uint64(key) ^ mix(np.uint64(index) + GOLDEN))
    state[0] = first
    # Any odd increment walks all 2^64 words; a hash of the start makes it the example's own.
    state[1] = mix(first + GOLDEN) | np.uint64(1)


@njit(inline="always")
def draw(state):
    """The next 64 random bits."""
    state[0] += state[1]
    return mix(state[0])


@njit(inline="always")
def below(state, bound):
    """A whole number uniform in 0..bound-1, for 1 <= bound < 2^32 (bias below bound / 2^32)."""
    return np.int64(((draw(state) >> np.uint64(32)) * np.uint64(bound)) >> np.uint64(32))


@njit(inline="always")
def between(state, low, high):
    """A whole number uniform in low..high, both included."""
    return low + below(state, high - low + 1)


@njit(inline="always")
def uniform(state):
    """A float64 uniform in [0, 1)."""
    return np.float64(draw(state) >> np.uint64(11)) * (1.0 / 9007199254740992.0)
