"""What a loop reads of the one before, against the equations written out; logits after every loop."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from algoprobe.core.errors import UsageError
from algoprobe.core.sizes import Sizes
from algoprobe.models.config import TransformerConfig
from algoprobe.models.parts.attention import Geometry
from algoprobe.probes.record import record

from .test_transformer import PLAIN, SMALL, VARIANTS, randomised, rows

# Token embedding 12 (one-hot) or 16 channels wide, then spare channels, so that the channel's padding is seen as well.
MODELS = {
    "residual": replace(SMALL, inject=True, outer_norm=True),
    "embedding": replace(SMALL, recurrence="embedding"),
    "embedding, tied, injection": replace(SMALL, recurrence="embedding", inject=True, output="tied", norm="rms"),
    "embedding, outer norm": replace(SMALL, recurrence="embedding", outer_norm=True, position="learned", spare=4),
    "embedding, one-hot": replace(SMALL, recurrence="embedding", embedding="one-hot", spare=4, channel_scale=2.0),
    "reset": replace(SMALL, recurrence="reset", inject=True, position="learned"),
    "reset, tied": replace(SMALL, recurrence="reset", inject=True, output="tied", norm="rms", channel_scale=0.1),
}
EVERY_MODEL = pytest.mark.parametrize("config", MODELS.values(), ids=list(MODELS))
EVERY_CHANNEL = pytest.mark.parametrize(
    "config", [c for c in MODELS.values() if c.recurrence != "residual"], ids=[n for n in MODELS if n != "residual"]
)


def states_by_hand(model, tokens: torch.Tensor, loops: int) -> list[torch.Tensor]:
    """h_1 … h_R of full rows, each loop written out."""
    config, width = model.config, model.embed.width
    embedded = model.embed(tokens, torch.float64)
    table = torch.eye(12, width, dtype=torch.float64)  # row v: the embedding of token v, without position
    if config.embedding == "learned":
        table = torch.zeros(12, width, dtype=torch.float64)
        table[:, : config.width] = model.embed.tables[0].weight
    x, states = embedded, []
    for _ in range(loops):
        if states:
            state = states[-1]
            channel = torch.zeros_like(state)
            for row in range(state.shape[0]):
                for column in range(state.shape[1]):
                    normal = model.final_norm(state[row, column][None])[0]
                    if config.output == "tied":
                        logits = torch.stack([normal @ embedding for embedding in table])
                    else:
                        logits = model.unembed.weight @ normal + model.unembed.bias
                    weights = logits.exp() / logits.exp().sum()
                    said = sum(weight * embedding for weight, embedding in zip(weights, table))
                    channel[row, column] = config.channel_scale * said / (said.square().mean() + 1e-5).sqrt()
            kept = model.outer_norm(state) if config.outer_norm else state
            x = {"residual": kept, "embedding": kept + channel, "reset": channel}[config.recurrence]
            x = embedded + x if config.inject else x
        for block in model.blocks:
            x = block(x, Geometry(None), x.shape[1])
        states.append(x)
    return states


def full_rows(config: TransformerConfig):
    model = randomised(config, PLAIN).double()
    tokens = rows(PLAIN, columns=5)[0]
    return model, tokens, torch.full((4,), 5)


@EVERY_MODEL
@pytest.mark.parametrize("loops", [1, 2, 4])
def test_states_and_logits_follow_the_equations(config, loops):
    model, tokens, lengths = full_rows(config)
    with record(model, ["loop_in", "loop_out"]) as seen, torch.no_grad():
        logits = model(tokens, lengths, loops=loops)
    states = states_by_hand(model, tokens, loops)
    torch.testing.assert_close(seen.stack("loop_out"), torch.stack(states).detach())
    torch.testing.assert_close(logits, model.read_out(states[-1]).detach())
    embedded = model.embed(tokens, torch.float64)
    assert torch.equal(seen["loop_in", 0], embedded)
    if loops > 1:
        entered = model.enter_loop(seen["loop_out", 0], embedded)
        assert torch.equal(seen["loop_in", 1], entered)


@EVERY_MODEL
def test_gradients_follow_the_equations(config):
    model, tokens, lengths = full_rows(config)
    found = []
    for logits in (model(tokens, lengths, loops=3), model.read_out(states_by_hand(model, tokens, 3)[-1])):
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens.flatten())
        found.append(torch.autograd.grad(loss, list(model.parameters())))
    for ours, theirs in zip(*found):
        torch.testing.assert_close(ours, theirs)
    assert all(bool(gradient.any()) for gradient in found[0] if gradient.ndim == 2)


@given(
    name=st.sampled_from(sorted(VARIANTS)), loops=st.integers(1, 6), read=st.integers(1, 4), columns=st.integers(4, 10)
)
def test_logits_after_every_loop_are_those_of_fewer_loops(name, loops, read, columns):
    config, sizes = VARIANTS[name]
    model = randomised(config, sizes).double()
    tokens, lengths = rows(sizes, columns)
    lengths = lengths.clamp(max=columns)
    with torch.no_grad():
        every = model(tokens, lengths, read=read, loops=loops, every_loop=True)
        assert every.shape == (loops, 4, read, sizes.outputs)
        for loop in range(loops):
            torch.testing.assert_close(every[loop], model(tokens, lengths, read=read, loops=loop + 1))


def test_the_residual_recurrence_is_to_the_bit_what_it_was():
    """The loop as it stood before there was a choice."""
    for config in (MODELS["residual"], replace(SMALL, outer_norm=True), replace(SMALL, norm="rms", inject=True), SMALL):
        model = randomised(config, PLAIN)
        tokens, lengths = rows(PLAIN)[0], torch.full((4,), 10)
        embedded = x = model.embed(tokens, torch.float32)
        for loop in range(3):
            if loop > 0:
                x = model.outer_norm(x)
                x = embedded + x if config.inject else x
            for index, block in enumerate(model.blocks):
                x = block(x, Geometry(None), 2 if (loop, index) == (2, 1) else 10)
        logits = model.unembed(model.final_norm(x))
        assert torch.equal(model(tokens, lengths, read=2, loops=3), logits)


@EVERY_CHANNEL
def test_weights_are_those_of_the_residual_model(config):
    """The channel has none of its own, so it can be switched on in a model that was trained without."""
    ours, plain = (
        config.build(PLAIN, 1).state_dict(),
        replace(config, recurrence="residual").build(PLAIN, 1).state_dict(),
    )
    assert ours.keys() == plain.keys() and all(torch.equal(ours[name], plain[name]) for name in ours)


@EVERY_CHANNEL
def test_taps_fire_once_after_all_loops_and_the_channel_between_loops(config):
    model, tokens, lengths = full_rows(config)
    with record(model, ["final", "logits", "channel_out"]) as seen, torch.no_grad():
        logits = model(tokens, lengths, loops=4)
    assert sorted(seen) == [("channel_out", 0), ("channel_out", 1), ("channel_out", 2), ("final", 0), ("logits", 0)]
    assert torch.equal(seen["logits", 0], logits)
    scale = seen["channel_out", 1].square().mean(-1).sqrt()
    assert bool((scale <= config.channel_scale).all()) and bool((scale > 0.99 * config.channel_scale).all())


def test_the_channel_is_not_narrower_than_float32_under_autocast():
    model = randomised(MODELS["reset, tied"], PLAIN)
    tokens, lengths = rows(PLAIN)
    with record(model, ["channel_out", "loop_in"]) as seen, torch.autocast("cpu", torch.bfloat16):
        logits = model(tokens, lengths, loops=2)
    assert {tensor.dtype for tensor in seen.values()} == {logits.dtype} == {torch.float32}


@pytest.mark.parametrize(
    "change, message",
    [
        ({"recurrence": "reset"}, r"model\.inject: False .*allowed: True"),
        ({"recurrence": "reset", "inject": True, "outer_norm": True}, r"model\.outer_norm: True .*allowed: False"),
        ({"recurrence": "embedding", "channel_scale": 0.0}, r"model\.channel_scale: 0\.0 .*more than 0"),
    ],
)
def test_impossible_recurrences_are_named(change, message):
    with pytest.raises(UsageError, match=message):
        replace(SMALL, **change)


def test_a_channel_needs_answers_that_are_tokens():
    for sizes in (Sizes(vocabulary=12, length=10, outputs=12, fields=2), Sizes(vocabulary=12, length=10, outputs=6)):
        for name in ("embedding", "reset"):
            with pytest.raises(UsageError, match=r"model\.recurrence: .*allowed: 'residual'"):
                MODELS[name].build(sizes)
