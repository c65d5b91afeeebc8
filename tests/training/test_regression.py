"""The auxiliary loss on running sums: what it is, and that it is additional."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from algoprobe.core.config import from_dict
from algoprobe.core.errors import UsageError
from algoprobe.training.config import AuxiliaryConfig
from algoprobe.training.forward import Arithmetic
from algoprobe.training.regression import Regression
from algoprobe.training.step import gradients

from .tiny import DECODER, RECIPES

CPU = Arithmetic(torch.device("cpu"), "float32", "explicit")
LOOPED = replace(DECODER, loops=2, inject=True, outer_norm=True)
KINDS = {
    "stream": (AuxiliaryConfig(target="running_sum"), DECODER),
    "raw": (AuxiliaryConfig(target="product_sum", scale="raw", weight=0.01), DECODER),
    "heads": (AuxiliaryConfig(target="running_sum", site="heads", heads=(1,)), DECODER),
    "every loop": (AuxiliaryConfig(target="running_sum", states="every"), LOOPED),
}


def supervised(name: str):
    """Model, readers, batch and numbers of one kind."""
    auxiliary, model = KINDS[name]
    experiment = RECIPES["running sums"]
    experiment = replace(experiment, model=model, train=replace(experiment.train, auxiliary=auxiliary))
    experiment.check()
    task = experiment.task.build()
    batch = task.sample("train", 0, np.arange(16))
    readers = Regression.seeded(experiment, task)
    return experiment, experiment.model.build(task.sizes), readers, batch, readers.targets(task, batch)


@pytest.mark.parametrize("name", KINDS)
def test_the_loss_is_the_squared_error_of_what_is_read(name: str) -> None:
    experiment, model, readers, batch, numbers = supervised(name)
    _, extra, _ = gradients(model, batch, model.config.loops, experiment.train, CPU, None, readers, numbers)
    seen = []
    site = "blocks.1.attn.z" if name == "heads" else "loop_out"
    handle = model.get_submodule(site).register_forward_hook(lambda module, inputs, x: seen.append(x.detach()))
    model(torch.from_numpy(batch.tokens.astype(np.int64)), torch.from_numpy(batch.lengths), read=5)
    handle.remove()
    wanted = torch.from_numpy(batch.source.product_sums if name == "raw" else batch.source.running_sums).double()
    if name != "raw":
        card = torch.from_numpy(experiment.task.build().sample("card", 0, np.arange(20_000)).source.running_sums)
        wanted = (wanted - card.double().mean(0)) / card.double().std(0)
    states = seen if name == "every loop" else seen[-1:]
    errors = []
    for x in states:
        x = x[:, 1, -5:] if name == "heads" else x[:, -5:]
        weight, bias = (p.detach().double() for p in (readers.readers[0].weight[0], readers.readers[0].bias))
        found = x.double() @ weight + bias
        errors.append((found - wanted).square().mean())
    assert float(extra) == pytest.approx(float(sum(errors) / len(errors)), rel=2e-3)


@pytest.mark.parametrize("name", KINDS)
def test_it_is_added_and_reaches_the_model(name: str) -> None:
    experiment, model, readers, batch, numbers = supervised(name)
    alone = gradients(model, batch, 2, experiment.train, CPU)[0]
    plain = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    both = gradients(model, batch, 2, experiment.train, CPU, None, readers, numbers)[0]
    assert torch.equal(alone, both)
    assert not all(torch.equal(p.grad, q) for p, q in zip(model.parameters(), plain))
    assert all(p.grad is not None for p in readers.parameters())


def test_starting_weights_do_not_depend_on_it() -> None:
    _, model, readers, _, _ = supervised("heads")
    again = supervised("stream")[1]
    assert all(torch.equal(p, q) for p, q in zip(model.parameters(), again.parameters()))
    assert torch.equal(readers.readers[0].weight, supervised("heads")[2].readers[0].weight)


def test_impossible_readers() -> None:
    experiment = RECIPES["running sums"]

    def with_auxiliary(**fields: object):
        return replace(experiment, train=replace(experiment.train, auxiliary=AuxiliaryConfig(**fields)))

    with pytest.raises(UsageError, match="numbers 0 to 1"):
        with_auxiliary(target="running_sum", site="heads", heads=(2,)).check()
    with pytest.raises(UsageError, match="Did you mean 'running_sum'"):
        from_dict(AuxiliaryConfig, {"target": "runing_sum"}, "train.auxiliary.")
    with pytest.raises(UsageError, match="steps_to_goal"):
        with_auxiliary(target="steps_to_goal").check()
    with pytest.raises(UsageError, match="states"):
        with_auxiliary(target="running_sum", site="heads", states="every").check()
