from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from algoprobe.core.statistics import mean_interval, wilson


def test_wilson_known_values():
    # Newcombe (1998), table I: 81/263 and 0/20.
    assert wilson(81, 263) == pytest.approx((0.2553, 0.3662), abs=1e-4)
    assert wilson(0, 20) == pytest.approx((0.0, 0.1611), abs=1e-4)


@given(st.integers(1, 5000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_holds_the_share_and_stays_a_share(counts):
    right, rows = counts
    low, high = wilson(right, rows)
    assert 0 <= low <= right / rows + 1e-12 and right / rows - 1e-12 <= high <= 1
    assert high - low < 1 or rows < 2


def test_mean_interval_is_students():
    mean, low, high = mean_interval([0.9, 0.95, 1.0])
    assert mean == pytest.approx(0.95)
    assert (high - low) / 2 == pytest.approx(4.303 * 0.05 / 3**0.5)
    assert mean_interval([0.5]) == (0.5, 0.5, 0.5)
