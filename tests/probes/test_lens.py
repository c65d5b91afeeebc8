from __future__ import annotations

import pytest
import torch

from algoprobe.core.errors import UsageError
from algoprobe.probes.inputs import Inputs, answer_logits, right, target_log_probability
from algoprobe.probes.lens import column_lens, lens_logits, logit_lens, residual_sites
from algoprobe.probes.record import record
from tests.probes.small import LOOPED, PACKED, PLAIN, SMALL, VARIANTS, build, rows


@pytest.mark.parametrize("name", VARIANTS)
def test_the_lens_at_the_end_of_the_stack_is_the_model(name):
    config, sizes = VARIANTS[name]
    model, inputs = build(config, sizes), rows(sizes, read=2)
    final = answer_logits(model, inputs)
    found = lens_logits(model, inputs)
    last = config.loops - 1
    for site in ("loop_out", f"blocks.{config.layers - 1}.resid_post"):
        assert torch.allclose(found[site, last], final, atol=1e-12, rtol=0)
    rows_of = {(row["site"], row["loop"]): row for row in logit_lens(model, inputs)}
    assert len(rows_of) == 1 + config.loops * (3 * config.layers + 1)
    assert rows_of["loop_out", last]["agreement"] == 1.0
    assert rows_of["loop_out", last]["accuracy"] == right(final, inputs).double().mean()
    assert rows_of["loop_out", last]["log_probability"] == pytest.approx(
        float(target_log_probability(final, inputs).mean())
    )


def test_a_truncated_run_is_the_lens_between_loops():
    model, inputs = build(LOOPED, PACKED), rows(PACKED)
    found = lens_logits(model, inputs, ["loop_out"])
    for loops in (1, 2):
        assert torch.allclose(found["loop_out", loops - 1], answer_logits(model, inputs, loops), atol=1e-12)


def test_rows_follow_the_computation_and_read_every_accepted_answer():
    model, inputs = build(SMALL, PLAIN), rows(PLAIN)
    assert [row["site"] for row in logit_lens(model, inputs)] == residual_sites(model)
    every = Inputs(inputs.tokens, inputs.lengths, inputs.targets, torch.ones_like(inputs.accepted))
    assert {row["accuracy"] for row in logit_lens(model, every)} == {1.0}
    nothing = Inputs(inputs.tokens, inputs.lengths, torch.full_like(inputs.targets, -100), inputs.accepted)
    assert {row["log_probability"] for row in logit_lens(model, nothing)} == {0.0}


def test_sites_that_hold_no_stream_are_errors():
    model, inputs = build(SMALL, PLAIN), rows(PLAIN)
    with pytest.raises(UsageError, match=r"site: 'blocks\.0\.mlp_out' is unknown; allowed: embed"):
        logit_lens(model, inputs, ["blocks.*.mlp_out"])
    with pytest.raises(UsageError, match="matches no module"):
        logit_lens(model, inputs, ["loop_oot"])


def test_a_column_is_read_as_the_model_would_read_its_last():
    config, sizes = VARIANTS["layer norm, looped, outer norm"]
    model, inputs = build(config, sizes), rows(sizes)
    with record(model, ["embed", "blocks.*.resid_post"]) as seen:
        model(inputs.tokens, inputs.lengths)
    wanted = torch.full(inputs.tokens.shape[:2], -1)
    wanted[:4, 3] = model.read_out(seen["blocks.1.resid_post", 2]).argmax(-1)[:4, 3]
    wanted[:, -1] = model.read_out(seen["embed", 0]).argmax(-1)[:, -1]
    found = column_lens(model, inputs, {"said": wanted})
    assert [(row["site"], row["loop"]) for row in found[::2]] == [
        ("embed", 0), *((f"blocks.{b}.resid_post", r) for r in range(3) for b in range(2))
    ]  # fmt: skip
    assert [row["depth"] for row in found[::2]] == list(range(7))
    at = {(row["depth"], row["column"]): row for row in found}
    assert at[6, -7]["accuracy"] == at[0, -1]["accuracy"] == 1.0 and {column for _, column in at} == {-7, -1}
    assert at[6, -7]["rows"] == 4 and at[6, -1]["rows"] == 6  # only where something is asked
