"""Normalisation over the last axis."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from ..config import TransformerConfig

EPSILON = 1e-5


class FewPasses(torch.autograd.Function):
    """RMSNorm in few passes over memory; on a CPU, PyTorch's own is a chain of a dozen.

    y = x · r · g with r = 1 / sqrt(mean(x²) + ε). Backward, with n = x · r and h = g · ∂y:
    ∂x = r · (h - n · mean(h · n)) and ∂g = Σ ∂y · n.
    """

    @staticmethod
    def forward(ctx, x: Tensor, gain: Tensor) -> Tensor:
        square = torch.linalg.vector_norm(x, dim=-1, keepdim=True).square_()
        r = square.div_(x.shape[-1]).add_(EPSILON).rsqrt_()
        normal = x * r
        ctx.save_for_backward(normal, r, gain)
        return normal * gain

    @staticmethod
    @once_differentiable
    def backward(ctx, upstream: Tensor) -> tuple[Tensor, Tensor]:
        normal, r, gain = ctx.saved_tensors
        product = upstream * normal
        mean = (product @ gain).unsqueeze(-1).div_(gain.shape[0])
        return (upstream * gain).addcmul_(normal, mean, value=-1).mul_(r), product.flatten(0, -2).sum(0)


def rms_norm(x: Float[Tensor, "*rows width"], gain: Float[Tensor, "width"]) -> Float[Tensor, "*rows width"]:
    """x / sqrt(mean(x²) + ε) · gain, the mean over the last axis (Zhang & Sennrich 2019)."""
    if x.device.type == "cpu":
        return FewPasses.apply(x, gain)
    return F.rms_norm(x, gain.shape, gain, EPSILON)


class RMSNorm(nn.Module):
    """`rms_norm` with a learned gain."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Float[Tensor, "*rows width"]) -> Float[Tensor, "*rows width"]:
        return rms_norm(x, self.weight)


def make_norm(config: TransformerConfig, width: int) -> nn.Module:
    """LayerNorm or RMSNorm over the last axis, with a learned gain (and offset, for LayerNorm), or nothing."""
    if config.norm == "none":
        return nn.Identity()
    return nn.LayerNorm(width, eps=EPSILON) if config.norm == "layer" else RMSNorm(width)
