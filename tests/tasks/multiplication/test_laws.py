"""What multiplication is: sums, carries, chains, against whole numbers of Python and the reference."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from algoprobe.tasks.multiplication import MultiplicationConfig, MultiplicationTask, reference
from algoprobe.tasks.multiplication.encoding import numbers_of, removal_stages
from algoprobe.tasks.multiplication.operands import Operands, as_number
from algoprobe.tasks.multiplication.text import operands_of, stored_rows, trained_text


@st.composite
def pairs(draw: st.DrawFn) -> tuple[int, int, int, int, int]:
    """a, b, their widths and the base."""
    base, n, m = draw(st.integers(2, 16)), draw(st.integers(1, 20)), draw(st.integers(1, 20))
    return draw(st.integers(0, base**n - 1)), draw(st.integers(0, base**m - 1)), n, m, base


def operands(a: int, b: int, n: int, m: int, base: int) -> Operands:
    one = [np.array([reference.digits_of(number, width, base)], np.int16) for number, width in ((a, n), (b, m))]
    return Operands(*one, base, np.ones(1, np.int64))


@given(pairs())
def test_digits_are_the_product_and_running_sums_those_of_long_multiplication(case: tuple) -> None:
    a, b, n, m, base = case
    found = operands(*case)
    assert as_number(found.product[0], base) == a * b
    assert found.running_sums[0].tolist() == reference.running_sums(*case)
    assert (found.running_sums % base == found.product).all()
    assert numbers_of(found, 0) == (a, b)
    for j in range(m):
        assert as_number(found.partial_product(j)[0], base) == a * (b // base**j % base) * base**j
        assert as_number(found.partial_sum(j)[0], base) == a * (b % base ** (j + 1))
        assert found.partial_product(j).shape[1] == found.partial_sum(j).shape[1] == n + 1 + j


def test_the_worked_example() -> None:
    config = MultiplicationConfig()
    found = operands_of([(4706, 3159)], config)
    assert stored_rows(found, config) == [
        "6 0 7 4 * 9 5 1 3||4 5 3 2 4 + 0 0 3 5 3 2 ( 4 5 6 7 7 2 ) + 0 0 6 0 7 4 0 ( 4 5 2 8 4 7 0 ) "
        "+ 0 0 0 8 1 1 4 1 #### 4 5 2 6 6 8 4 1"
    ]
    assert found.running_sums[0].tolist() == [54, 35, 72, 96, 36, 28, 14, 1]


@given(st.integers(2, 9), st.integers(2, 9), st.data())
def test_chains_are_written_as_the_reference_writes_them(n: int, m: int, data: st.DataObject) -> None:
    config = MultiplicationConfig(digits=n, digits_b=m, chain="explicit")
    a, b = data.draw(st.integers(0, 10**n - 1)), data.draw(st.integers(0, 10**m - 1))
    (row,) = stored_rows(operands_of([(a, b)], config), config)
    chain = row.partition("||")[2].partition(" #### ")[0]
    assert chain == reference.chain_text(a, b, n, m)
    assert len(chain.split(" ")) == config.chain_length


@pytest.mark.parametrize(
    ("digits", "length"),
    [(2, 8), (3, 24), (4, 46), (5, 74), (6, 108), (7, 148), (9, 246), (11, 368), (12, 438), (20, 1214)],
)
def test_chains_are_as_long_as_the_data_sets(digits: int, length: int) -> None:
    config = MultiplicationConfig(digits=digits, chain="implicit")
    assert config.chain_length == length
    for removal in ("token", "number", "log"):
        stages = removal_stages(MultiplicationConfig(digits=digits, chain="implicit", removal=removal))
        assert stages[0] == 0 and stages[-1] == length and stages == sorted(set(stages))


def test_a_stage_of_whole_numbers_leaves_a_number_at_the_front() -> None:
    config = MultiplicationConfig(chain="implicit", removal="number")
    (row,) = stored_rows(operands_of([(4706, 3159)], config), config)
    fronts = [trained_text(row, gone).split("<|endoftext|>")[1][:10] for gone in removal_stages(config)]
    assert fronts == [" 4 5 3 2 4", " 0 0 3 5 3", " ( 4 5 6 7", " 0 0 6 0 7", " ( 4 5 2 8", " 0 0 0 8 1", " "]


def test_running_sums_have_the_spread_of_the_paper() -> None:
    rows = MultiplicationTask(MultiplicationConfig()).operands("card", 0, np.arange(100_000)).running_sums
    assert np.allclose(rows.mean(0), [20.2, 42.2, 64.5, 91.4, 73.9, 51.9, 29.7, 2.5], atol=0.5)
    assert np.allclose(rows.std(0), [20.0, 29.5, 36.7, 42.8, 37.7, 30.8, 21.3, 2.2], atol=0.5)
    errors = [np.abs(column - np.median(column)).mean() for column in rows.T]
    assert np.allclose(errors, [15.7, 23.8, 29.4, 34.2, 30.2, 24.8, 17.0, 1.7], atol=0.4)
