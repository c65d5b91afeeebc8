from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from algoprobe.training.config import OptimiserConfig
from algoprobe.training.forward import Arithmetic
from algoprobe.training.objective import sampled_targets
from algoprobe.training.optimisers import SignMomentum, SophiaG, build
from algoprobe.training.step import update

from .tiny import tiny

CPU = Arithmetic(torch.device("cpu"), "float32", "explicit")


def with_gradient(*values: float) -> nn.Parameter:
    p = nn.Parameter(torch.ones(len(values)))
    p.grad = torch.tensor(values)
    return p


def test_sign_momentum_is_its_formula():
    p = with_gradient(0.3, -2.0, 0.0)
    optimiser = SignMomentum([p], lr=0.1, beta=0.5, weight_decay=0.2)
    optimiser.step()
    torch.testing.assert_close(p.detach(), torch.tensor([0.98 - 0.1, 0.98 + 0.1, 0.98]))
    p.grad = torch.tensor([-0.2, 0.5, 0.1])  # momentum: 0.5·0.15-0.1 < 0, 0.5·(-1)+0.25 < 0, 0.05 > 0
    optimiser.step()
    torch.testing.assert_close(p.detach(), 0.98 * torch.tensor([0.88, 1.08, 0.98]) + torch.tensor([0.1, 0.1, -0.1]))


def test_sophia_without_curvature_is_sign_momentum_and_with_it_is_not():
    a, b, c = (with_gradient(0.3, -2.0, 0.01) for _ in range(3))
    sophia = SophiaG([a], lr=0.1, betas=(0.5, 0.99), weight_decay=0.2)
    sign = SignMomentum([b], lr=0.1, beta=0.5, weight_decay=0.2)
    curved = SophiaG([c], lr=0.1, betas=(0.5, 0.9), rho=1.0, weight_decay=0.0)
    sophia.step(), sign.step()
    torch.testing.assert_close(a, b)
    curved.update_hessian(rows=10)
    curved.step()
    # h = 0.1·10·g², m = 0.5·g, so the step is lr·clip(0.5 / g, ±1).
    torch.testing.assert_close(c.detach(), 1 - 0.1 * torch.tensor([1.0, -0.25, 1.0]))


def test_training_with_sophia_changes_the_curvature_every_few_steps():
    experiment = tiny(optimiser=OptimiserConfig(name="sophia-g", lr=1e-3, hessian_every=3))
    task = experiment.task.build()
    model = experiment.model.build(task.sizes)
    optimisers = build(experiment.train.optimiser, model)
    p = model.blocks[0].attn.query.weight
    seen = []
    for step in range(7):
        batch = task.sample("train", 0, np.arange(step * 16, step * 16 + 16))
        update(model, optimisers, batch, 2, 1.0, experiment.train, CPU, step, 0)
        seen.append(optimisers[0].state[p]["hessian"].clone())
    changed = [not torch.equal(a, b) for a, b in itertools.pairwise(seen)]
    assert changed == [False, False, True, False, False, True]
    assert (seen[0] > 0).any()


def test_sampled_labels_follow_the_models_softmax():
    logits = torch.log(torch.tensor([0.7, 0.2, 0.1])).expand(20_000, 1, 3)
    targets = torch.zeros(20_000, 1, dtype=torch.long)
    targets[0] = -100
    drawn = sampled_targets(logits, targets, torch.Generator().manual_seed(0))
    assert drawn[0] == -100
    shares = torch.bincount(drawn[1:, 0], minlength=3) / 19_999
    torch.testing.assert_close(shares, torch.tensor([0.7, 0.2, 0.1]), atol=0.015, rtol=0)


@pytest.mark.parametrize("name", ["adamw", "muon", "sign-momentum", "sophia-g"])
def test_every_parameter_is_updated_once_and_the_rate_follows_the_factor(name):
    experiment = tiny(optimiser=OptimiserConfig(name=name, lr=1e-2))
    model = experiment.model.build(experiment.task.build().sizes)
    optimisers = build(experiment.train.optimiser, model)
    held = [id(p) for o in optimisers for group in o.param_groups for p in group["params"]]
    assert sorted(held) == sorted(id(p) for p in model.parameters())
    batch = experiment.task.build().sample("train", 0, np.arange(16))
    before = [p.detach().clone() for p in model.parameters()]
    update(model, optimisers, batch, 2, 0.0, experiment.train, CPU, 0, 0)
    assert all(torch.equal(p, q) for p, q in zip(before, model.parameters()))
    update(model, optimisers, batch, 2, 0.5, experiment.train, CPU, 1, 0)
    rates = {group["lr"] for o in optimisers for group in o.param_groups}
    assert rates == ({5e-3, 1e-3} if name == "muon" else {5e-3})
    assert not all(torch.equal(p, q) for p, q in zip(before, model.parameters()))


def test_chunks_change_the_gradient_by_rounding_only():
    experiment = tiny()
    task = experiment.task.build()
    batch = task.sample("train", 0, np.arange(64))
    found = []
    for chunks in (1, 5):
        model = experiment.model.build(task.sizes)
        config = replace(experiment.train, chunks=chunks, clip=None)
        result = update(model, build(OptimiserConfig(), model), batch, 2, 0.0, config, CPU, 0, 0)
        found.append((result.loss, result.norm, torch.from_numpy(result.answered(batch))))
    torch.testing.assert_close(found[0], found[1], rtol=1e-5, atol=1e-6)
