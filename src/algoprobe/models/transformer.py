"""The transformer: embed, apply the stack R times, normalise, read the last columns."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from algoprobe.core.sizes import Sizes
from algoprobe.core.stream import derived_seed

from .config import TransformerConfig
from .parts.attention import Geometry, Path, attention_mask, distances, rotation_table
from .parts.block import Block
from .parts.channel import EmbeddingChannel
from .parts.embedding import Embedding
from .parts.norms import make_norm
from .parts.taps import Tap


@dataclass(frozen=True)
class Loops:
    """A batch between two loops."""

    x: Float[Tensor, "batch _ width"]
    """h after `done` loops; before the first one e."""
    embedded: Float[Tensor, "batch columns width"]
    """e: what is injected."""
    geometry: Geometry
    done: int = 0

    def of_rows(self, kept: Tensor) -> Loops:
        """Some rows of the batch alone; the others are not computed any more."""
        return replace(self, x=self.x[kept], embedded=self.embedded[kept], geometry=self.geometry.of_rows(kept))


class Transformer(nn.Module):
    """h₁ = stack(e); hᵣ = stack(e + S(hᵣ₋₁)) for r = 2..R; logits = output(norm(coda(h_R))).

    e is what the prelude makes of the embedded input; without injection it enters only at r = 1. Prelude and coda have
    no blocks unless asked for. With R = 1 this is an ordinary transformer. S is what the state hands on to the next
    loop, by `recurrence`:

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
        self.prelude, self.blocks, self.coda = (
            nn.ModuleList(Block(config, width) for _ in range(count))
            for count in (config.prelude, config.layers, config.coda)
        )
        self.outer_norm = make_norm(config, width) if config.outer_norm else nn.Identity()
        self.final_norm = make_norm(config, width)
        if config.output == "linear":
            self.unembed = nn.Linear(width, sizes.outputs)
        self.loop_in, self.loop_out, self.final, self.logits = Tap(), Tap(), Tap(), Tap()
        if config.recurrence != "residual":
            self.channel, self.channel_out = EmbeddingChannel(config, width), Tap()
        self.prompt = sizes.prompt if config.prefix else 0
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
        for block in (*self.prelude, *self.blocks, *self.coda):
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
        state, found = self.begin(tokens, lengths), []
        for loop in range(loops):
            state = self.advance(state, read if loop == loops - 1 else None)
            if every_loop:
                found.append(self.answer(state, read) if self.coda else state.x[:, -read:])
        if not every_loop:
            return self.answer(state, read)
        return torch.stack(found) if self.coda else self.read_out(torch.stack(found))

    def begin(self, tokens: Int[Tensor, "batch columns fields"], lengths: Int[Tensor, "batch"]) -> Loops:
        """The batch before the first loop: embedded, and the prelude applied."""
        columns = tokens.shape[1]
        x = self.embed(tokens, self.blocks[0].attn.query.weight.dtype)
        geometry = self.geometry(lengths, columns)
        for block in self.prelude:
            x = block(x, geometry, columns)
        return Loops(x, x, geometry)

    def geometry(self, lengths: Int[Tensor, "batch"], columns: int) -> Geometry:
        """Who reads whom in a batch of `columns` columns."""
        config, device, rotation, distance, slope = self.config, lengths.device, None, None, None
        mask = attention_mask(lengths, columns, self.sizes.align, config.causal, columns, self.prompt)
        if config.position == "rotary":
            position = self.embed.positions(columns, device)
            rotation = (self.cos[position], self.sin[position])
        elif config.position == "relative":
            distance, slope = distances(config, columns, device)
        return Geometry(mask, rotation, distance, slope)

    def advance(self, state: Loops, rows: int | None = None) -> Loops:
        """One more loop; `rows` says that none follows and that the last `rows` columns are all that is read.

        The last block then computes those columns alone, unless a coda still needs all of them.
        """
        x, columns = state.x, state.embedded.shape[1]
        x = self.loop_in(self.enter_loop(x, state.embedded) if state.done else x)
        for index, block in enumerate(self.blocks):
            last = rows is not None and not self.coda and index == len(self.blocks) - 1
            x = block(x, state.geometry, rows if last else columns)
        return replace(state, x=self.loop_out(x), done=state.done + 1)

    def answer(self, state: Loops, read: int) -> Float[Tensor, "batch read outputs"]:
        """Logits at the last `read` columns of a batch that has looped."""
        x, columns = state.x, state.embedded.shape[1]
        for index, block in enumerate(self.coda):
            x = block(x, state.geometry, read if index == len(self.coda) - 1 else columns)
        return self.read_out(x[:, -read:])

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
