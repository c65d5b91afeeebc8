"""What stands beside an accuracy: baselines, leaks, cards, drawings, lenses' columns and partners; and errors."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import replace

import numpy as np
import pytest

from algoprobe.core.config import from_dict
from algoprobe.core.errors import UsageError
from algoprobe.tasks.multiplication import MultiplicationConfig, MultiplicationTask
from algoprobe.tasks.multiplication.opening import exchanged_digits
from algoprobe.tasks.task import Task

TASK = MultiplicationTask(MultiplicationConfig(test_rows=500))
WHOLE = TASK.test(TASK.cells()[0], 500)


def test_it_is_a_task_with_a_cell_for_the_product_and_one_for_each_digit() -> None:
    assert isinstance(TASK, Task)
    assert [cell.name for cell in TASK.cells()] == ["product", *(f"product digit {k}" for k in range(8))]
    with pytest.raises(UsageError, match="product"):
        TASK.cells(("digits",))


def test_a_row_is_right_when_every_digit_is_and_a_digit_when_it_is() -> None:
    answers = WHOLE.targets.copy()
    assert TASK.grade(WHOLE, answers).all()
    answers[3, 5] = answers[3, 5] % 10 + 1
    assert np.flatnonzero(~TASK.grade(WHOLE, answers)).tolist() == [3]
    for cell in TASK.cells()[1:]:
        wrong = np.flatnonzero(~TASK.grade(TASK.test(cell, 500), answers))
        assert wrong.tolist() == ([3] if cell.value == 5 else [])
    with pytest.raises(UsageError, match="answers"):
        TASK.grade(WHOLE, answers[:, :3])


def test_an_explicit_chain_is_written_by_the_model_and_judged_by_the_product() -> None:
    task = MultiplicationTask(replace(TASK.config, chain="explicit"))
    batch = task.test(task.cells()[0], 10)
    assert batch.decoded and batch.targets.shape[1] == 46 + 1 + 8
    answers = np.ones_like(batch.targets)
    answers[:, -8:] = batch.targets[:, -8:]
    assert task.grade(batch, answers).all() and not WHOLE.decoded


def test_shortcuts_know_the_ends_of_a_product() -> None:
    by_digit = [{n: v.mean() for n, v in TASK.baselines(TASK.test(cell, 500)).items()} for cell in TASK.cells()[1:]]
    assert by_digit[0]["last_digit"] == 1 and by_digit[1]["last_digit"] < 0.3
    assert by_digit[1]["last_two_digits"] > 0.99 and by_digit[2]["last_two_digits"] < 0.3
    assert by_digit[7]["first_two_digits"] > 0.9
    assert all(0.05 < by_digit[k]["both_ends"] < 0.2 for k in (3, 4))
    assert all(np.isclose(digit["chance"], 0.1) for digit in by_digit)
    whole = TASK.baselines(WHOLE)
    assert np.allclose(whole["chance"], 1e-8) and whole["both_ends"].mean() < 0.01


def test_shortcuts_of_shorter_rows_know_the_zeros_above_them() -> None:
    at = TASK.at_size(3)
    found = [{n: v.mean() for n, v in at.baselines(at.test(cell, 500)).items()} for cell in at.cells()[1:]]
    assert found[6]["both_ends"] == found[7]["both_ends"] == 1 and found[5]["first_two_digits"] > 0.8
    assert all(found[k]["both_ends"] < 0.3 for k in (2, 3))


def test_nothing_of_the_test_is_trained_on_and_the_card_counts() -> None:
    leaks = TASK.leaks(0, 5000)
    assert leaks["exact"] == leaks["exchanged"] == leaks["kept_by_hash"] == 0 and leaks["test_rows"] == 500
    card = TASK.card(0, 2000)
    assert card["pairs"] == 81_000_000 and sum(card["histograms"]["digits of a"].values()) == 2000
    assert card["baselines"]["chance"] == pytest.approx(1e-8)


def test_the_drawing_marks_wrong_digits() -> None:
    answers = WHOLE.targets[0].copy()
    right = TASK.draw(TASK.worked(WHOLE, 0, answers))
    answers[2] = answers[2] % 10 + 1
    worked = TASK.worked(WHOLE, 0, answers)
    wrong = TASK.draw(worked)
    for drawing in (right, wrong):
        ET.fromstring(drawing)
    assert "every digit right" in right and "1 digit wrong" in wrong
    assert wrong.count('class="ring wrong"') == 1 and wrong.count('class="ring right"') == 7
    a, b = (int(part) for part in worked["multiply"].split(" × "))
    assert worked["accepted"] == [str(a * b)] != [worked["answer"]]
    assert "?" in TASK.draw(TASK.worked(WHOLE, 0, np.full(8, 16)))  # the model said `#`


def test_partners_differ_in_every_digit_of_the_product() -> None:
    pair = TASK.pair(WHOLE)
    assert len(pair.clean) > 450 and (pair.clean.targets != pair.corrupted.targets).all()
    total = sum(mask.astype(int) for mask in pair.columns.values())
    assert (total == 1).all()


def test_columns_have_names_and_what_they_hold() -> None:
    kinds = TASK.column_kinds(WHOLE)
    assert list(kinds) == ["a0", "a1", "a2", "a3", "*", "b0", "b1", "b2", "b3", "E", *(f"→c{k}" for k in range(8))]
    assert all(mask.sum() == 500 for mask in kinds.values())
    sums = TASK.column_numbers(WHOLE)["running_sum_3"]
    assert np.array_equal(sums[kinds["→c3"]], WHOLE.source.running_sums[:, 3]) and np.isnan(sums).sum() == 500 * 17
    assert np.array_equal(TASK.column_targets(WHOLE)["carry_2"][:, -6], WHOLE.source.running_sums[:, 2] // 10)
    whole = TASK.intermediate(WHOLE)
    assert np.array_equal(whole["running_sum"][:, -8:], WHOLE.source.running_sums)
    assert np.array_equal(whole["product_sum"][:, -8:], WHOLE.source.product_sums)


def test_one_digit_is_exchanged_for_another() -> None:
    for place, (name, tokens) in enumerate(exchanged_digits(WHOLE, TASK.config).items()):
        column = place if name[0] == "a" else place + 1
        changed = tokens != WHOLE.tokens
        assert changed[:, column, 0].all() and changed.sum() == len(WHOLE)
        found = np.bincount(tokens[:, column, 0] - 1, minlength=10)
        assert (found[0] == 0) == name.endswith("3") and (found[1:] > 10).all()


def test_a_digit_without_another_value_is_not_exchanged() -> None:
    task = MultiplicationTask(replace(TASK.config, base=2, digits=6, test_rows=20))
    batch = task.test(task.cells()[0], 20)
    found = exchanged_digits(batch, task.config)
    assert set(found) == {f"{letter}{place}" for letter in "ab" for place in range(5)}
    assert all((tokens != batch.tokens).any((1, 2)).all() for tokens in found.values())


def test_large_sums_are_what_they_are() -> None:
    task = MultiplicationTask(MultiplicationConfig(digits=64, base=64, test_rows=20))
    batch = task.test(task.cells()[0], 20)
    assert np.array_equal(task.intermediate(batch)["running_sum"][:, -128:], batch.source.running_sums)
    assert batch.source.running_sums.max() > 2**15


def test_more_digits_are_tested_than_trained_on() -> None:
    config = replace(TASK.config, trained_digits=3, sparse=0.5)
    task = MultiplicationTask(config)
    assert task.stages() == 3 and np.array_equal(task.test(task.cells()[0], 500).tokens, WHOLE.tokens)
    for split in ("train", "validation"):
        operands = task.sample(split, 0, np.arange(500)).source
        assert operands.a.shape == (500, 4) and operands.lengths.max() == 3
    same = MultiplicationTask(replace(config, trained_digits=4, sparse=0.0)).operands("train", 0, np.arange(50))
    assert (same.lengths == 4).all()
    assert config.train_digest != replace(config, trained_digits=None).train_digest


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"digits": 0}, "task.digits"),
        ({"base": 1}, "task.base"),
        ({"digits": 1, "base": 3}, "more digits or a larger base"),
        ({"chain": "implict"}, "Did you mean 'implicit'"),
        ({"places": "keep"}, "Did you mean 'kept'"),
        ({"held_out": 0.5}, "task.held_out"),
        ({"sparse": 1.5}, "task.sparse"),
        ({"base": 6, "digits": 2, "held_out": 0.01}, "task.held_out"),
        ({"held_out": 1e-9}, "task.held_out"),
        ({"smoothing": 0.0}, "task.smoothing"),
        ({"train_rows": 10**8}, "task.train_rows"),
        ({"train_rows": 500, "sparse": 0.5}, "task.sparse"),
        ({"train_rows": 500, "trained_digits": 3}, "task.trained_digits"),
        ({"trained_digits": 5}, "task.trained_digits"),
        ({"digits": 8, "digits_b": 1, "chain": "explicit"}, "task.chain"),
    ],
)
def test_impossible_configs_say_what_is_allowed(fields: dict, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        from_dict(MultiplicationConfig, fields, "task.")
