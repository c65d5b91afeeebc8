"""Small models with no weight at a special value, and rows for them."""

from __future__ import annotations

from dataclasses import replace

import torch

from algoprobe.core.sizes import Sizes
from algoprobe.models.config import TransformerConfig
from algoprobe.probes.inputs import Inputs

PLAIN = Sizes(vocabulary=12, length=10, outputs=12)
PACKED = Sizes(vocabulary=12, length=10, outputs=6, fields=2)
SMALL = TransformerConfig(layers=2, heads=2, width=16)
LOOPED = replace(SMALL, layers=1, loops=3, norm="rms", bias=False, inject=True, outer_norm=True)
VARIANTS = {
    "layer norm, learned": (SMALL, PLAIN),
    "layer norm, one-hot, tied": (
        replace(SMALL, embedding="one-hot", position="one-hot", spare=2, heads=2, output="tied"),
        PLAIN,
    ),
    "layer norm, looped, outer norm": (replace(SMALL, loops=3, inject=True, outer_norm=True), PACKED),
    "rms, looped, outer norm": (LOOPED, PACKED),
    "rms, tied, learned positions": (replace(SMALL, norm="rms", position="learned", output="tied"), PLAIN),
    "no norm": (replace(SMALL, norm="none", loops=2, inject=True), PLAIN),
    "embedding channel": (replace(SMALL, loops=3, position="learned", recurrence="embedding"), PLAIN),
    "embedding channel, rms, outer norm, injection": (
        replace(LOOPED, layers=2, bias=True, output="tied", recurrence="embedding"),
        PLAIN,
    ),
    "reset": (replace(SMALL, loops=3, inject=True, recurrence="reset"), PLAIN),
    "relative positions": (
        replace(LOOPED, layers=2, position="relative", relative_clip=1, relative_slope=0.5, causal=True),
        PLAIN,
    ),
    "relative positions, both ways": (replace(SMALL, position="relative", loops=2), PLAIN),
    "reset, learned channel": (
        replace(SMALL, loops=3, inject=True, recurrence="reset", channel_learned=True, activation="gelu-tanh"),
        PLAIN,
    ),
    "looped without injection": (replace(SMALL, loops=2, outer_norm=True), PLAIN),
    "looped without outer norm": (replace(SMALL, loops=2, inject=True, position="rotary", causal=True), PLAIN),
}


def build(config: TransformerConfig, sizes: Sizes, seed: int = 0) -> torch.nn.Module:
    """A model in float64, so that laws hold to rounding far below any effect."""
    model = config.build(sizes, seed).double().eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    return model


def rows(sizes: Sizes, batch: int = 6, read: int = 1, seed: int = 0) -> Inputs:
    """Random rows of unequal lengths; the target is the only accepted answer."""
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(0, sizes.vocabulary, (batch, sizes.length, sizes.fields), generator=generator)
    lengths = torch.tensor([sizes.length - row % 4 for row in range(batch)])
    targets = torch.randint(0, sizes.outputs, (batch, read), generator=generator)
    return Inputs(tokens, lengths, targets, torch.nn.functional.one_hot(targets, sizes.outputs).bool())


def partners(sizes: Sizes, batch: int = 6) -> tuple[Inputs, Inputs]:
    """Clean and corrupted rows of equal lengths that differ everywhere, answers included."""
    clean, other = rows(sizes, batch, seed=1), rows(sizes, batch, seed=2)
    targets = (clean.targets + 1) % sizes.outputs
    accepted = torch.nn.functional.one_hot(targets, sizes.outputs).bool()
    return clean, Inputs(other.tokens, clean.lengths, targets, accepted)
