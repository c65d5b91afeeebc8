"""Greedy decoding, and what each answered column says of itself during training."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from algoprobe.training.columns import column_dynamics
from algoprobe.training.forward import Arithmetic, answers

from .tiny import DECODER, PRODUCTS

CPU = Arithmetic(torch.device("cpu"), "float32", "explicit")


def model_of(task, **fields: object):
    """A model with no weight at a special value."""
    model = replace(DECODER, **fields).build(task.sizes).eval()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator))
    return model


@pytest.mark.parametrize("chain", ["none", "explicit"])
@pytest.mark.parametrize("position", ["none", "relative", "rotary"])
def test_a_model_reads_its_own_answers(chain: str, position: str) -> None:
    task = replace(PRODUCTS, chain=chain).build()
    model = model_of(task, position=position)
    batch = replace(task.test(task.cells()[0], 20), decoded=True)
    found = answers(model, batch, CPU, rows=7)
    read = batch.targets.shape[1]
    tokens = torch.from_numpy(batch.tokens.astype(np.int64))
    for k in range(read):
        logits = model(tokens, torch.from_numpy(batch.lengths))
        step = logits[:, k - read].argmax(-1)
        assert found[:, k].tolist() == step.tolist()
        if k < read - 1:
            tokens[:, k - read + 1, 0] = step


def test_rows_that_lost_more_of_their_chain_keep_their_prompt() -> None:
    task = replace(PRODUCTS, chain="implicit", smoothing=0.3).build().at_stage(1)
    model, batch = model_of(task), replace(task.sample("train", 0, np.arange(30)), decoded=True)
    some_left = np.flatnonzero(batch.axes["removed"] < task.config.chain_length)  # without a chain `#` is given
    assert len(set(batch.lengths[some_left])) > 3
    found = answers(model, batch, CPU, rows=30)
    for row in some_left.tolist():
        alone = task.sample("train", 0, np.arange(row, row + 1))
        read = alone.targets.shape[1]
        mine = answers(model, replace(alone, decoded=True), CPU)[0]
        asked = alone.targets[0] >= 0
        assert np.array_equal(found[row, -read:][asked], mine[asked])


def test_all_digits_are_right_when_decoded_exactly_when_they_are_after_true_ones() -> None:
    task = replace(PRODUCTS, base=3, digits=4, digits_b=3).build()
    model = model_of(task)
    batch = task.test(task.cells()[0], 20)
    # Targets that the model gives to the first rows, so that some are right.
    free = answers(model, replace(batch, decoded=True), CPU)
    accepted, tokens = batch.accepted.copy(), batch.tokens.copy()
    for row in range(0, len(batch), 2):
        accepted[row] = np.eye(accepted.shape[2], dtype=bool)[free[row]]
        tokens[row, 1 - free.shape[1] :, 0] = free[row, :-1]
    batch = replace(batch, accepted=accepted, tokens=tokens)
    forced, decoded = (task.grade(batch, answers(model, replace(batch, decoded=d), CPU)) for d in (False, True))
    assert np.array_equal(forced, decoded) and forced[::2].all()


def test_each_column_has_its_loss_and_the_norm_of_its_gradient() -> None:
    task = PRODUCTS.build()
    model = model_of(task)
    before = {name: p.clone() for name, p in model.named_parameters()}
    found = column_dynamics(model, task, 0, 32, CPU, 1)
    batch = task.sample("validation", 0, np.arange(32))
    targets = torch.from_numpy(batch.targets)
    assert [line["column"] for line in found] == list(range(5))
    for k, line in enumerate(found):
        model.zero_grad()
        logits = model(torch.from_numpy(batch.tokens.astype(np.int64)), torch.from_numpy(batch.lengths), read=5)[:, k]
        loss = -logits.log_softmax(-1)[torch.arange(32), targets[:, k]].mean()
        loss.backward()
        norm = sum(float(p.grad.square().sum()) for p in model.parameters() if p.grad is not None) ** 0.5
        assert line["loss"] == pytest.approx(loss.item(), rel=1e-5)
        assert line["gradient_norm"] == pytest.approx(norm, rel=1e-4)
        assert line["accuracy"] == pytest.approx(float((logits.argmax(-1) == targets[:, k]).double().mean()))
    assert all(torch.equal(p, before[name]) for name, p in model.named_parameters())
