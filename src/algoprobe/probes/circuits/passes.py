"""Partial passes: of a perturbed pass only what differs from the unperturbed one, and only what is read.

A perturbed weight (a, b) changes column a of its own step alone. In the step after it queries, keys and values change
at column a alone, and all outputs; then everything changes, up to the last step, where the answer's column alone is
read.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from ..circuit_settings import Settings
from .stack import Pass, Stack


def run_on(
    stack: Stack,
    base: Pass,
    step: int,
    a: Int[Tensor, "batch"],
    rows: Float[Tensor, "batch width"],
    final: FinalStep,
) -> tuple[Float[Tensor, "batch width"], Tensor, Tensor]:
    """The answer's column at the end when column `a` left a step as `rows`, and the falls of the final products."""
    x = base.moments[step].resid_post.expand(len(rows), -1, -1).clone()
    x[torch.arange(len(rows)), a] = rows
    last = stack.steps - 1
    for later in range(step + 1, last):
        x = stack.enter(later, x, base.embedded)
        if later == step + 1:
            x = one_column_differs(stack, base, later, x, a)
        else:
            x = stack.block(later)(x, stack.geometry(x.shape[1]), x.shape[1])
    return final(stack.enter(last, x, base.embedded))


def one_column_differs(
    stack: Stack, base: Pass, step: int, x: Float[Tensor, "batch columns width"], a: Int[Tensor, "batch"]
) -> Float[Tensor, "batch columns width"]:
    """A whole step on states that differ from the unperturbed ones in column `a` alone."""
    block, moment, each = stack.block(step), base.moments[step], torch.arange(len(x))
    attention, root = block.attn, stack.head_width**0.5
    u = block.norm1(x[each, a][:, None])[:, 0]
    q, k, v = (layer(u).unflatten(-1, (stack.heads, -1)) for layer in (attention.query, attention.key, attention.value))
    scores = (moment.q @ moment.k.transpose(1, 2)).expand(len(x), -1, -1, -1).clone()
    scores[each, :, :, a] = torch.einsum("hic,phc->phi", moment.q, k)
    scores[each, :, a] = torch.einsum("phc,hjc->phj", q, moment.k)
    scores[each, :, a, a] = (q * k).sum(-1)
    scores = scores / root
    mask = stack.geometry(x.shape[1]).mask
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    pattern = scores.softmax(-1)
    z = pattern @ moment.v
    moved = v - moment.v[:, a].transpose(0, 1)
    z += pattern[each, :, :, a][..., None] * moved[:, :, None]
    x = x + attention.output(z.transpose(1, 2).flatten(2))
    return x + block.mlp(block.norm2(x))


class FinalStep:
    """The last step for the answer's column alone, and how far its attention products fall.

    Each product is taken with one side perturbed, the source's or the answer's. With `bound` "log-weight" it is the log
    attention weight, biases and all, in place of the unscaled product.
    """

    def __init__(self, stack: Stack, base: Pass, settings: Settings) -> None:
        self.stack, self.base = stack, base.moments[-1]
        self.block, self.log_weight = stack.block(stack.steps - 1), settings.bound == "log-weight"
        self.root = stack.head_width**0.5
        maps, u = stack.product_maps(stack.steps - 1), self.base.attn_in
        self.from_answer = torch.einsum("d,hde->eh", u[-1], maps)
        self.to_answer = torch.einsum("hde,be->dhb", maps, u)
        self.products = (u @ self.from_answer).T
        scores = (self.base.q[:, -1:] @ self.base.k.transpose(1, 2))[:, 0] / self.root
        self.log_weights = scores.log_softmax(-1)
        # For each column the log of what all other columns add to the softmax's denominator.
        alone = torch.eye(scores.shape[1], dtype=torch.bool, device=scores.device)
        self.others = scores[:, None].masked_fill(alone, -torch.inf).logsumexp(-1)

    def __call__(self, x: Float[Tensor, "batch columns width"]) -> tuple[Tensor, Tensor, Tensor]:
        """The answer's column after the step, `[batch, width]`, and the falls by source and by destination."""
        attention, heads = self.block.attn, self.stack.heads
        u = self.block.norm1(x)
        q = attention.query(u[:, -1]).unflatten(-1, (heads, -1))
        # q · (W_K u + b) for all columns as (W_Kᵀ q) · u + q · b: keys themselves are never needed.
        key, value = (layer.weight.unflatten(0, (heads, -1)) for layer in (attention.key, attention.value))
        scores = u @ torch.einsum("phc,hcd->pdh", q, key)
        if attention.key.bias is not None:
            scores = scores + torch.einsum("phc,hc->ph", q, attention.key.bias.unflatten(0, (heads, -1)))[:, None]
        pattern = (scores / self.root).softmax(1)
        # Attention first, values after it: one product a head instead of one a column.
        z = torch.einsum("phd,hcd->phc", pattern.transpose(1, 2) @ u, value)
        if attention.value.bias is not None:
            z = z + attention.value.bias.unflatten(0, (heads, -1))
        middle = x[:, -1] + attention.output(z.flatten(1))
        after = middle + self.block.mlp(self.block.norm2(middle[:, None]))[:, 0]
        return after, *(self.log_weight_falls(u, q) if self.log_weight else self.product_falls(u))

    def product_falls(self, u: Float[Tensor, "batch columns width"]) -> tuple[Tensor, Tensor]:
        """Falls of the unscaled products, `[batch, heads, columns]`."""
        source = (u @ self.from_answer).transpose(1, 2)
        return self.products - source, self.products - torch.einsum("pd,dhb->phb", u[:, -1], self.to_answer)

    def log_weight_falls(
        self, u: Float[Tensor, "batch columns width"], q: Float[Tensor, "batch heads head_width"]
    ) -> tuple[Tensor, Tensor]:
        """Falls of the log attention weights, `[batch, heads, columns]`."""
        k = self.block.attn.key(u).unflatten(-1, (self.stack.heads, -1)).transpose(1, 2)
        source = (k @ self.base.q[:, -1, :, None])[..., 0] / self.root
        destination = torch.einsum("phc,hbc->phb", q, self.base.k) / self.root
        lowered = -F.softplus(self.others - source)
        return self.log_weights - lowered, self.log_weights - destination.log_softmax(-1)
