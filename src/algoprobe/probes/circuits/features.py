"""What each operation matches on (step 7 of the method): patch the input, see which products move."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from ..circuit_settings import Settings
from ..edit import edit
from .layout import Feature, Layout
from .operations import Operation
from .stack import Pass, Stack


@dataclass(frozen=True)
class Dependence:
    """The features that an operation's two sides depend on, as indices into `Layout.features`."""

    source: frozenset[int]
    destination: frozenset[int]


def patched_embedding(stack: Stack, layout: Layout, features: list[Feature]) -> Float[Tensor, "features columns width"]:
    """The embedded row under every patch: a token replaced, or a position or one field of the query zeroed."""
    tokens = torch.stack([torch.from_numpy(feature.tokens) for feature in features]).to(stack.device)
    embedded = stack.embed(tokens)
    for index, feature in enumerate(features):
        if feature.kind == "place":
            embedded[index, layout.last] -= stack.model.embed.part(tokens[index, layout.last], feature.value)
        elif feature.kind == "position":

            def zero(x: Tensor, column: int = feature.value) -> Tensor:
                x = x.clone()
                x[..., column, :] = 0
                return x

            with edit(stack.model.embed, {("pos", None): zero}):
                embedded[index] = stack.embed(tokens[index : index + 1])[0]
    return embedded


@torch.inference_mode()
def patched_inputs(
    stack: Stack, layout: Layout, base: Pass, features: list[Feature], settings: Settings
) -> list[Float[Tensor, "features columns width"]]:
    """What the attention of each step reads under every patch, all earlier attention weights as they were."""
    embedded, found = patched_embedding(stack, layout, features), []
    x = embedded
    for step, moment in enumerate(base.moments):
        block = stack.block(step)
        x = stack.enter(step, x, embedded)
        u = block.norm1(x)
        found.append(u)
        if step == stack.steps - 1:
            break
        v = block.attn.value(u).unflatten(-1, (stack.heads, -1)).transpose(1, 2)
        x = x + block.attn.output((moment.pattern @ v).transpose(1, 2).flatten(2))
        hidden = block.mlp.input(block.norm2(x))
        frozen = settings.freeze_relu and block.mlp.activation is F.relu
        hidden = hidden * (moment.pre > 0) if frozen else block.mlp.activation(hidden)
        x = x + block.mlp.output(hidden)
    return found


@torch.inference_mode()
def dependences(
    stack: Stack, layout: Layout, base: Pass, operations: list[Operation], features: list[Feature], settings: Settings
) -> list[Dependence]:
    """For each operation the features whose patch, on one side, lowers its product by more than sqrt(d)/κ₂.

    For a negative operation, whose weight must stay low: raises it.
    """
    patched = patched_inputs(stack, layout, base, features, settings)
    maps = [stack.product_maps(layer) for layer in range(stack.layers)]
    bound, found = settings.feature_bound(stack.head_width), []
    for op in operations:
        u, moved, A = base.moments[op.step].attn_in, patched[op.step], maps[op.step % stack.layers][op.head]
        left, right = u[op.destination] @ A, A @ u[op.source]
        product = left @ u[op.source]
        lower = torch.stack([product - moved[:, op.source] @ left, product - moved[:, op.destination] @ right])
        if op.sign < 0:
            lower = -lower
        depends = (lower > bound).cpu().numpy()
        found.append(Dependence(*(frozenset(side.nonzero()[0].tolist()) for side in depends)))
    return found
