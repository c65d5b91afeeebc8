"""One optimiser step."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import chain

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor, nn
from torch.optim import Optimizer

from algoprobe.core.stream import derived_seed
from algoprobe.tasks.batch import IGNORE, Batch

from .auxiliary import Auxiliary
from .config import TrainConfig
from .forward import Arithmetic, chunks, trim
from .objective import cross_entropy, loop_cross_entropy, sampled_targets
from .optimisers import SophiaG
from .regression import Regression


@dataclass(frozen=True)
class StepResult:
    """What a step saw, before its update; tensors stay on the device until somebody reads them."""

    loss: Tensor
    norm: Tensor
    answers: list[tuple[np.ndarray, Tensor]]
    auxiliary: Tensor | None = None
    """The auxiliary loss before its weight, which `loss` does not hold; None where there is none."""

    def answered(self, batch: Batch) -> np.ndarray:
        """The class with the largest logit for every row and read column."""
        found = np.empty(batch.targets.shape, np.int64)
        for rows, answer in self.answers:
            found[rows] = answer.cpu().numpy()
        return found


def gradients(
    model: nn.Module,
    batch: Batch,
    loops: int,
    config: TrainConfig,
    arithmetic: Arithmetic,
    relabel: Callable[[Tensor, Tensor], Tensor] | None = None,
    auxiliary: Auxiliary | Regression | None = None,
    steps: Int[np.ndarray, "batch columns"] | None = None,
    first: Int[np.ndarray, "batch"] | None = None,
) -> tuple[Tensor, Tensor | None, list[tuple[np.ndarray, Tensor]]]:
    """Leave the gradient of the batch's mean loss in the parameters; the loss, the auxiliary loss and the answers.

    `relabel(logits, targets)` gives other targets than the batch's. With `auxiliary` its loss on the targets `steps`
    counts as well, times its weight. With `first` a row's answer counts after every loop from its `first` one on.
    """
    read, answers, total, extra = batch.targets.shape[1], [], None, None
    for piece in chunks(batch, model.sizes.align, config.chunks, arithmetic.device):
        with arithmetic.autocast(), auxiliary.states(model) if auxiliary else nullcontext() as states:
            logits = model(piece.tokens, piece.lengths, read=read, loops=loops, every_loop=first is not None)
        final = logits if first is None else logits[-1]
        targets = relabel(final.detach(), piece.targets) if relabel else piece.targets
        if first is None:
            loss = cross_entropy(logits, targets, config.label_smoothing) / len(batch)
        else:
            counted = torch.from_numpy(first[piece.rows]).to(arithmetic.device)
            loss = loop_cross_entropy(logits, targets, counted, config.label_smoothing) / len(batch)
        total = loss.detach() if total is None else total + loss.detach()
        if auxiliary:
            wanted = trim(steps[piece.rows], batch.lengths[piece.rows], model.sizes.align)
            columns = max(1, np.count_nonzero(steps != IGNORE))
            more = auxiliary.loss(states, torch.from_numpy(wanted).to(arithmetic.device)) / columns
            extra = more.detach() if extra is None else extra + more.detach()
            loss = loss + auxiliary.config.weight * more
        loss.backward()
        answers.append((piece.rows, final.detach().argmax(-1)))
    return total, extra, answers


def update(
    model: nn.Module,
    optimisers: list[Optimizer],
    batch: Batch,
    loops: int,
    factor: float,
    config: TrainConfig,
    arithmetic: Arithmetic,
    step: int,
    seed: int,
    auxiliary: Auxiliary | Regression | None = None,
    steps: Int[np.ndarray, "batch columns"] | None = None,
    first: Int[np.ndarray, "batch"] | None = None,
) -> StepResult:
    """One step at `factor` times the largest learning rate; `auxiliary`, `steps` and `first` as in `gradients`.

    SophiaG's curvature is that of the loss after the last loop.
    """
    for optimiser in optimisers:
        if isinstance(optimiser, SophiaG) and step % config.optimiser.hessian_every == 0:
            generator = torch.Generator().manual_seed(derived_seed("labels", seed, step))
            relabel = partial(sampled_targets, generator=generator)
            gradients(model, batch, loops, config, arithmetic, relabel)
            optimiser.update_hessian(len(batch))
            optimiser.zero_grad(set_to_none=True)
    loss, extra, answers = gradients(model, batch, loops, config, arithmetic, None, auxiliary, steps, first)
    learned = chain(model.parameters(), auxiliary.parameters() if auxiliary else ())
    params = [p for p in learned if p.grad is not None]
    if config.clip is None:
        norm = torch.nn.utils.get_total_norm([p.grad for p in params])
    else:
        norm = torch.nn.utils.clip_grad_norm_(params, config.clip)
    for optimiser in optimisers:
        for group in optimiser.param_groups:
            group["lr"] = group.setdefault("peak", group["lr"]) * factor
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
    return StepResult(loss, norm, answers, extra)
