"""Multi-head attention on two paths, fused and explicit, under one mask convention."""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from .taps import Tap

Path = Literal["fused", "explicit"]

# Finite, so that a row whose keys are all hidden (a padding column) gives numbers that nobody reads, and not NaN.
HIDDEN = -1e9


def attention_mask(
    lengths: Tensor, columns: int, align: str, causal: bool, rows: int
) -> Bool[Tensor, "batch 1 _ columns"] | None:
    """The mask of every layer: True where a query column (the last `rows`) may read a key column.

    A key is readable when it is not padding and, with `causal`, not later than the query. None when nothing is hidden.
    """
    if not causal and bool((lengths == columns).all()):
        return None
    column = torch.arange(columns, device=lengths.device)
    real = column >= columns - lengths[:, None] if align == "right" else column < lengths[:, None]
    mask = real[:, None, None, :]
    if causal:
        query = column[columns - rows :]
        mask = mask & (column[None, :] <= query[:, None])
    return mask


class Attention(nn.Module):
    """softmax(Q Kᵀ / sqrt(d_head) + mask) V, then an output projection.

    `path` picks PyTorch's fused kernel or explicit products. Both give the same numbers to rounding; only the explicit
    one has the sites `scores` and `pattern`.
    """

    def __init__(self, width: int, heads: int, bias: bool) -> None:
        super().__init__()
        self.heads = heads
        self.path: Path = "fused"
        self.query = nn.Linear(width, width, bias=bias)
        self.key = nn.Linear(width, width, bias=bias)
        self.value = nn.Linear(width, width, bias=bias)
        self.output = nn.Linear(width, width, bias=bias)
        self.q, self.k, self.v = Tap(), Tap(), Tap()
        self.scores, self.pattern, self.z = Tap(), Tap(), Tap()

    def forward(
        self,
        x: Float[Tensor, "batch columns width"],
        mask: Bool[Tensor, "batch 1 _ columns"] | None,
        rows: int,
        rotation: tuple[Tensor, Tensor] | None = None,
    ) -> Float[Tensor, "batch {rows} width"]:
        """Attention output for the last `rows` columns; keys and values come from all columns."""
        columns = x.shape[1]
        # Layers that read the same columns become one product: fewer, larger, and x is rounded once.
        if rows == columns:
            projected = project(x, self.query, self.key, self.value)
        else:
            projected = [self.query(x[:, columns - rows :]), *project(x, self.key, self.value)]
        q, k, v = (tap(self._split(y)) for tap, y in zip((self.q, self.k, self.v), projected))
        if rotation is not None:
            q, k = rotate(q, rotation, columns - rows), rotate(k, rotation, 0)
        scale = q.shape[-1] ** -0.5
        if self.path == "fused":
            z = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale)
        else:
            scores = torch.matmul(q * scale, k.transpose(-1, -2))
            if mask is not None:
                scores = scores + torch.where(mask, 0.0, HIDDEN).to(scores.dtype)
            # In bfloat16 the kernel for short rows is several times slower than a detour through float32, and rougher.
            wide = torch.promote_types(scores.dtype, torch.float32)
            pattern = self.pattern(self.scores(scores).softmax(-1, dtype=wide).to(scores.dtype))
            z = torch.matmul(pattern, v)
        z = self.z(z).transpose(1, 2).flatten(2)
        return self.output(z)

    def _split(self, x: Tensor) -> Float[Tensor, "batch heads _ head_width"]:
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)


def project(x: Tensor, *layers: nn.Linear) -> tuple[Tensor, ...]:
    """What each of `layers` makes of `x`."""
    weight = torch.cat([layer.weight for layer in layers])
    bias = None if layers[0].bias is None else torch.cat([layer.bias for layer in layers])
    return F.linear(x, weight, bias).chunk(len(layers), dim=-1)


def rotation_table(length: int, head_width: int) -> tuple[Tensor, Tensor]:
    """cos and sin of position · 10000^(-2i/d_head), each `[length, head_width / 2]` (Su et al. 2021)."""
    frequency = 10000.0 ** (-torch.arange(0, head_width, 2, dtype=torch.float64) / head_width)
    angle = torch.arange(length, dtype=torch.float64)[:, None] * frequency
    return angle.cos().float(), angle.sin().float()


def rotate(x: Tensor, rotation: tuple[Tensor, Tensor], first: int) -> Tensor:
    """Turn channel pairs (i, i + d_head/2) of each column by its position; `first` is the first column of `x`."""
    cos, sin = (table[first : first + x.shape[-2]].to(x.dtype) for table in rotation)
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)
