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
from .parts.channel import EmbeddingChannel
from .parts.embedding import Embedding
from .parts.norms import make_norm
from .parts.taps import Tap


class Transformer(nn.Module):
    """h₁ = stack(e); hᵣ = stack(e + S(hᵣ₋₁)) for r = 2..R; logits = output(norm(h_R)).

    e is the embedded input; without injection it enters only at r = 1. With R = 1 this is an ordinary transformer.
    S is what the state hands on to the next loop, by `recurrence`:

        residual    S(h) = N(h)
        embedding   S(h) = N(h) + c(h)
        reset       S(h) = c(h), always with injection

    N is the outer norm, without one the identity; c(h) is the `EmbeddingChannel` of the logits that h gives at each
    column. Attention paths are chosen by `use_attention`.
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
        if config.recurrence != "residual":
            self.channel, self.channel_out = EmbeddingChannel(config, width), Tap()
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
        every_loop: bool = False,
    ) -> Float[Tensor, "*loops batch read outputs"]:
        """Logits at the last `read` columns (None: at all), after `loops` loops (None: the config's).

        With `read` given, the last block of the last loop computes those columns alone. With `every_loop` the logits
        after each loop, `[loops, batch, read, outputs]`; the last are what is returned without.
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
        x, states = embedded, []
        for loop in range(loops):
            x = self.loop_in(self.enter_loop(x, embedded) if loop > 0 else x)
            for index, block in enumerate(self.blocks):
                last = loop == loops - 1 and index == len(self.blocks) - 1
                rows = read if last else columns
                block_mask = mask[:, :, -rows:] if mask is not None and mask.shape[2] > 1 else mask
                x = block(x, block_mask, rows, rotation)
            x = self.loop_out(x)
            if every_loop:
                states.append(x[:, x.shape[1] - read :])
        return self.read_out(torch.stack(states) if every_loop else x)

    def enter_loop(
        self, state: Float[Tensor, "batch columns width"], embedded: Float[Tensor, "... columns width"]
    ) -> Float[Tensor, "batch columns width"]:
        """e + S(h), without injection S(h): what a later loop reads when the one before it left `state`."""
        carried = self.carry(state)
        return embedded + carried if self.config.inject else carried

    def carry(self, state: Float[Tensor, "*batch columns width"]) -> Float[Tensor, "*batch columns width"]:
        """S(h): what a state hands on to the next loop, column by column."""
        if self.config.recurrence == "residual":
            return self.outer_norm(state)
        said = self.channel_out(self.channel(self.class_logits(self.final_norm(state)), self.embed))
        return said if self.config.recurrence == "reset" else self.outer_norm(state) + said

    def class_logits(self, x: Float[Tensor, "*batch rows width"]) -> Float[Tensor, "*batch rows outputs"]:
        """Logits from the normalised stream."""
        return self.unembed(x) if self.config.output == "linear" else self.embed.logits(x)

    def read_out(self, x: Float[Tensor, "*batch rows width"]) -> Float[Tensor, "*batch rows outputs"]:
        """Logits from the residual stream."""
        logits = self.class_logits(self.final(self.final_norm(x)))
        return self.logits(logits.float() if logits.dtype == torch.bfloat16 else logits)
