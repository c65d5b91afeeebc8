"""Direct logit attribution: a logit as an exact sum over everything that wrote to the residual stream.

logit_c = w_c · norm(h_R) + b_c. With a norm's scale held at its actual value the norm is linear,
D(x) = g ⊙ (x - mean) / σ (RMSNorm: without the mean), plus its offset. So the direction that reads h_R is Dᵀ w_c, and
walking back through the loops (h_r = e + N(h_{r-1}) + what the blocks added) gives every term a direction of its own.
What the embedding channel adds is a term as it is; where the state is reset, the walk ends at that term.
Source: Elhage et al., *A Mathematical Framework for Transformer Circuits* (2021).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from algoprobe.core.errors import outside
from algoprobe.core.statistics import mean_interval
from algoprobe.models.parts.norms import EPSILON

from .inputs import Inputs, answer_logits, loops_of
from .record import record
from .sites import refuse_outer_blocks


@dataclass(frozen=True)
class Attribution:
    """The terms of one logit, or of the difference of two, for every row."""

    terms: tuple[tuple[str, int], ...]
    """(component, loop): `embed`, `blocks.0 head 3`, `blocks.0 attention bias`, `blocks.0 mlp`, `norm offset`, …

    `embedding channel` is what a loop was handed by the one before it, undivided."""
    values: Float[Tensor, "batch terms"]
    logit: Float[Tensor, "batch"]
    """What the model itself computed; the terms sum to it, to rounding."""


def class_directions(model: nn.Module) -> tuple[Float[Tensor, "outputs width"], Float[Tensor, "outputs"]]:
    """w and b of logits = w · x + b, with x the normalised stream."""
    if model.config.output == "linear":
        return model.unembed.weight, model.unembed.bias
    weight = model.blocks[0].attn.query.weight
    eye = torch.eye(weight.shape[1], dtype=weight.dtype, device=weight.device)
    directions = model.embed.logits(eye[None])[0].T
    return directions, directions.new_zeros(len(directions))


def pull_back(
    norm: nn.Module, direction: Float[Tensor, "batch width"], x: Float[Tensor, "batch width"]
) -> tuple[Float[Tensor, "batch width"], Float[Tensor, "batch"]]:
    """Dᵀ · direction for `norm` at the scale it has at `x`, and direction · offset. The identity is left as it is."""
    if isinstance(norm, nn.Identity):
        return direction, direction.new_zeros(len(direction))
    back = direction * norm.weight
    if isinstance(norm, nn.LayerNorm):
        scale = (x.var(-1, unbiased=False, keepdim=True) + norm.eps).rsqrt()
        return (back - back.mean(-1, keepdim=True)) * scale, direction @ norm.bias
    scale = (x.square().mean(-1, keepdim=True) + EPSILON).rsqrt()
    return back * scale, direction.new_zeros(len(direction))


@torch.no_grad()
def attribute(
    model: nn.Module,
    inputs: Inputs,
    answer: Int[Tensor, "batch"],
    against: Int[Tensor, "batch"] | None = None,
    column: int = -1,
    loops: int | None = None,
) -> Attribution:
    """The terms of logit[answer], less those of logit[against] where given, at read column `column` (-1: the last).

    Raises `UsageError` when `column` is not among the read columns.
    """
    refuse_outer_blocks(model, "direct logit attribution")
    if not -inputs.read <= column < 0:
        raise outside("column", column, f"-{inputs.read} to -1, the read columns from the end")
    count = loops_of(model, loops)
    channel = ["channel_out"] if model.config.recurrence != "residual" and count > 1 else []
    with record(model, ["embed", "loop_out", "blocks.*.attn.z", "blocks.*.mlp_out", *channel]) as seen:
        logits = answer_logits(model, inputs, count)[:, column]
    directions, bias = class_directions(model)
    v, constant = directions[answer], bias[answer]
    logit = logits.gather(1, answer[:, None])[:, 0]
    if against is not None:
        v, constant = v - directions[against], constant - bias[against]
        logit = logit - logits.gather(1, against[:, None])[:, 0]
    found = {("output bias", count - 1): constant}
    for loop in reversed(range(count)):
        norm = model.final_norm if loop == count - 1 else model.outer_norm
        v, offset = pull_back(norm, v, seen["loop_out", loop][:, column])
        found["norm offset", loop] = offset
        for index, block in reversed(list(enumerate(model.blocks))):
            found[f"blocks.{index} mlp", loop] = (seen[f"blocks.{index}.mlp_out", loop][:, column] * v).sum(-1)
            output, z = block.attn.output, seen[f"blocks.{index}.attn.z", loop][:, :, column]
            if output.bias is not None:
                found[f"blocks.{index} attention bias", loop] = v @ output.bias
            # What head h adds is its z times its slice of the output matrix.
            reads = (v @ output.weight).unflatten(-1, (block.attn.heads, -1))
            for head in reversed(range(block.attn.heads)):
                found[f"blocks.{index} head {head}", loop] = (z[:, head] * reads[:, head]).sum(-1)
        if loop == 0 or model.config.inject:
            found["embed", loop] = (seen["embed", 0][:, column] * v).sum(-1)
        if loop > 0 and channel:
            found["embedding channel", loop] = (seen["channel_out", loop - 1][:, column] * v).sum(-1)
        if model.config.recurrence == "reset":
            break
    kept = [(term, value) for term, value in reversed(found.items()) if bool(value.any()) or "blocks" in term[0]]
    return Attribution(tuple(term for term, _ in kept), torch.stack([value for _, value in kept], 1), logit)


def strongest_wrong(
    logits: Float[Tensor, "batch read outputs"], inputs: Inputs, column: int = -1
) -> Int[Tensor, "batch"]:
    """The class with the largest logit among those not accepted, at one read column."""
    return logits[:, column].masked_fill(inputs.accepted[:, column], -torch.inf).argmax(-1)


def logit_attribution(
    model: nn.Module,
    inputs: Inputs,
    answer: Int[Tensor, "batch"],
    against: Int[Tensor, "batch"] | None = None,
    column: int = -1,
    loops: int | None = None,
) -> list[dict[str, Any]]:
    """`attribute` as rows, one a term: mean over the batch with a 95 % interval, and its share of the mean logit."""
    found = attribute(model, inputs, answer, against, column, loops)
    total, rows = float(found.logit.double().mean()), []
    for (component, loop), values in zip(found.terms, found.values.T):
        mean, low, high = mean_interval(values.double().tolist())
        share = mean / total if total else None
        row = {"component": component, "loop": loop, "contribution": mean, "low": low, "high": high, "share": share}
        rows.append(row | {"logit": total, "rows": len(values)})
    return rows
