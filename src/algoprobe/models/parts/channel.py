"""The embedding channel: between loops, what the state says as a token that the first loop could have read."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ..config import TransformerConfig
from .embedding import Embedding
from .norms import rms_norm


class EmbeddingChannel(nn.Module):
    """c = α · RMSNorm(Φ), Φ = Σ_v softmax(logits)_v E_v, with E_v the input embedding of token v, without position.

    α is `channel_scale`, with `channel_learned` a learned number for each model channel that starts there. Source:
    DiscoLoop (arXiv 2607.00341), with temperature 1 and no cut to the likeliest tokens.
    """

    def __init__(self, config: TransformerConfig, width: int) -> None:
        super().__init__()
        # As the norm's gain, so that α costs no pass over memory.
        alpha = torch.full((width,), config.channel_scale)
        if config.channel_learned:
            self.alpha = nn.Parameter(alpha)
        else:
            self.register_buffer("alpha", alpha, persistent=False)

    def forward(
        self, logits: Float[Tensor, "*batch columns vocabulary"], embed: Embedding
    ) -> Float[Tensor, "*batch columns width"]:
        """c at every column, never narrower than float32."""
        wide = torch.promote_types(logits.dtype, torch.float32)
        return rms_norm(embed.expected(logits.softmax(-1, dtype=wide)).to(wide), self.alpha)
