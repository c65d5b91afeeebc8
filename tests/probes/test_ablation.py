from __future__ import annotations

import pytest
import torch

from algoprobe.core.errors import UsageError
from algoprobe.probes.ablation import METHODS, ablation, aligned_mean
from algoprobe.probes.edit import edit
from algoprobe.probes.inputs import Inputs, answer_logits, right
from tests.probes.small import LOOPED, PACKED, PLAIN, SMALL, build, rows


def answered(model, inputs: Inputs) -> Inputs:
    """The rows with the model's own answers as the right ones, so that accuracy starts at 1."""
    targets = answer_logits(model, inputs).argmax(-1)
    accepted = torch.nn.functional.one_hot(targets, inputs.accepted.shape[-1]).bool()
    return Inputs(inputs.tokens, inputs.lengths, targets, accepted)


@pytest.mark.parametrize("method", METHODS)
def test_a_head_whose_output_is_zero_is_not_missed(method):
    model = build(LOOPED, PACKED)
    with torch.no_grad():
        model.blocks[0].attn.output.weight[:, 8:] = 0  # the second of two heads
    inputs = answered(model, rows(PACKED, 60))
    table = ablation(model, inputs, method)
    assert {row["drop"] for row in table if row["part"] == "blocks.0 head 1"} == {0.0}
    assert max(row["drop"] for row in table if row["part"] == "blocks.0 head 0") > 0
    head, attention = ([r["drop"] for r in table if r["part"] == f"blocks.0 {p}"] for p in ("head 0", "attention"))
    assert head == attention
    assert all(row["before"] == 1 and row["low"] <= row["accuracy"] <= row["high"] + 1e-12 for row in table)
    assert len(table) == (2 + 3) * 4 and {row["loop"] for row in table} == {None, 0, 1, 2}


def test_a_part_that_says_the_same_of_every_row_is_not_missed_by_its_mean():
    model = build(SMALL, PLAIN)
    with torch.no_grad():
        model.blocks[1].mlp.output.weight.zero_()  # only its bias is left
    inputs = answered(model, rows(PLAIN, 60))
    mean, zero = ([r for r in ablation(model, inputs, method, parts=["mlp"])] for method in METHODS[::-1])
    assert mean[1]["drop"] == 0 and zero[1]["drop"] > 0 and mean[0]["drop"] > 0


def test_the_whole_block_without_everything_is_the_residual_stream():
    model = build(SMALL, PLAIN)
    inputs = answered(model, rows(PLAIN, 60))
    (row,) = ablation(build(SMALL, PLAIN), inputs, "zero", parts=["block"])[:1]
    with edit(model, {("blocks.0.attn_out", 0): torch.zeros_like, ("blocks.0.mlp_out", 0): torch.zeros_like}):
        assert row["accuracy"] == float(right(answer_logits(model, inputs), inputs).double().mean())


def test_means_are_of_real_columns_each_on_its_own():
    x = torch.tensor([[[1.0], [2.0]], [[50.0], [4.0]]])
    real = torch.tensor([[True, True], [False, True]])
    assert aligned_mean(x, real).tolist() == [[[1.0], [3.0]]]
    assert aligned_mean(x[:, None], real).tolist() == [[[[1.0], [3.0]]]]


def test_mistakes_are_errors():
    model, inputs = build(SMALL, PLAIN), rows(PLAIN)
    with pytest.raises(UsageError, match="part: 'heads' is unknown; allowed: head, attention, mlp, block"):
        ablation(model, inputs, parts=["heads"])
    with pytest.raises(UsageError, match="loops: 0"):
        ablation(model, inputs, loops=0)
