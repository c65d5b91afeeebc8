"""A transformer as a chain of steps, one attention each: block after block, loop after loop, in float32."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from algoprobe.core.errors import UsageError
from algoprobe.models.parts.attention import Geometry
from algoprobe.models.parts.block import Block
from algoprobe.models.transformer import Transformer

from ..record import record
from ..sites import refuse_outer_blocks


class Moment(NamedTuple):
    """One step of an unperturbed pass: what its attention reads, and what its taps handed on."""

    attn_in: Float[Tensor, "columns width"]
    q: Float[Tensor, "heads columns head_width"]
    k: Float[Tensor, "heads columns head_width"]
    v: Float[Tensor, "heads columns head_width"]
    pattern: Float[Tensor, "heads columns columns"]
    z: Float[Tensor, "heads columns head_width"]
    resid_mid: Float[Tensor, "columns width"]
    resid_post: Float[Tensor, "columns width"]
    pre: Float[Tensor, "columns hidden"]


class Pass(NamedTuple):
    """An unperturbed pass over one row: its embedding, every step, the logits of the answer."""

    embedded: Float[Tensor, "columns width"]
    moments: tuple[Moment, ...]
    logits: Float[Tensor, "outputs"]


TAPS = ("attn_in", "attn.q", "attn.k", "attn.v", "attn.pattern", "attn.z", "resid_mid", "resid_post", "mlp.pre")


class Stack:
    """The T = loops × layers steps of `model`, on the explicit attention path."""

    def __init__(self, model: Transformer, loops: int) -> None:
        if model.config.position in ("rotary", "relative"):
            raise UsageError(
                f"model.position: {model.config.position!r} has no one product a pair of columns; allowed: the others"
            )
        refuse_outer_blocks(model, "a circuit")
        if model.config.recurrence == "reset" and loops > 1:
            raise UsageError(
                "model.recurrence: 'reset' drops the state between loops, and a circuit follows what columns keep; "
                "allowed: the others, or one loop"
            )
        self.model, self.loops, self.layers = model.use_attention("explicit"), loops, model.config.layers
        self.steps, self.heads = loops * self.layers, model.config.heads
        self.width = model.config.model_width(model.sizes)
        self.head_width = self.width // self.heads
        self.device = model.blocks[0].attn.query.weight.device

    def block(self, step: int) -> Block:
        """The block that a step applies."""
        return self.model.blocks[step % self.layers]

    def name(self, step: int) -> str:
        """`layer 3`; in a looped model `loop 2`, or `loop 2, layer 1` where a loop has several."""
        loop, layer = divmod(step, self.layers)
        if self.loops == 1:
            return f"layer {layer + 1}"
        return f"loop {loop + 1}" if self.layers == 1 else f"loop {loop + 1}, layer {layer + 1}"

    def embed(self, tokens: Int[Tensor, "rows columns fields"]) -> Float[Tensor, "rows columns width"]:
        """The embedded rows."""
        return self.model.embed(tokens, torch.float32)

    def geometry(self, columns: int) -> Geometry:
        """Who reads whom in a row without padding."""
        return self.model.geometry(torch.tensor([columns], device=self.device), columns)

    def enter(self, step: int, x: Tensor, embedded: Tensor) -> Tensor:
        """What a step reads, from what the step before left."""
        if step == 0 or step % self.layers:
            return x
        return self.model.enter_loop(x, embedded)

    def leave(self, x: Float[Tensor, "rows columns width"]) -> Float[Tensor, "rows columns outputs"]:
        """Logits from what the last step left."""
        return self.model.read_out(x)

    def unperturbed(self, tokens: Int[Tensor, "columns fields"]) -> Pass:
        """One pass with every site kept."""
        columns = len(tokens)
        lengths = torch.tensor([columns], device=self.device)
        sites = [f"blocks.{layer}.{tap}" for layer in range(self.layers) for tap in TAPS]
        with record(self.model, sites) as kept:
            logits = self.model(tokens[None], lengths, loops=self.loops)
        moments = []
        for step in range(self.steps):
            loop, layer = divmod(step, self.layers)
            moments.append(Moment(*(kept[f"blocks.{layer}.{tap}", loop][0] for tap in TAPS)))
        return Pass(self.embed(tokens[None])[0], tuple(moments), logits[0, -1])

    def product_maps(self, step: int) -> Float[Tensor, "heads width width"]:
        """A = W_Qᵀ W_K of each head, without biases: the product of columns a and b is u_a A u_b."""
        attention = self.block(step).attn
        query, key = (layer.weight.unflatten(0, (self.heads, -1)) for layer in (attention.query, attention.key))
        return torch.einsum("hcd,hce->hde", query, key)
