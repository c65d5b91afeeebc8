from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from algoprobe.core.errors import UsageError
from algoprobe.probes.dynamics import first_right, loop_dynamics, margin
from algoprobe.probes.halting import answer_adaptively, divergence, entropy, halting_loops
from algoprobe.probes.halting_settings import RULES, Halting
from algoprobe.probes.inputs import Inputs, answer_logits
from tests.probes.small import LOOPED, PLAIN, VARIANTS, build, rows

CLASSES = 5
ONE_COLUMN = {name: value for name, value in VARIANTS.items() if value[0].loops > 1}


def trajectory(*steps: list[float]) -> torch.Tensor:
    """Log-probabilities of one row, `[loops, 1, classes]`, from probabilities."""
    return torch.tensor(steps, dtype=torch.float64).log()[:, None]


FLAT = [0.2] * 5
SURE = [0.96, 0.01, 0.01, 0.01, 0.01]
OTHER = [0.01, 0.96, 0.01, 0.01, 0.01]
NO_HOPS, WRONG = torch.ones(1), torch.zeros(9, 1, dtype=torch.bool)


def stop(rule: str, log_p: torch.Tensor, hops=NO_HOPS, right=WRONG, **thresholds) -> int:
    return int(halting_loops(Halting(rule, **thresholds), log_p, hops, right[: len(log_p)])[0])


def test_still_but_undecided_stops_kl_alone_and_not_kl_with_entropy():
    """The paper's reason for the entropy: a distribution that does not move need not have decided."""
    log_p = trajectory(FLAT, FLAT, FLAT, FLAT, SURE, SURE, SURE)
    assert stop("kl", log_p) == 2
    assert stop("kl-entropy", log_p, entropy=1.0) == 6
    assert stop("confidence", log_p) == 5
    assert stop("kl-entropy", log_p, entropy=2.0) == 2  # ln 5 = 1.61: no threshold, no protection


def test_a_rule_that_never_fires_takes_the_last_loop():
    assert stop("kl", trajectory(SURE, OTHER, SURE, OTHER)) == 4
    assert stop("kl-entropy", trajectory(FLAT, FLAT, FLAT), entropy=0.5) == 3
    assert stop("oracle", trajectory(SURE, SURE)) == 2
    assert stop("confidence", trajectory(FLAT)) == 1


def test_no_rule_of_two_distributions_stops_after_one_loop():
    assert stop("kl", trajectory(SURE, SURE, SURE)) == stop("kl-entropy", trajectory(SURE, SURE, SURE)) == 2


def test_the_oracle_and_the_hop_rate():
    right = torch.tensor([[False], [False], [True], [False], [True]])
    assert stop("oracle", trajectory(*[SURE] * 5), right=right) == 3
    for hops, rate, loops in ((6, 1.0, 6), (6, 2.0, 3), (7, 2.0, 4), (1, 4.0, 1), (90, 1.0, 8)):
        assert stop("hop-rate", trajectory(*[FLAT] * 8), torch.tensor([hops]), rate=rate) == loops


@given(st.lists(st.lists(st.floats(-30, 30), min_size=CLASSES, max_size=CLASSES), min_size=2, max_size=2))
def test_laws_of_entropy_and_divergence(logits):
    p, q = torch.tensor(logits, dtype=torch.float64).log_softmax(-1)
    assert -1e-12 <= float(entropy(p)) <= math.log(CLASSES) + 1e-12
    assert float(divergence(p, q)) >= 0 and float(divergence(p, p)) == 0
    assert float(divergence(p, q)) == pytest.approx(float((p.exp() * (p - q)).sum()), abs=1e-9)


def test_certainty_is_no_obstacle():
    sure = torch.tensor([0.0, -math.inf, -math.inf])
    assert float(entropy(sure)) == 0 and float(divergence(sure, sure)) == 0


@given(st.data())
def test_stopping_times_follow_the_definition_and_the_thresholds(data):
    loops = data.draw(st.integers(1, 6))
    generator = torch.Generator().manual_seed(data.draw(st.integers(0, 999)))
    log_p = (3 * torch.randn(loops, 4, CLASSES, generator=generator, dtype=torch.float64)).log_softmax(-1)
    right, hops = torch.rand(loops, 4, generator=generator) < 0.3, torch.arange(1, 5)
    low, high = sorted(data.draw(st.tuples(st.floats(0.01, 5), st.floats(0.01, 5))))
    tight, loose = (halting_loops(Halting("kl", kl=x), log_p, hops, right) for x in (low, high))
    both = halting_loops(Halting("kl-entropy", kl=high, entropy=1.0), log_p, hops, right)
    assert (loose <= tight).all() and (loose <= both).all() and (both <= loops).all()
    oracle = halting_loops(Halting("oracle"), log_p, hops, right)
    for row in range(4):
        hits = [t + 1 for t in range(loops) if right[t, row]]
        assert oracle[row] == (hits[0] if hits else loops)
        moves = [float(divergence(log_p[t, row], log_p[t - 1, row])) for t in range(1, loops)]
        still = [t + 2 for t, move in enumerate(moves) if move < high]
        assert loose[row] == (still[0] if still else loops)


@pytest.mark.parametrize("chunk", [1, 4, 128])
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", ONE_COLUMN)
def test_adaptive_evaluation_is_the_rule_on_the_whole_trajectory(name, rule, chunk):
    """Rows that leave the batch have the answers, and the loops, that they would have had if all had stayed."""
    config, sizes = ONE_COLUMN[name]
    model, inputs = build(config, sizes), rows(sizes, batch=12)
    hops = np.arange(12) % 4 + 1
    every = model(inputs.tokens, inputs.lengths, 1, loops=7, every_loop=True)[:, :, 0]
    right = inputs.accepted[:, 0].gather(1, every.argmax(-1).T).T
    found = answer_adaptively(
        model, inputs, halting := Halting(rule, kl=0.05, entropy=1.5, confidence=0.6), 7, hops, chunk
    )
    stops = halting_loops(halting, every.log_softmax(-1), torch.from_numpy(hops), right)
    assert found.loops.tolist() == stops.tolist()
    assert found.answers[:, 0].tolist() == every.argmax(-1)[stops - 1, torch.arange(12)].tolist()


def test_rows_that_halted_cost_nothing_more():
    model, inputs = build(LOOPED, PLAIN), rows(PLAIN, batch=8)
    sizes = []
    model.loop_out.register_forward_hook(lambda module, args, out: sizes.append(len(out)))
    hops = np.array([1, 1, 2, 2, 2, 5, 5, 5])
    found = answer_adaptively(model, inputs, Halting("hop-rate"), 9, hops)
    assert sizes == [8, 6, 3, 3, 3] and found.loops.tolist() == hops.tolist()


def test_what_halting_cannot_do_is_named():
    model = build(LOOPED, PLAIN)
    with pytest.raises(UsageError, match="hop-rate"):
        answer_adaptively(model, rows(PLAIN), Halting("hop-rate"), 4)
    with pytest.raises(UsageError, match="one answer column, and these rows have 2"):
        answer_adaptively(model, rows(PLAIN, read=2), Halting(), 4)
    with pytest.raises(UsageError, match="loops: 0"):
        answer_adaptively(model, rows(PLAIN), Halting(), 0)
    with pytest.raises(UsageError, match=r"halting\.kl: 0"):
        Halting(kl=0)


def test_margins_and_first_right_loops():
    logits = torch.tensor([[3.0, 1.0, 2.0], [0.0, 5.0, 4.0]])
    assert margin(logits, torch.tensor([[True, False, False], [True, False, True]])).tolist() == [1.0, -1.0]
    assert first_right(torch.tensor([[False, True, False], [True, True, False]])).tolist() == [2, 1, 0]


def test_dynamics_are_those_of_the_states():
    config = replace(LOOPED, position="relative", causal=True)
    model, inputs = build(config, PLAIN), rows(PLAIN, batch=8)
    found, first = loop_dynamics(model, inputs, 4)
    states = []
    model.loop_out.register_forward_hook(lambda module, args, out: states.append(out.detach()))
    model(inputs.tokens, inputs.lengths, loops=4)
    inside = inputs.real("right")
    for loop, row in enumerate(found, 1):
        logits = answer_logits(model, inputs, loop)[:, 0]
        log_p = logits.log_softmax(-1)
        assert row["loop"] == loop and row["rows"] == 8
        assert row["accuracy"] == float((logits.argmax(-1) == inputs.targets[:, 0]).double().mean())
        assert row["entropy"] == pytest.approx(float(-(log_p.exp() * log_p).sum(-1).mean()))
        others = logits.scatter(1, inputs.targets, -torch.inf).amax(-1)
        assert row["margin"] == pytest.approx(float((logits.gather(1, inputs.targets)[:, 0] - others).mean()))
        if loop > 1:
            change = [
                float((states[loop - 1][r, c] - states[loop - 2][r, c]).norm() / states[loop - 1][r, c].norm())
                for r, c in ((r, inside[r]) for r in range(8))
            ]
            assert row["change"] == pytest.approx(np.mean(change))
    assert found[0]["kl"] is None and found[0]["change"] is None
    assert first.shape == (8,)


def test_a_model_at_its_fixed_point_does_not_move():
    model = build(replace(LOOPED, inject=True, outer_norm=False, recurrence="reset"), PLAIN)
    with torch.no_grad():
        model.channel.alpha.zero_()  # what a loop reads is the input alone, whatever came before
    found, _ = loop_dynamics(model, rows(PLAIN), 3)
    assert found[1]["change"] == 0.0 and found[2]["kl"] == 0.0
    assert len({row["margin"] for row in found}) == 1


def test_inputs_are_left_as_they_were():
    model, inputs = build(LOOPED, PLAIN), rows(PLAIN)
    before = Inputs(*(getattr(inputs, name).clone() for name in ("tokens", "lengths", "targets", "accepted")))
    answer_adaptively(model, inputs, Halting(), 3)
    for name in ("tokens", "lengths", "targets", "accepted"):
        assert torch.equal(getattr(before, name), getattr(inputs, name))
