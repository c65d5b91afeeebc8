from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from algoprobe.core.errors import UsageError
from algoprobe.core.sizes import Sizes
from algoprobe.models.config import TransformerConfig
from algoprobe.models.parts.taps import Tap
from algoprobe.studies.registry import find_preset

PLAIN = Sizes(vocabulary=12, length=10, outputs=12)
PACKED = Sizes(vocabulary=12, length=10, outputs=6, fields=2)
NAMED = Sizes(vocabulary=11, length=10, outputs=6, fields=2, names=5)
SMALL = TransformerConfig(layers=2, heads=2, width=16)
VARIANTS = {
    "learned": (SMALL, PLAIN),
    "packed": (SMALL, PACKED),
    "packed concatenated": (replace(SMALL, combine="concatenate"), PACKED),
    "names, tied": (replace(SMALL, embedding="names", output="tied"), NAMED),
    "one-hot": (
        TransformerConfig(layers=2, embedding="one-hot", position="one-hot", spare=3, feedforward=1.0, output="tied"),
        PLAIN,
    ),
    "learned positions, tied": (replace(SMALL, position="learned", output="tied"), PLAIN),
    "rotary, causal": (replace(SMALL, position="rotary", causal=True), PLAIN),
    "rms, gelu": (replace(SMALL, norm="rms", activation="gelu", bias=False), PLAIN),
    "looped": (replace(SMALL, layers=1, loops=4, inject=True, outer_norm=True), PACKED),
    "looped without injection": (replace(SMALL, loops=2), PLAIN),
    "embedding channel, tied": (
        replace(SMALL, position="learned", output="tied", recurrence="embedding", loops=3),
        PLAIN,
    ),
    "embedding channel, one-hot": (
        replace(SMALL, embedding="one-hot", spare=4, inject=True, outer_norm=True, recurrence="embedding", loops=3),
        PLAIN,
    ),
    "reset": (replace(SMALL, layers=1, norm="rms", inject=True, recurrence="reset", loops=4), PLAIN),
    "left-aligned, causal": (replace(SMALL, position="learned", causal=True), replace(PLAIN, align="left")),
}


def rows(sizes: Sizes, columns: int = 10, batch: int = 4) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    tokens = torch.randint(0, sizes.vocabulary, (batch, columns, sizes.fields), generator=generator)
    return tokens, torch.tensor([columns, columns - 1, 4, 3])


def randomised(config: TransformerConfig, sizes: Sizes, seed: int = 0):
    """A model none of whose weights is at a special value."""
    model = config.build(sizes, seed)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.1 * torch.randn(p.shape, generator=torch.Generator().manual_seed(p.numel())))
    return model


def test_search_paper_has_the_papers_shapes():
    experiment = find_preset("search-paper").make()
    sizes = experiment.task.build().sizes
    model = experiment.model.build(sizes)
    assert (sizes.vocabulary, sizes.length) == (46, 128)
    assert sum(p.numel() for p in model.parameters()) == 1_311_380
    assert {tuple(p.shape) for p in model.parameters()} == {(190, 190), (190,)}
    scaling = replace(experiment, task=replace(experiment.task, n=98), model=replace(experiment.model, layers=8))
    assert sum(p.numel() for p in scaling.model.build(scaling.task.build().sizes).parameters()) == 1_092_300


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("padded", [False, True])
def test_fused_equals_explicit_attention(name, dtype, padded):
    config, sizes = VARIANTS[name]
    model = randomised(config, sizes)
    tokens, lengths = rows(sizes)
    lengths = lengths if padded else torch.full_like(lengths, 10)
    model = model.double() if dtype == "float64" else model
    found = []
    for path in ("fused", "explicit"):
        with torch.autocast("cpu", torch.bfloat16, enabled=dtype == "bfloat16"):
            found.append(model.use_attention(path)(tokens, lengths, read=2))
    tolerance = 5e-2 if dtype == "bfloat16" else 1e-5
    torch.testing.assert_close(found[0], found[1], rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", VARIANTS)
def test_reading_few_columns_equals_reading_all(name):
    config, sizes = VARIANTS[name]
    model = randomised(config, sizes)
    tokens, lengths = rows(sizes)
    whole = model(tokens, lengths)
    for read in (1, 3):
        torch.testing.assert_close(model(tokens, lengths, read=read), whole[:, -read:], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", VARIANTS)
def test_padding_changes_nothing(name):
    config, sizes = VARIANTS[name]
    model = randomised(config, sizes)
    tokens, _ = rows(sizes, columns=6)
    lengths = torch.full((4,), 6)
    padding = torch.full((4, 4, sizes.fields), 5)
    right = sizes.align == "right"
    wide = torch.cat((padding, tokens) if right else (tokens, padding), dim=1)
    found = model(wide, lengths)
    found = found[:, 4:] if right else found[:, :6]
    torch.testing.assert_close(found, model(tokens, lengths), rtol=1e-5, atol=1e-5)


def test_causal_models_do_not_look_ahead_and_others_do():
    for causal in (True, False):
        model = randomised(replace(SMALL, causal=causal, position="learned"), PLAIN)
        tokens, lengths = rows(PLAIN)
        lengths = torch.full_like(lengths, 10)
        changed = tokens.clone()
        changed[:, -1] = (changed[:, -1] + 1) % 12
        same = torch.equal(model(tokens, lengths)[:, :-1], model(changed, lengths)[:, :-1])
        assert same == causal


def test_loops_are_the_stack_applied_again():
    config = replace(SMALL, layers=1, loops=3)
    looped = randomised(config, PLAIN)
    untied = replace(config, layers=3, loops=1).build(PLAIN)
    state = looped.state_dict()
    for name in list(state):
        if name.startswith("blocks.0."):
            for layer in (1, 2):
                state[name.replace("blocks.0.", f"blocks.{layer}.")] = state[name]
    untied.load_state_dict(state)
    tokens, lengths = rows(PLAIN)
    assert torch.equal(looped(tokens, lengths, read=1), untied(tokens, lengths, read=1))
    assert not torch.equal(looped(tokens, lengths, loops=2), looped(tokens, lengths, loops=3))


def test_zero_initialised_blocks_start_as_the_identity():
    model = replace(SMALL, zero_init=True).build(PLAIN)
    tokens, lengths = rows(PLAIN)
    assert torch.equal(model(tokens, lengths), model(tokens, lengths, loops=5))


def test_weights_are_a_function_of_the_seed_alone():
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    a = SMALL.build(PLAIN, seed=1).state_dict()
    assert torch.equal(torch.random.get_rng_state(), before)
    torch.manual_seed(6)
    b, c = SMALL.build(PLAIN, seed=1).state_dict(), SMALL.build(PLAIN, seed=2).state_dict()
    assert all(torch.equal(a[k], b[k]) for k in a)
    assert not all(torch.equal(a[k], c[k]) for k in a)


def test_every_site_is_a_tap_that_fires():
    model = replace(SMALL, loops=2).build(PLAIN).use_attention("explicit")
    fired: dict[str, int] = {}
    for name, module in model.named_modules():
        if isinstance(module, Tap):
            module.register_forward_hook(lambda *_, name=name: fired.__setitem__(name, fired.get(name, 0) + 1))
    tokens, lengths = rows(PLAIN)
    model(tokens, lengths)
    taps = {name for name, module in model.named_modules() if isinstance(module, Tap)}
    assert taps - set(fired) == {"embed.pos"}  # no positions in this model
    assert {"blocks.1.attn.pattern", "blocks.0.resid_post", "blocks.0.mlp_out", "final"} <= taps
    assert fired["blocks.0.attn.pattern"] == 2


@pytest.mark.parametrize(
    "change, message",
    [
        ({"heads": 3}, r"model\.heads: 3.*a divisor of the model width 16: 1, 2, 4, 8, 16"),
        ({"heads": 16, "position": "rotary"}, r"model\.heads: 16.*even width"),
        ({"output": "tied"}, r"model\.output: 'tied'.*'linear'"),
        ({"recurrence": "embedding"}, r"model\.recurrence: 'embedding'.*'residual'"),
    ],
)
def test_impossible_shapes_are_named(change, message):
    with pytest.raises(UsageError, match=message):
        replace(SMALL, **change).build(PACKED)


@pytest.mark.parametrize("change", [{"layers": 0}, {"spare": -1}, {"feedforward": 0.0}, {"loops": 0}])
def test_impossible_numbers_are_named(change):
    with pytest.raises(UsageError, match=rf"model\.{next(iter(change))}: "):
        replace(SMALL, **change)
