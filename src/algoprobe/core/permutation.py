"""The order in which a fixed set is gone through: another permutation each epoch, each a pure function of its key.

Row i of the training stream is row p(i mod N) of a set of N, where p is the permutation of 0..N-1 that the stream's key
and the epoch i div N name: a Feistel network on the smallest even number of bits that holds N, walked until it falls
below N (Black & Rogaway 2002).
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Int
from numba import njit

from .generator import GOLDEN, mix

ROUNDS = 8


@njit(inline="always")
def _permuted(key, place, size):
    """p(place) for the permutation p of 0..size-1 that `key` names."""
    half = 1
    while (np.int64(1) << np.int64(2 * half)) < size:
        half += 1
    low = (np.uint64(1) << np.uint64(half)) - np.uint64(1)
    x = np.uint64(place)
    while True:
        left, right = x >> np.uint64(half), x & low
        for turn in range(ROUNDS):
            left, right = right, left ^ (mix(key ^ mix(right + np.uint64(turn + 1) * GOLDEN)) & low)
        x = (left << np.uint64(half)) | right
        if x < np.uint64(size):
            return np.int64(x)


@njit(cache=True)
def _places(key, indices, size, out):
    for row in range(len(indices)):
        epoch = mix(key ^ mix(np.uint64(indices[row] // size) + GOLDEN))
        out[row] = _permuted(epoch, indices[row] % size, size)


def places(key: int, indices: Int[np.ndarray, "batch"], size: int) -> Int[np.ndarray, "batch"]:
    """Which row of a fixed set of `size` each index of the training stream is."""
    out = np.empty(len(indices), np.int64)
    _places(np.uint64(key), indices, size, out)
    return out
