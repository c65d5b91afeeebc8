"""The auxiliary loss: what it is, that it is additional, and that it leaves nothing behind."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from algoprobe.core.config import digest
from algoprobe.core.errors import UsageError
from algoprobe.core.run import RunFolder
from algoprobe.models.config import TransformerConfig
from algoprobe.models.parts.attention import Geometry
from algoprobe.studies.registry import PRESETS, load
from algoprobe.tasks.batch import FAR, IGNORE
from algoprobe.training.auxiliary import Auxiliary
from algoprobe.training.config import AuxiliaryConfig, Experiment, LoopsConfig, OptimiserConfig
from algoprobe.training.forward import Arithmetic
from algoprobe.training.load import load_run
from algoprobe.training.optimisers import build
from algoprobe.training.step import gradients, update

from .test_loop import equal, weights
from .tiny import RECIPES, run, tiny

CPU = Arithmetic(torch.device("cpu"), "float32", "explicit")
BFLOAT16 = Arithmetic(torch.device("cpu"), "bfloat16", "fused")
LOOPED = TransformerConfig(layers=2, heads=2, width=16, inject=True, outer_norm=True, loops=4)
UNLOOPED = TransformerConfig(layers=4, heads=2, width=16)


def supervised(
    model: TransformerConfig = LOOPED, growth: str = "serial", encoding: str = "packed", **train
) -> Experiment:
    """An experiment with the auxiliary loss on, on graphs of up to eight vertices."""
    auxiliary = AuxiliaryConfig(target="steps_to_goal", growth=growth, weight=train.pop("weight", 1.0))
    experiment = tiny(auxiliary=auxiliary, **train)
    return replace(experiment, model=model, task=replace(experiment.task, n=29, encoding=encoding))


def parts(experiment: Experiment, rows: int = 32):
    """Model, heads, batch and targets."""
    task = experiment.task.build()
    model = experiment.model.build(task.sizes)
    auxiliary = Auxiliary.seeded(experiment, task.sizes)
    batch = task.sample("train", 0, np.arange(rows))
    return model, auxiliary, batch, auxiliary.targets(task, batch)


def by_hand(model, auxiliary, batch, steps, growth: str) -> torch.Tensor:
    """The auxiliary loss, state by state and column by column; the forward pass is written out again."""
    tokens, lengths = torch.from_numpy(batch.tokens.astype(np.int64)), torch.from_numpy(batch.lengths)
    columns, config = tokens.shape[1], model.config
    mask = (torch.arange(columns) >= columns - lengths[:, None])[:, None, None, :]
    embedded = model.embed(tokens, torch.float32)
    x, states = embedded, []
    for r in range(config.loops):
        if r > 0:
            x = embedded + model.outer_norm(x)
        for block in model.blocks:
            x = block(x, Geometry(mask), columns)
            if config.loops == 1:
                states.append(x)
        if config.loops > 1:
            states.append(x)
    states = list(enumerate(states[:-1], start=1))
    total = []
    for r, state in states[-1:] if growth == "last" else states:
        within = {"serial": r, "doubling": 2 ** (r - 1), "last": math.inf}[growth]
        head = auxiliary.heads[0 if config.loops > 1 or growth == "last" else r - 1]
        for row in range(len(batch)):
            for column in range(columns):
                if steps[row, column] != IGNORE:
                    reached = steps[row, column] != FAR and steps[row, column] <= within
                    says = torch.sigmoid(state[row, column] @ head.weight[0] + head.bias[0])
                    total.append(-torch.log(says if reached else 1 - says))
    return torch.stack(total).mean()


@pytest.mark.parametrize("growth", ["serial", "doubling", "last"])
@pytest.mark.parametrize("model", [LOOPED, UNLOOPED], ids=["looped", "unlooped"])
@pytest.mark.parametrize("encoding", ["packed", "triples"])
def test_loss_and_gradient_are_those_computed_by_hand(model, growth, encoding):
    experiment = supervised(model, growth, encoding, weight=0.7)
    net, auxiliary, batch, steps = parts(experiment, rows=6)
    learned = [*net.parameters(), *auxiliary.parameters()]
    plain, none, _ = gradients(net, batch, model.loops, experiment.train, CPU)
    assert none is None
    main = [torch.zeros_like(p) if p.grad is None else p.grad.clone() for p in learned]
    for p in learned:
        p.grad = None
    wanted = by_hand(net, auxiliary, batch, steps, growth)
    wanted.backward()
    expected = [m + 0.7 * (0.0 if p.grad is None else p.grad) for m, p in zip(main, learned)]
    for p in learned:
        p.grad = None
    for chunks in (1, 3):
        config = replace(experiment.train, chunks=chunks)
        loss, extra, _ = gradients(net, batch, model.loops, config, CPU, None, auxiliary, steps)
        torch.testing.assert_close(extra, wanted.detach())
        torch.testing.assert_close(loss, plain)
        for p, gradient in zip(learned, expected):
            torch.testing.assert_close(
                torch.zeros_like(p) if p.grad is None else p.grad, gradient, atol=2e-6, rtol=1e-4
            )
            p.grad = None


@pytest.mark.parametrize("arithmetic", [CPU, BFLOAT16], ids=["float32", "bfloat16"])
@pytest.mark.parametrize("model", [LOOPED, UNLOOPED], ids=["looped", "unlooped"])
def test_the_models_answers_are_not_touched_by_a_bit(model, arithmetic):
    experiment = supervised(model, chunks=2)
    net, auxiliary, batch, steps = parts(experiment)
    plain, _, answers = gradients(net, batch, model.loops, experiment.train, arithmetic)
    loss, extra, same = gradients(net, batch, model.loops, experiment.train, arithmetic, None, auxiliary, steps)
    assert torch.equal(plain, loss) and extra > 0 and extra.dtype == torch.float32
    assert all(torch.equal(a[1], b[1]) for a, b in zip(answers, same))
    assert not any(module._forward_hooks for module in net.modules())


def test_a_batch_of_one_loop_has_no_state_on_the_way():
    experiment = supervised()
    net, auxiliary, batch, steps = parts(experiment)
    _, extra, _ = gradients(net, batch, 1, experiment.train, CPU, None, auxiliary, steps)
    assert extra == 0 and all(p.grad is None for p in auxiliary.parameters())


@pytest.mark.parametrize(
    "model, growth, loops, heads",
    [
        (LOOPED, "serial", LoopsConfig(), 1),
        (LOOPED, "last", LoopsConfig(), 1),
        (UNLOOPED, "doubling", LoopsConfig(), 3),
        (UNLOOPED, "last", LoopsConfig(), 1),
        (UNLOOPED, "serial", LoopsConfig(draw="uniform", low=1, high=2), 1),
        (UNLOOPED, "serial", LoopsConfig(draw="uniform", low=1, high=1), 3),
        (UNLOOPED, "serial", LoopsConfig(draw="poisson", low=1, high=1, follow_stage=True), 1),
    ],
)
def test_one_head_for_all_loops_or_one_a_block(model, growth, loops, heads):
    experiment = supervised(model, growth, loops=loops)
    _, auxiliary, _, _ = parts(experiment)
    assert len(auxiliary.heads) == heads and all(head.weight.shape == (1, 16) for head in auxiliary.heads)


def test_steps_counted_grow_as_they_should_and_never_reach_far():
    for growth, expected in (
        ("serial", [1, 2, 3, 4, 5]),
        ("doubling", [1, 2, 4, 8, 16]),
        ("last", [FAR - 1] * 5),
    ):
        auxiliary = Auxiliary(AuxiliaryConfig(target="steps_to_goal", growth=growth), 8, 1, True)
        assert auxiliary.within(5) == expected and max(auxiliary.within(999)) < FAR


def test_heads_start_from_the_init_seed_alone():
    experiment = supervised()
    first = parts(experiment)[1].state_dict()
    assert equal(first, parts(replace(experiment, seeds=replace(experiment.seeds, data=1, train=1)))[1].state_dict())
    assert not equal(first, parts(replace(experiment, seeds=replace(experiment.seeds, init=1)))[1].state_dict())
    before = torch.random.get_rng_state()
    parts(experiment)
    assert torch.equal(before, torch.random.get_rng_state())


@pytest.mark.parametrize("name", ["adamw", "muon", "sign-momentum", "sophia-g"])
def test_heads_are_trained_by_the_same_optimisers(name):
    experiment = supervised(optimiser=OptimiserConfig(name=name, lr=1e-2))
    net, auxiliary, batch, steps = parts(experiment)
    optimisers = build(experiment.train.optimiser, net, auxiliary)
    held = [id(p) for o in optimisers for group in o.param_groups for p in group["params"]]
    assert sorted(held) == sorted(id(p) for p in (*net.parameters(), *auxiliary.parameters()))
    if name == "muon":
        inside = {id(p) for group in optimisers[0].param_groups for p in group["params"]}
        assert not inside & {id(p) for p in auxiliary.parameters()}
    before = [p.detach().clone() for p in auxiliary.parameters()]
    update(net, optimisers, batch, 4, 1.0, experiment.train, CPU, 0, 0, auxiliary, steps)
    assert all((p != q).all() for p, q in zip(before, auxiliary.parameters()))
    assert all(p.grad is None for p in auxiliary.parameters())
    if name == "sophia-g":  # the step began with a curvature estimate, in which the heads took no part
        assert all((optimisers[0].state[p]["hessian"] == 0).all() for p in auxiliary.parameters())


def test_it_learns_what_it_is_asked():
    experiment = supervised(optimiser=OptimiserConfig(lr=1e-2))
    net, auxiliary, batch, steps = parts(experiment, rows=64)
    optimisers = build(experiment.train.optimiser, net, auxiliary)
    seen = [
        float(update(net, optimisers, batch, 4, 1.0, experiment.train, CPU, step, 0, auxiliary, steps).auxiliary)
        for step in range(40)
    ]
    assert seen[-1] < 0.6 * seen[0]


def test_switched_off_it_changes_no_bit_and_leaves_no_trace(tmp_path):
    run(RECIPES["plain"], tmp_path / "plain")
    train = replace(RECIPES["plain"].train, auxiliary=AuxiliaryConfig(weight=3.0, growth="last"))
    run(replace(RECIPES["plain"], train=train), tmp_path / "off")
    assert equal(weights(tmp_path / "plain"), weights(tmp_path / "off"))
    state = torch.load(tmp_path / "off" / "state.pt", weights_only=True)
    assert "auxiliary" not in state
    assert not any("auxiliary_loss" in line for line in RunFolder(tmp_path / "off").metrics)


def test_a_run_keeps_its_heads_in_the_state_alone(tmp_path):
    experiment = RECIPES["auxiliary"]
    run(experiment, tmp_path / "on")
    folder = RunFolder(tmp_path / "on")
    model = experiment.model.build(experiment.task.build().sizes)
    assert load_file(folder.file("model.safetensors")).keys() == model.state_dict().keys()
    assert load_run(folder.path).model is not None
    state = torch.load(folder.file("state.pt"), weights_only=True)
    assert state["auxiliary"].keys() == {"heads.0.weight", "heads.0.bias"}
    lines = [line for line in folder.metrics if "loss" in line]
    assert lines and all(0 < line["auxiliary_loss"] < 5 for line in lines)
    run(replace(experiment, train=replace(experiment.train, auxiliary=AuxiliaryConfig())), tmp_path / "off")
    assert not equal(weights(tmp_path / "on"), weights(tmp_path / "off"))
    # The weights of a finished run are made again from its state, heads and all.
    folder.file("model.safetensors").unlink()
    run(experiment, folder.path)
    again = torch.load(folder.file("state.pt"), weights_only=True)
    assert equal(state["auxiliary"], again["auxiliary"]) and folder.has("model.safetensors")


def test_a_state_from_before_there_were_heads_goes_on(tmp_path, monkeypatch):
    from .test_loop import half_way

    folder = half_way(monkeypatch, tmp_path / "old")
    state = torch.load(folder.file("state.pt"), weights_only=True)
    state["window"] = {name: state["window"][name] for name in ("loss", "norm", "steps")}
    torch.save(state, folder.file("state.pt"))
    run(RECIPES["plain"], folder.path)
    run(RECIPES["plain"], tmp_path / "whole")
    assert equal(weights(folder.path), weights(tmp_path / "whole"))


def test_what_cannot_be_supervised_is_named(monkeypatch, tmp_path):
    single = TransformerConfig(layers=1, heads=2, width=16)
    with pytest.raises(UsageError, match=r"train\.auxiliary\.target: 'steps_to_goal' is not possible; a single block"):
        supervised(single).check()
    supervised(replace(single, loops=2)).check()
    supervised(replace(single, layers=2)).check()
    for weight in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(UsageError, match=r"train\.auxiliary\.weight: .*a number above 0"):
            AuxiliaryConfig(weight=weight)
    task = supervised().task.build()
    monkeypatch.setattr(type(task), "intermediate", lambda self, batch: {})
    with pytest.raises(UsageError, match=r"train\.auxiliary\.target: 'steps_to_goal' is unknown; allowed: none"):
        run(supervised(), tmp_path)


def test_presets_keep_the_digests_they_had_without_it():
    load()
    known = {"search-paper": "5551531c2dd36500", "search-demo-balanced": "99e2d5784e1b2a2e"}
    assert {name: digest(PRESETS[name].make()) for name in known} == known


def test_targets_are_asked_for_only_when_it_is_on(monkeypatch, tmp_path):
    task = type(RECIPES["plain"].task.build())
    calls, intermediate = [], task.intermediate
    monkeypatch.setattr(task, "intermediate", lambda self, batch: calls.append(1) or intermediate(self, batch))
    run(RECIPES["plain"], tmp_path / "off")
    assert not calls
    run(RECIPES["auxiliary"], tmp_path / "on")
    assert len(calls) == RECIPES["auxiliary"].train.steps
