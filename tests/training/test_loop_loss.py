"""The loss after every loop: what it is, and that the usual one is as it was."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from algoprobe.core.config import digest, from_dict, to_dict
from algoprobe.core.errors import UsageError
from algoprobe.tasks.batch import IGNORE
from algoprobe.training.config import Experiment, LoopsConfig
from algoprobe.training.forward import Arithmetic
from algoprobe.training.objective import cross_entropy, first_loops, loop_cross_entropy
from algoprobe.training.optimisers import build
from algoprobe.training.step import gradients, update

from .test_loop import equal, weights
from .tiny import RECIPES, run, tiny

CPU = Arithmetic(torch.device("cpu"), "float32", "explicit")
LOSSES = ("last", "every", "from-difficulty")


def parts(loss: str, chunks: int = 1):
    """An experiment, its model, and a batch of lookaheads 0 to 3."""
    experiment = tiny(loops=LoopsConfig(loss=loss), chunks=chunks)
    experiment = replace(experiment, task=replace(experiment.task, n=29))
    task = experiment.task.build()
    batch = task.sample("train", 0, np.arange(24))
    return (
        experiment,
        experiment.model.build(task.sizes),
        batch,
        first_loops(experiment.train.loops, batch, "lookahead"),
    )


@given(
    loops=st.integers(1, 6),
    first=st.lists(st.integers(1, 9), min_size=1, max_size=5),
    read=st.integers(1, 3),
    seed=st.integers(0, 99),
)
def test_a_rows_loss_is_the_mean_over_the_loops_it_counts_after(loops, first, read, seed):
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(loops, len(first), read, 7, generator=generator, dtype=torch.float64)
    targets = torch.randint(0, 7, (len(first), read), generator=generator)
    targets[torch.rand(targets.shape, generator=generator) < 0.3] = IGNORE
    wanted = 0.0
    for row, start in enumerate(first):
        counted = [r for r in range(1, loops + 1) if r >= start] or [loops]
        for r in counted:
            wanted += cross_entropy(logits[r - 1, row : row + 1], targets[row : row + 1]) / len(counted)
    torch.testing.assert_close(loop_cross_entropy(logits, targets, torch.tensor(first)), wanted)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("chunks", [1, 3])
def test_gradients_are_those_computed_by_hand(loss, chunks):
    experiment, model, batch, first = parts(loss, chunks)
    assert set(batch.axes["lookahead"]) == {0, 1, 2, 3}
    starts = {"last": [5] * 24, "every": [1] * 24, "from-difficulty": batch.axes["lookahead"]}[loss]
    tokens, lengths = torch.from_numpy(batch.tokens.astype(np.int64)), torch.from_numpy(batch.lengths.astype(np.int64))
    targets = torch.from_numpy(batch.targets.astype(np.int64))
    wanted = []
    for row, start in enumerate(starts):
        after = range(min(max(start, 1), 5), 6)
        for r in after:
            logits = model(tokens[row : row + 1], lengths[row : row + 1], read=1, loops=r)
            wanted.append(cross_entropy(logits, targets[row : row + 1]) / len(after) / 24)
    wanted = torch.stack(wanted).sum()
    expected = torch.autograd.grad(wanted, list(model.parameters()))
    found, extra, answers = gradients(model, batch, 5, experiment.train, CPU, first=first)
    assert extra is None
    torch.testing.assert_close(found, wanted.detach())
    for parameter, gradient in zip(model.parameters(), expected):
        torch.testing.assert_close(parameter.grad, gradient, atol=2e-6, rtol=1e-4)
    with torch.no_grad():
        last = model(tokens, lengths, read=1, loops=5).argmax(-1)
    assert all(torch.equal(answer, last[rows]) for rows, answer in answers)


def test_after_one_loop_there_is_one_loss():
    _, model, batch, _ = parts("last")
    plain = gradients(model, batch, 1, tiny().train, CPU)[0]
    for loss in LOSSES[1:]:
        experiment, model, batch, first = parts(loss)
        torch.testing.assert_close(gradients(model, batch, 1, experiment.train, CPU, first=first)[0], plain)


def test_logits_are_computed_after_every_loop_only_when_asked_for():
    for loss in LOSSES:
        experiment, model, batch, first = parts(loss)
        shapes = []
        model.logits.register_forward_hook(lambda module, inputs, output, shapes=shapes: shapes.append(output.shape))
        update(model, build(experiment.train.optimiser, model), batch, 3, 1.0, experiment.train, CPU, 0, 0, first=first)
        assert [len(shape) for shape in shapes] == ([3] if loss == "last" else [4])


def test_first_loops_start_at_one():
    _, _, batch, _ = parts("last")
    batch.axes["lookahead"][:3] = (-1, 0, 2)
    assert first_loops(LoopsConfig(loss="from-difficulty"), batch, "lookahead")[:3].tolist() == [1, 1, 2]
    assert first_loops(LoopsConfig(loss="every"), batch, "lookahead").tolist() == [1] * 24
    assert first_loops(LoopsConfig(), batch, "lookahead") is None


def test_sophias_curvature_is_that_of_the_last_loop():
    experiment, model, batch, first = parts("every")
    config = replace(experiment.train, optimiser=RECIPES["sophia"].train.optimiser)
    hessians = []
    for start in (None, first):
        optimisers = build(config.optimiser, model)
        update(model, optimisers, batch, 3, 0.0, config, CPU, 0, 0, first=start)
        hessians.append([optimisers[0].state[p]["hessian"] for p in model.parameters()])
    assert all(torch.equal(a, b) for a, b in zip(*hessians)) and any(bool(h.any()) for h in hessians[0])


@pytest.mark.parametrize("loss", LOSSES[1:])
def test_it_learns(loss):
    experiment, model, batch, first = parts(loss)
    optimisers = build(experiment.train.optimiser, model)
    seen = [
        float(update(model, optimisers, batch, 4, 3.0, experiment.train, CPU, step, 0, first=first).loss)
        for step in range(60)
    ]
    assert seen[-1] < 0.5 * seen[0]


@pytest.mark.parametrize("name", ["embedding channel", "reset"])
def test_tiny_runs_learn_and_differ_from_the_plain_ones(name, tmp_path):
    experiment = RECIPES[name]
    run(experiment, tmp_path / "ours", checkpoint_seconds=1e9)
    loops = replace(experiment.train.loops, loss="last")
    run(replace(experiment, train=replace(experiment.train, loops=loops)), tmp_path / "last", checkpoint_seconds=1e9)
    ours = weights(tmp_path / "ours")
    assert not equal(ours, weights(tmp_path / "last"))
    started = experiment.model.build(experiment.task.build().sizes, experiment.seeds.init).state_dict()
    assert ours.keys() == started.keys() and not any(torch.equal(ours[k], started[k]) for k in ours if "blocks" in k)
    assert from_dict(Experiment, to_dict(experiment)) == experiment
    assert digest(experiment) != digest(replace(experiment, train=replace(experiment.train, loops=loops)))


def test_losses_that_make_no_sense_are_refused():
    unlooped = tiny(loops=LoopsConfig(loss="every"))
    with pytest.raises(UsageError, match=r"train\.loops\.loss: 'every' .*allowed: 'last' \(the stack is applied once"):
        replace(unlooped, model=replace(unlooped.model, loops=1)).check()
    naive = tiny(loops=LoopsConfig(loss="from-difficulty"))
    with pytest.raises(
        UsageError, match=r"train\.loops\.loss: 'from-difficulty' .*'last', 'every'.*no order of difficulty"
    ):
        replace(naive, task=replace(naive.task, distribution="naive")).check()


def test_smoothed_labels_are_those_of_the_formula():
    logits, targets = torch.randn(3, 2, 7, dtype=torch.float64), torch.tensor([[1, 2], [3, IGNORE], [6, 0]])
    wanted, log_p = 0.0, logits.log_softmax(-1)
    for row, column in [(r, c) for r in range(3) for c in range(2) if targets[r, c] != IGNORE]:
        y = torch.full((7,), 0.1 / 7, dtype=torch.float64)
        y[targets[row, column]] += 0.9
        wanted -= (y * log_p[row, column]).sum()
    torch.testing.assert_close(cross_entropy(logits, targets, 0.1), wanted)
    every = logits.expand(2, *logits.shape)
    torch.testing.assert_close(loop_cross_entropy(every, targets, torch.ones(3, dtype=torch.long), 0.1), wanted)


def test_smoothing_reaches_the_training_step():
    experiment, model, batch, _ = parts("last")
    plain, _, _ = gradients(model, batch, 2, experiment.train, CPU)
    smooth, _, _ = gradients(model, batch, 2, replace(experiment.train, label_smoothing=0.3), CPU)
    assert not torch.equal(plain, smooth)
