"""The transformer: embed, apply the stack R times, normalise, read the last columns."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from algoprobe.core.sizes import Sizes
from algoprobe.core.stream import derived_seed

from .config import TransformerConfig
from .parts.attention import Path, attention_mask, rotation_table
from .parts.block import Block
from .parts.embedding import Embedding
from .parts.norms import make_norm
from .parts.taps import Tap


class Transformer(nn.Module):
    """h₀ = 0; hᵣ = stack(e + N(hᵣ₋₁)) for r = 1..R; logits = output(norm(h_R)).

    e is the embedded input and N the outer norm. Without injection e enters only at r = 1; without an outer norm N is
    the identity; with R = 1 this is an ordinary transformer. Attention paths are chosen by `use_attention`.
    """

    def __init__(self, config: TransformerConfig, sizes: Sizes) -> None:
        super().__init__()
        self.config, self.sizes = config, sizes
        width = config.model_width(sizes)
        self.embed = Embedding(config, sizes)
        self.blocks = nn.ModuleList(Block(config, width) for _ in range(config.layers))
        self.outer_norm = make_norm(config, width) if config.outer_norm else nn.Identity()
        self.final_norm = make_norm(config, width)
        if config.output == "linear":
            self.unembed = nn.Linear(width, sizes.outputs)
        self.loop_in, self.loop_out, self.final, self.logits = Tap(), Tap(), Tap(), Tap()
        self.rotation = None
        if config.position == "rotary":
            cos, sin = rotation_table(sizes.length, width // config.heads)
            self.register_buffer("cos", cos, persistent=False)
            self.register_buffer("sin", sin, persistent=False)

    @classmethod
    def seeded(cls, config: TransformerConfig, sizes: Sizes, seed: int) -> Transformer:
        """A model whose starting weights are a pure function of `seed`; the global generator is left as it was."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(derived_seed("init", seed))
            return cls(config, sizes)

    def use_attention(self, path: Path) -> Transformer:
        """Choose the attention path of every block."""
        for block in self.blocks:
            block.attn.path = path
        return self

    def forward(
        self,
        tokens: Int[Tensor, "batch columns fields"],
        lengths: Int[Tensor, "batch"],
        read: int | None = None,
        loops: int | None = None,
    ) -> Float[Tensor, "batch read outputs"]:
        """Logits at the last `read` columns (None: at all), after `loops` loops (None: the config's).

        With `read` given, the last block of the last loop computes those columns alone.
        """
        columns = tokens.shape[1]
        read = columns if read is None else read
        loops = self.config.loops if loops is None else loops
        embedded = self.embed(tokens, self.blocks[0].attn.query.weight.dtype)
        align = self.sizes.align
        mask = attention_mask(lengths, columns, align, self.config.causal, columns)
        rotation = None
        if self.config.position == "rotary":
            position = self.embed.positions(columns, tokens.device)
            rotation = (self.cos[position], self.sin[position])
        x = embedded
        for loop in range(loops):
            if loop > 0:
                x = self.outer_norm(x)
                x = embedded + x if self.config.inject else x
            x = self.loop_in(x)
            for index, block in enumerate(self.blocks):
                last = loop == loops - 1 and index == len(self.blocks) - 1
                rows = read if last else columns
                block_mask = mask[:, :, -rows:] if mask is not None and mask.shape[2] > 1 else mask
                x = block(x, block_mask, rows, rotation)
            x = self.loop_out(x)
        return self.read_out(x)

    def read_out(self, x: Float[Tensor, "batch rows width"]) -> Float[Tensor, "batch rows outputs"]:
        """Logits from the residual stream."""
        x = self.final(self.final_norm(x))
        logits = self.unembed(x) if self.config.output == "linear" else self.embed.logits(x)
        return self.logits(logits.float() if logits.dtype == torch.bfloat16 else logits)
