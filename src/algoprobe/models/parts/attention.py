"""Multi-head attention on two paths, fused and explicit, under one mask convention."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from ..config import TransformerConfig
from .taps import Tap

Path = Literal["fused", "explicit"]

# Finite, so that a row whose keys are all hidden (a padding column) gives numbers that nobody reads, and not NaN.
HIDDEN = -1e9


def attention_mask(
    lengths: Tensor, columns: int, align: str, causal: bool, rows: int, prompt: int = 0
) -> Bool[Tensor, "batch 1 _ columns"] | None:
    """The mask of every layer: True where a query column (the last `rows`) may read a key column.

    A key is readable when it is not padding and, with `causal`, not later than the query or among the first `prompt`
    real columns of its row. None when nothing is hidden.
    """
    if not causal and bool((lengths == columns).all()):
        return None
    column = torch.arange(columns, device=lengths.device)
    real = column >= columns - lengths[:, None] if align == "right" else column < lengths[:, None]
    mask = real[:, None, None, :]
    if causal:
        query = column[columns - rows :]
        seen = column[None, :] <= query[:, None]
        if prompt:
            start = columns - lengths[:, None, None, None] if align == "right" else 0
            seen = seen | (column < start + prompt)
        mask = mask & seen
    return mask


@dataclass(frozen=True)
class Geometry:
    """What attention knows of columns beside what they hold; the same for every block and loop."""

    mask: Bool[Tensor, "batch 1 _ columns"] | None
    """Which keys a query may read; None: all."""
    rotation: tuple[Tensor, Tensor] | None = None
    """cos and sin by which each column is turned (rotary positions)."""
    distance: Int[Tensor, "queries columns"] | None = None
    """Of each query and key, which learned number is added to their score (relative positions)."""
    slope: Float[Tensor, "queries columns"] | None = None
    """And what is taken off it."""

    def last(self, rows: int) -> Geometry:
        """With queries at the last `rows` columns only."""
        mask = self.mask[:, :, -rows:] if self.mask is not None and self.mask.shape[2] > 1 else self.mask
        if self.distance is None:
            return replace(self, mask=mask)
        return replace(self, mask=mask, distance=self.distance[-rows:], slope=self.slope[-rows:])

    def of_rows(self, kept: Tensor) -> Geometry:
        """Of some rows of the batch."""
        return replace(self, mask=None if self.mask is None else self.mask[kept])


def distances(
    config: TransformerConfig, columns: int, device: torch.device
) -> tuple[Int[Tensor, "columns columns"], Float[Tensor, "columns columns"]]:
    """Of query q and key k: min(|q - k|, clip), for keys after the query from clip + 1 on; and the slope's part."""
    column, clip = torch.arange(columns, device=device), config.relative_clip
    back = column[:, None] - column
    near = back.abs().clamp(max=clip)
    slope = config.relative_slope * (back.abs() - near).float()
    return near if config.causal else torch.where(back < 0, near + clip, near), slope


class Attention(nn.Module):
    """softmax(Q Kᵀ / sqrt(d_head) + B + mask) V, then an output projection; B only with relative positions.

    `path` picks PyTorch's fused kernel or explicit products. Both give the same numbers to rounding; only the explicit
    one has the sites `scores` and `pattern`.
    """

    def __init__(self, config: TransformerConfig, width: int) -> None:
        super().__init__()
        self.heads = config.heads
        self.path: Path = "fused"
        self.query = nn.Linear(width, width, bias=config.bias)
        self.key = nn.Linear(width, width, bias=config.bias)
        self.value = nn.Linear(width, width, bias=config.bias)
        self.output = nn.Linear(width, width, bias=config.bias)
        if config.position == "relative":
            clip = config.relative_clip
            self.relative = nn.Parameter(torch.zeros(self.heads, clip + 1 if config.causal else 2 * clip + 1))
        self.q, self.k, self.v = Tap(), Tap(), Tap()
        self.scores, self.pattern, self.z = Tap(), Tap(), Tap()

    def forward(
        self, x: Float[Tensor, "batch columns width"], geometry: Geometry, rows: int
    ) -> Float[Tensor, "batch {rows} width"]:
        """Attention output for the last `rows` columns; keys and values come from all columns."""
        columns = x.shape[1]
        # Layers that read the same columns become one product: fewer, larger, and x is rounded once.
        if rows == columns:
            projected = project(x, self.query, self.key, self.value)
        else:
            geometry = geometry.last(rows)
            projected = [self.query(x[:, columns - rows :]), *project(x, self.key, self.value)]
        q, k, v = (tap(self._split(y)) for tap, y in zip((self.q, self.k, self.v), projected))
        if geometry.rotation is not None:
            q, k = rotate(q, geometry.rotation, columns - rows), rotate(k, geometry.rotation, 0)
        scale, mask = q.shape[-1] ** -0.5, geometry.mask
        bias = None if geometry.distance is None else self.relative[:, geometry.distance] - geometry.slope
        if self.path == "fused":
            if bias is not None:
                mask = bias.to(q.dtype) if mask is None else torch.where(mask, bias, HIDDEN).to(q.dtype)
                mask = mask.expand(len(x), -1, -1, -1)
            z = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale)
        else:
            scores = torch.matmul(q * scale, k.transpose(-1, -2))
            if mask is not None:
                bias = torch.where(mask, 0.0 if bias is None else bias, HIDDEN)
            if bias is not None:
                scores = scores + bias.to(scores.dtype)
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
