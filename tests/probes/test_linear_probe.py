from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from algoprobe.core.errors import AlgoprobeError, UsageError
from algoprobe.probes.linear_probe import Samples, fit, linear_probe, logistic, ridge, site_samples, split, untrained
from algoprobe.probes.record import record
from tests.probes.small import LOOPED, PACKED, PLAIN, VARIANTS, build, rows


def planted(count: int = 600, width: int = 8, noise: float = 0.0) -> Samples:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(count, width, generator=generator, dtype=torch.float64) * 5 + 3
    y = x @ torch.randn(width, generator=generator, dtype=torch.float64) + 7
    return Samples(x, y + noise * torch.randn(count, generator=generator, dtype=torch.float64), torch.arange(count))


def shuffled(samples: Samples) -> Samples:
    order = torch.randperm(len(samples.row), generator=torch.Generator().manual_seed(1))
    return replace(samples, target=samples.target[order])


def test_a_planted_linear_target_is_found_and_a_shuffled_one_is_not():
    found, control = fit(planted(), "regression"), fit(shuffled(planted()), "regression")
    assert found.score > 0.9999 and found.low <= found.score <= found.high and found.chance == 0
    assert abs(control.score) < 0.1
    above = planted().target > planted().target.median()
    classes = replace(planted(), target=above.long() + 5)  # class ids need not begin at 0
    found, control = fit(classes, "classification"), fit(shuffled(classes), "classification")
    assert found.score > 0.95 and abs(control.score - 0.5) < 0.15 and 0.3 < found.chance < 0.7


def test_r_squared_is_the_share_of_variance_without_the_noise():
    noisy = planted(4000, noise=10.0)
    clean = planted(4000).target.var() / (planted(4000).target.var() + 100)
    found = fit(noisy, "regression")
    assert found.score == pytest.approx(float(clean), abs=0.04) and found.low < float(clean) < found.high


def test_ridge_and_logistic_stand_at_their_minimum():
    samples = planted(50, noise=1.0)
    x, y = samples.features, samples.target[:, None]

    def ridge_loss(w, b):
        return (y - x @ w - b).square().mean() + 0.3 * w.square().sum()

    def logistic_loss(w, b):
        return torch.nn.functional.cross_entropy(x @ w + b, (y[:, 0] > 7).long()) + 0.15 * w.square().sum()

    for (weight, bias), loss in (
        (ridge(x, y, 0.3), ridge_loss),
        (logistic(x, (y[:, 0] > 7).long(), 2, 0.3), logistic_loss),
    ):
        w, b = weight.requires_grad_(), bias.requires_grad_()
        gradients = torch.autograd.grad(loss(w, b), (w, b))
        assert max(float(g.abs().max()) for g in gradients) < 1e-4


def test_a_row_is_never_on_both_sides_and_its_samples_move_together():
    row = torch.arange(100).repeat_interleave(torch.arange(100) % 3 + 1)
    parts = split(row)
    assert torch.stack(parts).sum(0).eq(1).all()
    sides = [set(row[part].tolist()) for part in parts]
    assert [len(side) for side in sides] == [60, 20, 20] and not set.intersection(*sides)
    assert all(torch.equal(a, b) for a, b in zip(parts, split(row)))


def test_interval_counts_rows_and_not_their_samples():
    once = planted(300, noise=10.0)
    copies = Samples(once.features.repeat(4, 1), once.target.repeat(4), once.row.repeat(4))
    a, b = fit(once, "regression"), fit(copies, "regression")
    assert a.score == pytest.approx(b.score) and a.high - a.low == pytest.approx(b.high - b.low)


def test_sites_of_a_model_with_targets_a_row_and_a_column():
    model, inputs = build(LOOPED, PACKED), rows(PACKED, 200)
    with record(model, ["blocks.0.resid_post"]) as seen:
        model(inputs.tokens, inputs.lengths)
    target = seen["blocks.0.resid_post", 1][:, -1] @ torch.ones(16).double()
    table = linear_probe(model, inputs, ["blocks.0.resid_post", "embed"], target)
    scores = {(row["site"], row["loop"]): row for row in table}
    assert len(scores) == 4 and scores["blocks.0.resid_post", 1]["score"] > 0.999
    assert scores["blocks.0.resid_post", 1]["rows"] == 40
    # Another model's stream does not hold this one's numbers, and a shuffled target is nowhere.
    assert all(row["untrained"] < 0.9 and row["shuffled"] < 0.3 for row in table)
    marked = torch.where(inputs.real("right"), (inputs.tokens[..., 0] < 6).double(), torch.nan)
    (row,) = linear_probe(model, inputs, ["embed"], marked, "classification")
    assert row["score"] > 0.9 and row["shuffled"] < 0.65 and row["measure"] == "accuracy"
    assert row["rows"] == 40 and row["samples"] > 300
    by_head = site_samples(model, inputs, ["blocks.0.attn.z"], target)["blocks.0.attn.z", 0]
    assert by_head.features.shape == (200, 16)


def test_the_control_model_is_untrained_and_not_the_identity():
    model = replace(LOOPED, zero_init=True).build(PACKED)
    control = untrained(model)
    assert not model.blocks[0].mlp.output.weight.any() and control.blocks[0].mlp.output.weight.any()
    assert torch.equal(untrained(model).embed.tables[0].weight, control.embed.tables[0].weight)


def test_mistakes_are_errors():
    with pytest.raises(UsageError, match="rows: 19 is not possible; allowed: 20 and more"):
        fit(planted(19), "regression")
    for kind in ("regression", "classification"):
        with pytest.raises(UsageError, match="target: it is the same in all rows"):
            fit(replace(planted(), target=torch.ones(600)), kind)
    model, inputs = build(LOOPED, PACKED), rows(PACKED, 20)
    with pytest.raises(UsageError, match="column: -11"):
        site_samples(model, inputs, ["embed"], inputs.lengths, column=-11)


def test_a_site_without_a_value_for_each_row_and_column_is_named():
    config, _ = VARIANTS["rms, tied, learned positions"]
    model, inputs = build(config, PLAIN), rows(PLAIN, 30)
    with pytest.raises(UsageError, match=r"'embed\.pos' hands on a value of shape \[.*wanted: .*\[30, 10, …\]"):
        linear_probe(model, inputs, "embed.pos", inputs.lengths.double())


def test_attention_patterns_are_probed_on_either_path_with_their_control():
    model, inputs = build(LOOPED, PACKED), rows(PACKED, 100)
    names = ["blocks.0.attn.scores", "blocks.0.attn.pattern"]
    table = {}
    for path in ("fused", "explicit"):
        model.use_attention(path)
        assert untrained(model).blocks[0].attn.path == path
        table[path] = linear_probe(model, inputs, names, inputs.lengths.double(), loops=1)
        assert model.blocks[0].attn.path == path
    assert table["fused"] == table["explicit"] and {row["site"] for row in table["fused"]} == set(names)
    everything = site_samples(model.use_attention("fused"), inputs, "*", inputs.lengths.double(), loops=1)
    control = site_samples(untrained(model), inputs, "*", inputs.lengths.double(), loops=1)
    assert everything.keys() == control.keys() and ("blocks.0.attn.pattern", 0) in everything


def test_values_that_are_not_finite_are_no_features():
    model, inputs = build(LOOPED, PACKED), rows(PACKED, 30)
    with torch.no_grad():
        model.embed.tables[0].weight.fill_(torch.nan)
    with pytest.raises(AlgoprobeError, match="embed hands on values that are not finite in loop 0"):
        linear_probe(model, inputs, "embed", inputs.lengths.double())
