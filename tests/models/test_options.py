"""Relative positions, prelude and coda, and looping step by step."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from algoprobe.core.errors import UsageError
from algoprobe.core.sizes import Sizes
from algoprobe.models.config import TransformerConfig
from algoprobe.models.parts.attention import distances
from tests.probes.small import LOOPED, PLAIN, SMALL, VARIANTS, build, rows

RELATIVE = replace(SMALL, position="relative", relative_clip=2, relative_slope=0.25)


@pytest.mark.parametrize("causal", [False, True])
def test_places_and_slopes_of_distances(causal):
    near, slope = distances(replace(RELATIVE, causal=causal), 4, torch.device("cpu"))
    # Query 3 reads key 0 at distance 3: it shares the number of distance 2 and loses one column's slope.
    assert near[3].tolist() == [2, 2, 1, 0] and slope[3].tolist() == [0.25, 0, 0, 0]
    ahead = [0, 1, 2, 2] if causal else [0, 3, 4, 4]
    assert near[0].tolist() == ahead and slope[0].tolist() == [0, 0, 0, 0.25]


@pytest.mark.parametrize("causal", [False, True])
def test_relative_scores_are_those_of_the_formula(causal):
    model, inputs = build(replace(RELATIVE, causal=causal), PLAIN), rows(PLAIN)
    model.use_attention("explicit")
    scores = []
    attn = model.blocks[0].attn
    for tap in (attn.q, attn.k, attn.scores):
        tap.register_forward_hook(lambda module, args, out: scores.append(out))
    model(inputs.tokens, inputs.lengths)
    q, k, found = scores
    table, columns = attn.relative, PLAIN.length
    for query in range(columns):
        for key in range(query + 1 if causal else columns):
            away = query - key
            place = min(abs(away), 2) + (2 if away < 0 else 0)
            wanted = (q[:, :, query] * k[:, :, key]).sum(-1) / q.shape[-1] ** 0.5 + table[:, place]
            wanted = wanted - 0.25 * max(abs(away) - 2, 0)
            readable = key >= columns - inputs.lengths
            assert torch.allclose(found[readable, :, query, key], wanted[readable], atol=1e-12)


def test_relative_positions_do_not_know_where_a_row_begins():
    model, inputs = build(replace(RELATIVE, loops=2), PLAIN), rows(PLAIN, batch=1)
    longer = build(replace(RELATIVE, loops=2), replace(PLAIN, length=14))
    longer.load_state_dict(model.state_dict())
    padded = torch.cat([torch.zeros(1, 4, 1, dtype=torch.long), inputs.tokens], dim=1)
    assert torch.allclose(longer(padded, inputs.lengths, 1), model(inputs.tokens, inputs.lengths, 1), atol=1e-12)


@pytest.mark.parametrize("path", ["fused", "explicit"])
@pytest.mark.parametrize("name", VARIANTS)
def test_looping_step_by_step_is_the_forward_pass(name, path):
    config, sizes = VARIANTS[name]
    model, inputs = build(config, sizes).use_attention(path), rows(sizes, read=2)
    every = model(inputs.tokens, inputs.lengths, 2, every_loop=True)
    state = model.begin(inputs.tokens, inputs.lengths)
    for loop in range(config.loops):
        state = model.advance(state)
        assert state.done == loop + 1
        assert torch.allclose(model.answer(state, 2), every[loop], atol=1e-12)


def test_rows_that_leave_the_batch_change_nothing_for_the_others():
    model, inputs = build(replace(LOOPED, position="relative", causal=True), PLAIN), rows(PLAIN)
    whole = model(inputs.tokens, inputs.lengths, 1, loops=3)
    state = model.advance(model.begin(inputs.tokens, inputs.lengths))
    kept = torch.tensor([True, False, True, False, False, True])
    state = model.advance(model.advance(state.of_rows(kept)))
    assert torch.allclose(model.answer(state, 1), whole[kept], atol=1e-12)


def test_prelude_and_coda_are_applied_once():
    config = replace(SMALL, layers=1, prelude=2, coda=1, loops=3, inject=True, outer_norm=True)
    model, inputs = build(config, PLAIN), rows(PLAIN)
    calls = []
    for name in ("prelude.0", "prelude.1", "blocks.0", "coda.0"):
        model.get_submodule(name).register_forward_hook(lambda *_, name=name: calls.append(name))
    logits = model(inputs.tokens, inputs.lengths, 1)
    assert calls == ["prelude.0", "prelude.1", *["blocks.0"] * 3, "coda.0"]
    every = model(inputs.tokens, inputs.lengths, 1, every_loop=True)
    assert torch.allclose(every[-1], logits, atol=1e-12)
    assert torch.allclose(every[1], model(inputs.tokens, inputs.lengths, 1, loops=2), atol=1e-12)
    # What the prelude leaves is injected: with an identity stack the state of the second loop is norm(e) + e.
    state = model.begin(inputs.tokens, inputs.lengths)
    expected = state.embedded + model.outer_norm(state.embedded)
    assert torch.allclose(model.enter_loop(state.embedded, state.embedded), expected)


def test_prelude_and_coda_cost_their_blocks():
    sizes = Sizes(12, 10, 12)
    count = lambda config: sum(p.numel() for p in config.build(sizes).parameters())  # noqa: E731
    block = count(replace(SMALL, layers=2)) - count(replace(SMALL, layers=1))
    assert count(replace(SMALL, prelude=1, coda=2)) == count(SMALL) + 3 * block


def test_a_learned_channel_starts_as_the_fixed_one():
    config = replace(SMALL, loops=3, recurrence="embedding", channel_scale=0.7)
    fixed, learned = config.build(PLAIN, 3), replace(config, channel_learned=True).build(PLAIN, 3)
    inputs = rows(PLAIN)
    assert torch.equal(fixed(inputs.tokens, inputs.lengths), learned(inputs.tokens, inputs.lengths))
    learned(inputs.tokens, inputs.lengths).sum().backward()
    assert learned.channel.alpha.grad.shape == (16,) and "channel.alpha" not in fixed.state_dict()


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"channel_learned": True}, "model.channel_learned"),
        ({"relative_slope": -1.0}, "model.relative_slope"),
        ({"relative_slope": 1e39}, "model.relative_slope"),
        ({"channel_scale": 1e39}, "model.channel_scale"),
        ({"embedding_scale": 1e39}, "model.embedding_scale"),
        ({"relative_clip": -1}, "model.relative_clip"),
        ({"prelude": -1}, "model.prelude"),
        ({"coda": 1001}, "model.coda"),
    ],
)
def test_impossible_options_are_named(changes, named):
    with pytest.raises(UsageError, match=named):
        TransformerConfig(**changes)
