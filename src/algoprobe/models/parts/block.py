"""One pre-norm transformer block: attention and feed-forward, each added to the residual stream."""

from __future__ import annotations

from functools import partial

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from ..config import TransformerConfig
from .attention import Attention, Geometry
from .norms import make_norm
from .taps import Tap

ACTIVATIONS = {"relu": F.relu, "gelu": F.gelu, "gelu-tanh": partial(F.gelu, approximate="tanh")}


class FeedForward(nn.Module):
    """W₂ σ(W₁ x + b₁) + b₂, the inner width `feedforward` times the model's."""

    def __init__(self, config: TransformerConfig, width: int) -> None:
        super().__init__()
        inner = max(1, round(config.feedforward * width))
        self.input = nn.Linear(width, inner)
        self.output = nn.Linear(inner, width)
        self.activation = ACTIVATIONS[config.activation]
        self.pre, self.post = Tap(), Tap()

    def forward(self, x: Float[Tensor, "batch rows width"]) -> Float[Tensor, "batch rows width"]:
        return self.output(self.post(self.activation(self.pre(self.input(x)))))


class Block(nn.Module):
    """x ← x + Attention(norm(x)); x ← x + FeedForward(norm(x))."""

    def __init__(self, config: TransformerConfig, width: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = make_norm(config, width), make_norm(config, width)
        self.attn = Attention(config, width)
        self.mlp = FeedForward(config, width)
        self.resid_pre, self.resid_mid, self.resid_post = Tap(), Tap(), Tap()
        self.attn_in, self.attn_out, self.mlp_in, self.mlp_out = Tap(), Tap(), Tap(), Tap()
        if config.zero_init:
            for layer in (self.attn.output, self.mlp.output):
                nn.init.zeros_(layer.weight)
                if layer.bias is not None:
                    nn.init.zeros_(layer.bias)

    def forward(
        self, x: Float[Tensor, "batch columns width"], geometry: Geometry, rows: int
    ) -> Float[Tensor, "batch {rows} width"]:
        """The block's output at the last `rows` columns."""
        x = self.resid_pre(x)
        attended = self.attn_out(self.attn(self.attn_in(self.norm1(x)), geometry, rows))
        x = self.resid_mid(x[:, x.shape[1] - rows :] + attended)
        return self.resid_post(x + self.mlp_out(self.mlp(self.mlp_in(self.norm2(x)))))
