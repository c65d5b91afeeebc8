"""Halting: rules that say after which loop a row needs no more, and evaluation in which such rows leave the batch.

Source: *Loop, Think, & Generalize* (arXiv 2604.07822), §6 and App. C (KL and entropy); confidence as in Fan et al.
(2409.15647); the hop rate as in Zhang (2607.20594).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from algoprobe.core.errors import UsageError, outside

from .halting_settings import Halting
from .inputs import Inputs

CHUNK = 128
"""Rows that loop together, at most."""


def entropy(log_p: Float[Tensor, "*rows classes"]) -> Float[Tensor, "*rows"]:
    """H(p) = -Σ p log p, in nats; a class of probability 0 adds nothing."""
    return -torch.xlogy(log_p.exp(), log_p.exp()).sum(-1)


def divergence(log_p: Float[Tensor, "*rows classes"], log_q: Float[Tensor, "*rows classes"]) -> Float[Tensor, "*rows"]:
    """KL(p ‖ q) = Σ p (log p - log q), in nats; a class of probability 0 under p adds nothing."""
    p = log_p.exp()
    return torch.where(p > 0, p * (log_p - log_q), 0.0).sum(-1).clamp_min(0.0)


def halts(
    halting: Halting,
    loop: int,
    log_p: Float[Tensor, "rows classes"],
    before: Float[Tensor, "rows classes"] | None,
    hops: Float[Tensor, "rows"] | Int[Tensor, "rows"],
    right: Bool[Tensor, "rows"],
) -> Bool[Tensor, "rows"]:
    """Which rows stop after loop `loop`, from 1.

    `before` has the log-probabilities of the loop before, None at the first, after which a rule that needs two
    distributions never stops. `hops` is read by `hop-rate` alone, `right` by `oracle` alone.
    """
    if halting.rule == "confidence":
        return log_p.amax(-1).exp() >= halting.confidence
    if halting.rule == "hop-rate":
        return loop >= torch.ceil(hops / halting.rate)
    if halting.rule == "oracle":
        return right
    if before is None:
        return torch.zeros(len(log_p), dtype=torch.bool, device=log_p.device)
    still = divergence(log_p, before) < halting.kl
    return still if halting.rule == "kl" else still & (entropy(log_p) < halting.entropy)


def halting_loops(
    halting: Halting,
    log_p: Float[Tensor, "loops rows classes"],
    hops: Float[Tensor, "rows"] | Int[Tensor, "rows"],
    right: Bool[Tensor, "loops rows"],
) -> Int[Tensor, "rows"]:
    """After which loop, from 1, each row of a whole trajectory stops; the last where the rule never fires."""
    stop = torch.full((log_p.shape[1],), len(log_p), device=log_p.device)
    for loop in range(len(log_p), 0, -1):
        now = halts(halting, loop, log_p[loop - 1], log_p[loop - 2] if loop > 1 else None, hops, right[loop - 1])
        stop = torch.where(now, loop, stop)
    return stop


@dataclass(frozen=True)
class Halted:
    """What an adaptive evaluation gave."""

    answers: Int[np.ndarray, "rows read"]
    loops: Int[np.ndarray, "rows"]
    """Loops that each row took."""


@torch.inference_mode()
def answer_adaptively(
    model: nn.Module,
    inputs: Inputs,
    halting: Halting,
    most: int,
    hops: Int[np.ndarray, "rows"] | None = None,
    chunk: int = CHUNK,
) -> Halted:
    """Loop each row until it halts, at most `most` times. A row that halted leaves the batch and costs nothing more.

    `hops` is the number of hops of each row, for `hop-rate`. Raises `UsageError` when that rule lacks it, or when
    rows have more than one answer column.
    """
    if most < 1:
        raise outside("loops", most, "1 and more")
    if inputs.read != 1:
        raise UsageError(f"rows: halting looks at one answer column, and these rows have {inputs.read}")
    if hops is None and halting.rule == "hop-rate":
        raise UsageError("halting.rule: 'hop-rate' needs the hops of each row, which these rows have none of")
    device = inputs.tokens.device
    hops = torch.ones(len(inputs), device=device) if hops is None else torch.from_numpy(hops).to(device)
    answers, taken = np.zeros((len(inputs), 1), np.int64), np.zeros(len(inputs), np.int64)
    # Rows of one length and, as far as that tells, of one depth loop together.
    for rows in torch.argsort(inputs.lengths, stable=True).split(chunk):
        widest = int(inputs.lengths[rows].max())
        tokens = inputs.tokens[rows]
        tokens = tokens[:, -widest:] if model.sizes.align == "right" else tokens[:, :widest]
        state, before = model.begin(tokens, inputs.lengths[rows]), None
        for loop in range(1, most + 1):
            state = model.advance(state)
            log_p = model.answer(state, 1)[:, 0].log_softmax(-1)
            answer = log_p.argmax(-1)
            right = inputs.accepted[rows, 0].gather(1, answer[:, None])[:, 0]
            done = halts(halting, loop, log_p, before, hops[rows], right)
            if loop == most:
                done = torch.ones_like(done)
            if bool(done.any()):
                answers[rows[done].cpu().numpy(), 0] = answer[done].cpu().numpy()
                taken[rows[done].cpu().numpy()] = loop
                kept = ~done
                rows, log_p = rows[kept], log_p[kept]
                if not len(rows):
                    break
                state = state.of_rows(kept)
            before = log_p
    return Halted(answers, taken)
