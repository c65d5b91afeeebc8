from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numba import njit

from algoprobe.core.generator import begin, below, between, draw, mix, uniform
from algoprobe.core.stream import Stream, derived_seed

WORD = 2**64
words = st.integers(0, WORD - 1)


def plain_mix(z: int) -> int:
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 % WORD
    z = (z ^ z >> 27) * 0x94D049BB133111EB % WORD
    return z ^ z >> 31


@njit
def draws(key, index, count):
    state = np.empty(2, np.uint64)
    begin(state, key, index)
    out = np.empty(count, np.uint64)
    for i in range(count):
        out[i] = draw(state)
    return out


@njit
def numbers(key, bound, count):
    state = np.empty(2, np.uint64)
    whole, real, span = np.empty(count, np.int64), np.empty(count), np.empty(count, np.int64)
    for i in range(count):
        begin(state, key, i)
        whole[i], real[i], span[i] = below(state, bound), uniform(state), between(state, -2, 3)
    return whole, real, span


@given(words)
def test_mix_is_the_published_function(z):
    assert int(mix(np.uint64(z))) == plain_mix(z)


@given(words, words)
def test_draws_are_the_plain_python_sequence(key, index):
    golden = 0x9E3779B97F4A7C15
    start = plain_mix(key ^ plain_mix((index + golden) % WORD))
    step = plain_mix((start + golden) % WORD) | 1
    expected = [plain_mix((start + step * (k + 1)) % WORD) for k in range(5)]
    assert draws(np.uint64(key), np.uint64(index), 5).tolist() == expected


def test_neighbouring_examples_are_independent_and_uniform():
    count, bound = 200_000, 7
    whole, real, span = numbers(np.uint64(Stream("t", "d", "train", 0).key), bound, count)
    observed = np.bincount(whole, minlength=bound)
    assert ((observed - count / bound) ** 2 / (count / bound)).sum() < 27  # chi-squared, 6 degrees: p = 1e-4
    assert abs(real.mean() - 0.5) < 4 * np.sqrt(1 / 12 / count)
    assert set(span.tolist()) == {-2, -1, 0, 1, 2, 3}
    assert abs(np.corrcoef(real[:-1], real[1:])[0, 1]) < 4 / np.sqrt(count)


def test_streams_differ_in_every_part_of_their_name():
    keys = {
        Stream(*name).key
        for name in [("t", "d", "train", 0), ("u", "d", "train", 0), ("t", "e", "train", 0), ("t", "d", "test", 0)]
    } | {Stream("t", "d", "train", seed).key for seed in range(100)}
    assert len(keys) == 103
    assert derived_seed("a", 1) != derived_seed("a", 2) != derived_seed("b", 2)
    assert 0 <= derived_seed("a", 1) < 2**63
