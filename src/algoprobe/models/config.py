"""Model configs. They import neither torch nor numba, so that help and listing stay instant."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from algoprobe.core.config import check_choices
from algoprobe.core.errors import outside
from algoprobe.core.sizes import Sizes


@dataclass(frozen=True)
class TransformerConfig:
    """A pre-norm transformer with exchangeable parts, whose stack can be applied several times."""

    kind: Literal["transformer"] = "transformer"
    layers: int = 6
    """Blocks in the stack."""
    heads: int = 1
    """Attention heads; must divide the model width."""
    embedding: Literal["one-hot", "learned", "names"] = "learned"
    """`one-hot`: fixed, one channel a token id. `learned`: one table per field of a token. `names`: one vector a name,
    whatever the field and the role it stands in, times a matrix of its field and role (packed encodings)."""
    width: int = 64
    """Channels of a learned token embedding or a name; not used with one-hot tokens."""
    spare: int = 0
    """Further channels that start at zero (the paper's "hidden dimension" beside its one-hot channels)."""
    combine: Literal["sum", "concatenate"] = "sum"
    """How the fields of one token (the ends of a packed edge) share the embedding: added, or half the width each."""
    embedding_scale: float = 1.0
    """Standard deviation of learned embeddings at the start."""
    position: Literal["one-hot", "learned", "rotary", "relative", "none"] = "none"
    """`one-hot` is concatenated to the token's channels; `learned` is added; `rotary` turns queries and keys;
    `relative` adds to each score of a head a learned number for the distance of its columns."""
    relative_clip: int = 2
    """Largest distance with a number of its own; longer ones share it (relative)."""
    relative_slope: float = 0.0
    """What is taken off a score for each column beyond that distance (relative), so that what far columns add up to
    does not grow with the length of a row (ALiBi, Press et al. 2022)."""
    causal: bool = False
    """Whether a column attends to earlier columns only."""
    prefix: bool = False
    """With `causal`: whether every column, itself included, attends to the whole prompt, both ways (a prefix LM)."""
    norm: Literal["layer", "rms", "none"] = "layer"
    """LayerNorm or RMSNorm before each sub-layer, and before the output; `none` is for models built by hand."""
    feedforward: float = 4.0
    """Width of the feed-forward layer, in model widths."""
    activation: Literal["relu", "gelu", "gelu-tanh"] = "relu"
    """Non-linearity of the feed-forward layer; `gelu-tanh` is GPT-2's approximation."""
    bias: bool = True
    """Biases in the attention projections."""
    zero_init: bool = False
    """Start attention output and second feed-forward matrices at zero, so that each block begins as the identity."""
    prelude: int = 0
    """Further blocks applied once before the loop; what they leave is what the loop starts from and is injected."""
    coda: int = 0
    """Further blocks applied once after the last loop. The embedding channel and lenses read states without them."""
    loops: int = 1
    """How many times the stack is applied (R), unless the training or the caller says otherwise."""
    inject: bool = False
    """Add the embedded input again at the start of each later loop."""
    outer_norm: bool = False
    """Normalise the state between loops."""
    recurrence: Literal["residual", "embedding", "reset"] = "residual"
    """What a state hands on to the next loop. `residual`: itself. `embedding`: itself and the embedding channel, the
    mean of the token embeddings under its logits. `reset`: the channel alone, beside the input that is added again."""
    channel_scale: float = 0.5
    """What the embedding channel, at root mean square 1, is multiplied by (embedding, reset)."""
    channel_learned: bool = False
    """Whether that factor is learned, one number for each model channel, from `channel_scale` on."""
    output: Literal["tied", "linear"] = "linear"
    """`tied`: logits are products with the token embedding, or with the names after a matrix of their own. `linear`:
    an output matrix of its own."""

    def __post_init__(self) -> None:
        check_choices(self, "model")
        # Upper ends far beyond use: a slip of the keyboard is answered at once and not by a full memory.
        for name, most in (("layers", 1000), ("heads", 1000), ("width", 65536), ("loops", 1000)):
            if not 1 <= getattr(self, name) <= most:
                raise outside(f"model.{name}", getattr(self, name), f"1 to {most}")
        for name, most in (("spare", 65536), ("prelude", 1000), ("coda", 1000), ("relative_clip", 65536)):
            if not 0 <= getattr(self, name) <= most:
                raise outside(f"model.{name}", getattr(self, name), f"0 to {most}")
        if not 0 < self.feedforward <= 64:
            raise outside("model.feedforward", self.feedforward, "more than 0, at most 64")
        if not 0 <= self.embedding_scale <= 1000:
            raise outside("model.embedding_scale", self.embedding_scale, "0 to 1000")
        if not 0 < self.channel_scale <= 1000:
            raise outside("model.channel_scale", self.channel_scale, "more than 0, at most 1000")
        if not 0 <= self.relative_slope <= 1000:
            raise outside("model.relative_slope", self.relative_slope, "0 to 1000")
        if self.channel_learned and self.recurrence == "residual":
            raise outside(
                "model.channel_learned", True, "False with model.recurrence 'residual', which has no embedding channel"
            )
        if self.prefix and not self.causal:
            raise outside("model.prefix", True, "False without model.causal, where every column reads all")
        if self.recurrence == "reset" and not self.inject:
            raise outside(
                "model.inject", self.inject, "True with model.recurrence 'reset', which starts from the input"
            )
        if self.recurrence == "reset" and self.outer_norm:
            raise outside(
                "model.outer_norm", self.outer_norm, "False with model.recurrence 'reset', which drops the state"
            )

    def model_width(self, sizes: Sizes) -> int:
        """d: token channels, spare channels, and position channels where positions are concatenated."""
        token = sizes.vocabulary * sizes.fields if self.embedding == "one-hot" else self.width
        return token + self.spare + (sizes.length if self.position == "one-hot" else 0)

    def check(self, sizes: Sizes) -> None:
        """Raise `UsageError` where this config cannot be built at these sizes."""
        d = self.model_width(sizes)
        if d % self.heads:
            near = [h for h in range(1, d + 1) if d % h == 0]
            raise outside("model.heads", self.heads, f"a divisor of the model width {d}: {', '.join(map(str, near))}")
        if self.position == "rotary" and (d // self.heads) % 2:
            raise outside(
                "model.heads", self.heads, f"rotary positions need an even width a head, not {d // self.heads}"
            )
        if self.embedding != "one-hot" and self.combine == "concatenate" and self.width % sizes.fields:
            raise outside("model.width", self.width, f"a multiple of {sizes.fields}, the fields of a token")
        if self.embedding == "names" and not sizes.names:
            raise outside(
                "model.embedding", self.embedding, "'learned', 'one-hot' (these tokens have no names in common)"
            )
        if sizes.prompt and not self.causal:
            raise outside("model.causal", False, "True (rows of this task hold their own answers)")
        if sizes.prompt and self.position in ("learned", "one-hot"):
            raise outside(
                "model.position", self.position, "'none', 'relative', 'rotary' (tokens of this task hold their places)"
            )
        if self.prefix and not sizes.prompt:
            raise outside("model.prefix", True, "False (rows of this task have no prompt apart from their answers)")
        answers_are_tokens = sizes.fields == 1 and sizes.outputs == sizes.vocabulary
        answers_are_names = self.embedding == "names" and sizes.outputs == sizes.names + 1
        if self.output == "tied" and not (answers_are_tokens or answers_are_names):
            raise outside(
                "model.output",
                self.output,
                "'linear' (a packed encoding has no output ids to tie to, unless model.embedding is 'names')",
            )
        if self.recurrence != "residual" and not (answers_are_tokens or answers_are_names):
            raise outside(
                "model.recurrence",
                self.recurrence,
                "'residual' (a packed encoding's answers are no tokens, unless model.embedding is 'names')",
            )

    def build(self, sizes: Sizes, seed: int = 0):
        """The model, its weights a pure function of `seed`."""
        from .transformer import Transformer

        self.check(sizes)
        return Transformer.seeded(self, sizes, seed)
