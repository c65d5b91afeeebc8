"""Rows are pure functions of their key; what is kept for tests is never trained on, in either order of operands."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from algoprobe.core.errors import UsageError
from algoprobe.tasks.multiplication import MultiplicationConfig, MultiplicationTask
from algoprobe.tasks.multiplication.operands import Operands
from algoprobe.tasks.multiplication.sampling import TEST, TRAIN, VALIDATION, first_distinct, offsets, parts

SMALL = MultiplicationConfig(digits=3, base=4, test_rows=200)
MIXES = {
    "full": SMALL,
    "mixed": replace(SMALL, shorter=0.5, sparse=0.5),
    "unequal": replace(SMALL, digits_b=2, held_out=0.2),
    "one digit": MultiplicationConfig(digits=4, digits_b=1, test_rows=200),
    "fixed": replace(SMALL, train_rows=500),
    "implicit": replace(SMALL, chain="implicit"),
}


def numbers(found: Operands) -> set[tuple[tuple[int, ...], tuple[int, ...]]]:
    width = max(found.a.shape[1], found.b.shape[1])
    a, b = (part.tolist() for part in (found.padded(width, width).a, found.padded(width, width).b))
    return {(tuple(x), tuple(y)) for x, y in zip(a, b)}


@pytest.mark.parametrize("name", MIXES)
@settings(max_examples=20)
@given(indices=st.lists(st.integers(0, 2**60), min_size=1, max_size=20, unique=True), rng=st.randoms())
def test_a_row_depends_on_its_index_alone(name: str, indices: list[int], rng) -> None:
    task = MultiplicationTask(MIXES[name])
    whole = task.sample("train", 3, np.array(indices))
    order = np.array(rng.sample(range(len(indices)), len(indices)))
    again = task.sample("train", 3, np.array(indices)[order])
    assert np.array_equal(again.source.a, whole.source.a[order])
    assert np.array_equal(again.source.b, whole.source.b[order])
    assert np.array_equal(again.axes["removed"], whole.axes["removed"][order])


@pytest.mark.parametrize("name", MIXES)
def test_no_test_or_validation_row_is_trained_on_in_either_order(name: str) -> None:
    task = MultiplicationTask(MIXES[name])
    trained = numbers(task.operands("train", 0, np.arange(20_000)))
    test = numbers(task.test(task.cells()[0], 200).source)
    validation = {(a, b) for a, b in numbers(task.operands("validation", 0, np.arange(500)))}
    assert len(test) >= 20
    for kept in (test, validation):
        assert not trained & kept and not trained & {(b, a) for a, b in kept}
    assert not test & validation


def test_the_parts_have_their_shares() -> None:
    config = replace(SMALL, digits=4, base=10, held_out=0.1)
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 10, (2, 50_000, 4), dtype=np.int16)
    found = parts(Operands(a, b, 10, np.ones(len(a), np.int64)), config)
    assert abs((found == TEST).mean() - 0.1) < 0.01 and abs((found == VALIDATION).mean() - 0.1) < 0.01
    assert np.array_equal(found, parts(Operands(b, a, 10, np.ones(len(a), np.int64)), config))
    assert (found[(a[:, 1:] == 0).all(1)] == TRAIN).all()


@pytest.mark.parametrize(
    ("config", "spared"),
    [
        (MIXES["one digit"], [False, True, True, True]),
        (replace(SMALL, base=2, digits=6), [False] * 5 + [True]),
        (replace(SMALL, base=64, digits=2), [False, True]),
    ],
)
def test_a_curriculum_over_digits_is_judged_in_every_stage(config: MultiplicationConfig, spared: list[bool]) -> None:
    task = MultiplicationTask(config)
    for stage in range(1, task.stages() + 1):
        at = task.at_stage(stage)
        held_out = at.operands("validation", 0, np.arange(100))
        assert (held_out.lengths.max(1) <= stage).all()
        assert (parts(held_out, config) == VALIDATION).all() == spared[stage - 1]


def test_sizes_with_too_few_pairs_are_no_test_sizes() -> None:
    task = MultiplicationTask(MultiplicationConfig(digits=4, base=4))
    with pytest.raises(UsageError, match="3 to 4"):
        task.at_size(2)
    assert (task.at_size(3).test(task.cells()[0], 20).source.lengths == 3).all()


def test_a_fixed_set_is_distinct_and_each_epoch_goes_through_all_of_it() -> None:
    task = MultiplicationTask(MIXES["fixed"])
    epochs = [numbers(task.operands("train", 0, np.arange(e * 500, (e + 1) * 500))) for e in range(2)]
    assert len(epochs[0]) == 500 and epochs[0] == epochs[1]
    first = task.operands("train", 0, np.arange(500)).a
    assert not np.array_equal(first, task.operands("train", 0, np.arange(500, 1000)).a)


def test_operands_have_all_their_digits_unless_the_mix_says_otherwise() -> None:
    full = MultiplicationTask(SMALL).operands("train", 0, np.arange(2000))
    assert (full.lengths == 3).all()
    shorter = MultiplicationTask(replace(SMALL, shorter=1.0)).operands("train", 0, np.arange(6000)).lengths
    assert all(0.2 < (shorter == length).mean() < 0.45 for length in (1, 2, 3))
    sparse = MultiplicationTask(replace(SMALL, sparse=1.0)).operands("train", 0, np.arange(6000))
    # A digit stays with a probability uniform in 0..1, and is 0 by chance a quarter of the times (a leading one never).
    assert abs((sparse.a[:, 0] == 0).mean() - 0.625) < 0.03 and abs((sparse.a[:, 2] == 0).mean() - 0.5) < 0.03


def test_a_stage_holds_operands_of_so_many_digits() -> None:
    task = MultiplicationTask(SMALL)
    assert task.stages() == 3
    for stage in (1, 2, 3):
        assert (task.at_stage(stage).operands("train", 0, np.arange(500)).lengths <= stage).all()
    with pytest.raises(UsageError, match="stage"):
        task.at_stage(4)
    assert MultiplicationTask(MIXES["fixed"]).stages() == 1
    assert MultiplicationTask(MIXES["implicit"]).stages() == MIXES["implicit"].chain_length + 1


def test_smaller_test_rows_keep_the_layout() -> None:
    config = MultiplicationConfig(test_rows=100)
    task = MultiplicationTask(config)
    small = task.at_size(2)
    batch = small.test(small.cells()[0], 100)
    assert (batch.source.lengths == 2).all() and batch.tokens.shape[1:] == task.test(task.cells()[0], 9).tokens.shape[
        1:
    ]
    assert (parts(batch.source, config) == TEST).all()
    with pytest.raises(UsageError, match="2 to 4"):
        task.at_size(5)


def test_further_tokens_are_removed_with_their_probability() -> None:
    assert offsets(7, np.arange(100), 1e-300).min() >= 10**6  # more than any chain has, whatever λ
    found = np.bincount(offsets(7, np.arange(400_000), 4.0), minlength=3) / 400_000
    expected = (1 - np.exp(-4.0)) * np.exp(-4.0 * np.arange(3))
    assert np.allclose(found[:3], expected, atol=0.001)


def test_tests_are_the_same_for_every_regime_and_mix() -> None:
    one = MultiplicationTask(SMALL)
    others = [replace(SMALL, shorter=0.4), replace(SMALL, chain="implicit"), replace(SMALL, places="coupled")]
    rows = numbers(one.test(one.cells()[0], 200).source)
    for config in (*others, replace(SMALL, train_rows=300)):
        task = MultiplicationTask(config)
        assert numbers(task.test(task.cells()[0], 200).source) == rows
    assert len(first_distinct(SMALL, "test", TEST, 10)) == 10
