"""What each attention weight does to the answer and to the final copies (steps 2 and 4 of the method).

One weight at a time is set to zero, or raised ("maxed"); later steps run again, earlier ones stay. All perturbations of
a step run side by side, and none computes more than it changes (see `passes`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from algoprobe.core.errors import AlgoprobeError

from ..circuit_settings import Settings
from .layout import Layout
from .passes import FinalStep, run_on
from .stack import Pass, Stack

ZEROED, MAXED = 0, 1
COLUMNS_AT_ONCE = 4096
"""Columns (perturbations × columns of the row) in one product; about what stays in a core's cache."""


@dataclass(frozen=True)
class Effects:
    """How far each perturbation lowers what is watched; axes are step, variant, head, destination a, source b.

    The last two axes of the products are head and source of the final copy, whose destination is the answer's column.
    Zero where a perturbation was not run because it changes nothing.
    """

    answer: int
    """w: the class that the model answers."""
    logit: float
    """Its logit, unperturbed."""
    logit_drop: Float[np.ndarray, "steps 2 heads columns columns"]
    source_drop: Float[np.ndarray, "earlier_steps 2 heads columns columns heads columns"]
    """Fall of a final copy's product (or log attention weight) when only its source side is perturbed."""
    destination_drop: Float[np.ndarray, "earlier_steps 2 heads columns columns heads columns"]
    """The same when only the answer's column is perturbed."""


def maxed(pattern: Float[Tensor, "heads columns columns"], maxing: str) -> Float[Tensor, "heads columns columns"]:
    """What each weight is raised to: the largest of its column (over destinations), or of its row."""
    dim = -2 if maxing == "column" else -1
    return pattern.amax(dim, keepdim=True).expand_as(pattern)


@dataclass(frozen=True)
class Measured:
    """A row with all that its circuit is made from; thresholds may still change, readings of the perturbation not."""

    stack: Stack
    layout: Layout
    settings: Settings
    base: Pass
    effects: Effects


@torch.inference_mode()
def measure(stack: Stack, layout: Layout, settings: Settings) -> Measured:
    """The unperturbed pass over a row, and the effect of every perturbation.

    Raises `AlgoprobeError` when the model's logits are not finite.
    """
    base = stack.unperturbed(torch.from_numpy(layout.tokens).to(stack.device))
    if not bool(base.logits.isfinite().all()):
        raise AlgoprobeError("the model's logits are not finite; nothing can be said of its answers")
    answer = int(base.logits.argmax())
    T, H, n = stack.steps, stack.heads, layout.columns
    logit_drop = torch.zeros(T, 2, H, n, n)
    source_drop, destination_drop = torch.zeros(2, T - 1, 2, H, n, n, H, n)
    watch = FinalStep(stack, base, settings)
    for step in range(T):
        where, change = perturbations(base, step, settings, only_last=step == T - 1)
        for part in torch.arange(len(change)).split(max(1, COLUMNS_AT_ONCE // n)):
            at = tuple(index[part] for index in where)
            rows = perturbed_columns(stack, base, step, at, change[part], settings)
            if step < T - 1:
                rows, source, destination = run_on(stack, base, step, at[2], rows, watch)
                source_drop[step][at], destination_drop[step][at] = source.cpu(), destination.cpu()
            logits = stack.leave(rows[:, None])[:, -1]
            logit_drop[step][at] = (base.logits[answer] - logits[:, answer]).cpu()
    found = (logit_drop.numpy(), source_drop.numpy(), destination_drop.numpy())
    effects = Effects(answer, float(base.logits[answer]), *found)
    return Measured(stack, layout, settings, base, effects)


def perturbations(base: Pass, step: int, settings: Settings, only_last: bool) -> tuple[tuple[Tensor, ...], Tensor]:
    """Indices (variant, head, a, b) and changes of weight. Those that change nothing at all are left out."""
    pattern = base.moments[step].pattern
    changes = torch.stack([-pattern, maxed(pattern, settings.maxing) - pattern])
    if only_last:
        changes[:, :, :-1] = 0.0
    where = changes.nonzero(as_tuple=True)
    return where, changes[where]


def perturbed_columns(
    stack: Stack, base: Pass, step: int, at: tuple[Tensor, ...], change: Float[Tensor, "batch"], settings: Settings
) -> Float[Tensor, "batch width"]:
    """Column a after the step, with the weight of head h from b to a moved by `change`."""
    variant, head, a, b = at
    block, moment = stack.block(step), base.moments[step]
    z = moment.z[head, a] + change[:, None] * moment.v[head, b]
    if settings.maxing == "row":
        # The paper's reading normalises a row again after raising one of its weights.
        z = torch.where((variant == MAXED)[:, None], z / (1 + change)[:, None], z)
    outward = block.attn.output.weight.unflatten(1, (stack.heads, -1))
    middle = moment.resid_mid[a]
    for h in range(stack.heads):
        mine = head == h
        middle[mine] += (z[mine] - moment.z[h, a[mine]]) @ outward[:, h].T
    return middle + block.mlp(block.norm2(middle[:, None]))[:, 0]
