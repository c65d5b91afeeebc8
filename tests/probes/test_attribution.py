from __future__ import annotations

import pytest
import torch

from algoprobe.core.errors import UsageError
from algoprobe.probes.attribution import attribute, logit_attribution, strongest_wrong
from algoprobe.probes.inputs import answer_logits
from tests.probes.small import LOOPED, PACKED, PLAIN, SMALL, VARIANTS, build, rows


@pytest.mark.parametrize("name", VARIANTS)
def test_contributions_sum_to_the_logit(name):
    config, sizes = VARIANTS[name]
    model, inputs = build(config, sizes), rows(sizes, read=3)
    logits = answer_logits(model, inputs)
    answer = torch.arange(len(inputs)) % sizes.outputs
    against = (answer + 2) % sizes.outputs
    for column in (-1, -3):
        found = attribute(model, inputs, answer, column=column)
        wanted = logits[:, column].gather(1, answer[:, None])[:, 0]
        assert torch.equal(found.logit, wanted)
        assert torch.allclose(found.values.sum(1), wanted, atol=1e-11, rtol=0)
        difference = attribute(model, inputs, answer, against, column)
        wanted = wanted - logits[:, column].gather(1, against[:, None])[:, 0]
        assert torch.allclose(difference.values.sum(1), wanted, atol=1e-11, rtol=0)
    heads = [term for term in found.terms if "head" in term[0]]
    reached = 1 if config.recurrence == "reset" else config.loops
    assert len(heads) == config.layers * config.heads * reached
    channel = [loop for component, loop in found.terms if component == "embedding channel"]
    first = {"residual": config.loops, "embedding": 1, "reset": config.loops - 1}[config.recurrence]
    assert channel == list(range(first, config.loops))


@pytest.mark.parametrize("loops", [1, 2, 5])
def test_other_numbers_of_loops(loops):
    model, inputs = build(LOOPED, PACKED), rows(PACKED)
    found = attribute(model, inputs, inputs.targets[:, 0], loops=loops)
    assert torch.allclose(found.values.sum(1), found.logit, atol=1e-11, rtol=0)
    assert {loop for _, loop in found.terms} == set(range(loops))


def test_a_component_that_writes_nothing_contributes_nothing():
    model, inputs = build(SMALL, PLAIN), rows(PLAIN)
    with torch.no_grad():
        model.blocks[1].attn.output.weight[:, 8:] = 0  # the second of two heads
        model.blocks[0].mlp.output.weight.zero_()
        model.blocks[0].mlp.output.bias.zero_()
    values = dict(zip((found := attribute(model, inputs, inputs.targets[:, 0])).terms, found.values.T))
    assert not values["blocks.1 head 1", 0].any() and not values["blocks.0 mlp", 0].any()
    assert values["blocks.1 head 0", 0].any() and values["blocks.1 mlp", 0].any()


def test_rows_hold_means_and_shares_that_sum_to_one():
    model, inputs = build(LOOPED, PACKED), rows(PACKED)
    against = strongest_wrong(answer_logits(model, inputs), inputs)
    assert not inputs.accepted[torch.arange(len(inputs)), 0, against].any()
    table = logit_attribution(model, inputs, inputs.targets[:, 0], against)
    assert sum(row["contribution"] for row in table) == pytest.approx(table[0]["logit"])
    assert sum(row["share"] for row in table) == pytest.approx(1)
    assert all(row["low"] <= row["contribution"] <= row["high"] for row in table)


def test_a_column_that_is_not_read_is_an_error():
    with pytest.raises(UsageError, match="column: -2 is not possible; allowed: -1 to -1"):
        attribute(build(SMALL, PLAIN), rows(PLAIN), torch.zeros(6, dtype=torch.long), column=-2)
