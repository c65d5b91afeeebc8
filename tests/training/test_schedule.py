from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from algoprobe.training.config import LoopsConfig, TrainConfig
from algoprobe.training.schedule import draw_loops, learning_rate_factor, recommended_loops


def test_learning_rate_rises_holds_and_falls():
    config = TrainConfig(examples=1000, batch=10, warmup=100, schedule="linear", decay=0.2)
    factors = [learning_rate_factor(config, step) for step in range(config.steps)]
    assert factors[:3] == pytest.approx([0.1, 0.2, 0.3]) and factors[9:80] == [1.0] * 71
    assert factors[80:] == pytest.approx([(100 - s) / 20 for s in range(80, 100)])


def test_cosine_falls_from_one_and_constant_does_not_fall():
    cosine = TrainConfig(examples=1000, batch=10, warmup=0, schedule="cosine", decay=1.0)
    assert learning_rate_factor(cosine, 0) == 1.0
    assert learning_rate_factor(cosine, 50) == pytest.approx(0.5)
    assert 0 < learning_rate_factor(cosine, 99) < 0.001
    constant = TrainConfig(examples=1000, batch=10, warmup=0, schedule="constant")
    assert {learning_rate_factor(constant, step) for step in range(100)} == {1.0}


@given(st.integers(0, 10**6), st.integers(0, 5), st.integers(1, 4), st.integers(0, 6), st.integers(1, 9))
def test_drawn_loops_stay_in_range_and_repeat(step, seed, low, more, stage):
    for draw in ("uniform", "poisson"):
        config = LoopsConfig(draw=draw, low=low, high=low + more, follow_stage=True)
        loops = draw_loops(config, 3, stage, seed, step)
        assert low + stage <= loops <= low + more + stage
        assert loops == draw_loops(config, 3, stage, seed, step)
        assert low + stage <= recommended_loops(config, 3, stage) <= low + more + stage


def test_loop_distributions():
    uniform = LoopsConfig(draw="uniform", low=2, high=5)
    drawn = [draw_loops(uniform, 1, 0, 0, step) for step in range(4000)]
    assert {r: drawn.count(r) for r in (2, 3, 4, 5)} == pytest.approx(dict.fromkeys((2, 3, 4, 5), 1000), rel=0.12)
    poisson = LoopsConfig(draw="poisson", low=1, high=60, mean=4.0)
    drawn = [draw_loops(poisson, 1, 0, 0, step) for step in range(4000)]
    assert sum(drawn) / 4000 == pytest.approx(4.02, abs=0.12)  # clipping lifts the mean by e⁻⁴
    assert draw_loops(LoopsConfig(), 7, 3, 0, 0) == 7


def test_the_budget_is_whole_batches():
    assert TrainConfig(examples=1001, batch=10).steps == 101


def test_a_restarted_schedule_warms_up_again_and_keeps_its_end():
    config = TrainConfig(examples=12_800, batch=128, warmup=1280, decay=0.5)
    assert learning_rate_factor(config, 20, began=20) == pytest.approx(0.1)
    assert learning_rate_factor(config, 29, began=20) == learning_rate_factor(config, 29) == 1.0
    assert learning_rate_factor(config, 75, began=20) == learning_rate_factor(config, 75) == 0.5


def test_a_poisson_draw_is_read_at_its_largest():
    assert recommended_loops(LoopsConfig(draw="poisson", low=2, high=8), 4, 1) == 8
    assert recommended_loops(LoopsConfig(draw="uniform", low=2, high=8), 4, 1) == 5
