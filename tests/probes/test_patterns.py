from __future__ import annotations

import math

import pytest
import torch

from algoprobe.core.errors import UsageError
from algoprobe.probes.inputs import answer_logits
from algoprobe.probes.patterns import (
    attention_patterns,
    column_rows,
    entropy,
    mean_pattern,
    pattern_rows,
    shares_by_kind,
)
from tests.probes.small import LOOPED, PACKED, VARIANTS, build, rows


@pytest.mark.parametrize("name", VARIANTS)
def test_patterns_are_distributions_over_readable_columns_and_leave_the_model_as_it_was(name):
    config, sizes = VARIANTS[name]
    model, inputs = build(config, sizes), rows(sizes)
    plain, real = answer_logits(model, inputs), inputs.real("right")
    found = attention_patterns(model, inputs)
    assert len(found) == config.layers * config.loops
    for pattern in found.values():
        assert torch.allclose(pattern.sum(-1)[real[:, None].expand(-1, 2, -1)], torch.ones(()).double())
        assert not pattern[(real[:, None, :, None] & ~real[:, None, None, :]).expand_as(pattern)].any()
        assert not config.causal or not pattern.triu(1)[real[:, None, :, None].expand_as(pattern)].any()
    assert model.blocks[0].attn.path == "fused" and torch.equal(answer_logits(model, inputs), plain)


def test_padding_is_in_no_mean():
    pattern = torch.zeros(2, 1, 3, 3)
    pattern[0], pattern[1] = torch.eye(3), torch.tensor([[9.0, 9, 9], [9, 0.5, 0.5], [9, 0.25, 0.75]])
    real = torch.tensor([[True, True, True], [False, True, True]])
    assert mean_pattern(pattern, real)[0].tolist() == [[1, 0, 0], [0, 0.75, 0.25], [0, 0.125, 0.875]]
    none = torch.zeros_like(real)
    assert not mean_pattern(pattern, none).any()


def test_entropy_of_one_column_and_of_all():
    real = torch.ones(2, 4, dtype=torch.bool)
    assert entropy(torch.eye(4).expand(2, 3, 4, 4), real).tolist() == [0, 0, 0]
    flat = torch.full((2, 3, 4, 4), 0.25)
    assert torch.allclose(entropy(flat, real), torch.tensor(math.log(4)))


def test_shares_of_a_partition_sum_to_one_and_uniform_is_the_flat_head():
    model, inputs = build(LOOPED, PACKED), rows(PACKED)
    last = torch.arange(10).expand(6, -1) == 9
    kinds = {"query": last, "edges": ~last, "nothing": torch.zeros_like(last)}  # padding is taken away by the probe
    table = pattern_rows(model, inputs, kinds)
    assert len(table) == 3 * 2 * 2 * 2 and {row["key"] for row in table} == {"query", "edges"}
    for field in ("share", "uniform"):
        for place in {(row["loop"], row["head"], row["query"]) for row in table}:
            total = sum(row[field] for row in table if (row["loop"], row["head"], row["query"]) == place)
            assert total == pytest.approx(1)
    with torch.no_grad():
        model.blocks[0].attn.query.weight.zero_()
    for row in pattern_rows(model, inputs, kinds):
        assert row["share"] == pytest.approx(row["uniform"])
        if row["query"] == "query":
            assert row["entropy"] == pytest.approx(inputs.lengths.double().log().mean())


def test_a_head_that_looks_at_one_kind_has_all_its_share_there():
    pattern = torch.zeros(1, 1, 3, 3)
    pattern[..., 1] = 1
    kinds = {"here": torch.tensor([[False, True, False]]), "there": torch.tensor([[True, False, True]])}
    found = shares_by_kind(pattern, torch.ones(1, 3, dtype=torch.bool), kinds)
    assert found["here"].tolist() == [1] and found["there"].tolist() == [0]


def test_the_pattern_of_one_row_and_the_mean():
    model, inputs = build(LOOPED, PACKED), rows(PACKED)
    one = column_rows(model, inputs, row=3)
    assert len(one) == 3 * 2 * 7**2 and min(row["key"] for row in one) == -7
    pattern = attention_patterns(model, inputs)["blocks.0.attn.pattern", 2]
    (value,) = (r["share"] for r in one if (r["loop"], r["head"], r["query"], r["key"]) == (2, 1, -1, -5))
    assert value == float(pattern[3, 1, -1, -5])
    assert len(column_rows(model, inputs, loops=1)) == 2 * 10**2
    with pytest.raises(UsageError, match="row: 6 is not possible; allowed: 0 to 5"):
        column_rows(model, inputs, row=6)
