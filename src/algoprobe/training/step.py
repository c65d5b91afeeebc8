"""One optimiser step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from algoprobe.core.stream import derived_seed
from algoprobe.tasks.batch import Batch

from .config import TrainConfig
from .forward import Arithmetic, chunks
from .objective import cross_entropy, sampled_targets
from .optimisers import SophiaG


@dataclass(frozen=True)
class StepResult:
    """What a step saw, before its update; tensors stay on the device until somebody reads them."""

    loss: Tensor
    norm: Tensor
    answers: list[tuple[np.ndarray, Tensor]]

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
) -> tuple[Tensor, list[tuple[np.ndarray, Tensor]]]:
    """Leave the gradient of the batch's mean loss in the parameters; the loss and the answers.

    `relabel(logits, targets)` gives other targets than the batch's.
    """
    read, answers, total = batch.targets.shape[1], [], None
    for piece in chunks(batch, model.sizes.align, config.chunks, arithmetic.device):
        with arithmetic.autocast():
            logits = model(piece.tokens, piece.lengths, read=read, loops=loops)
        targets = relabel(logits.detach(), piece.targets) if relabel else piece.targets
        loss = cross_entropy(logits, targets) / len(batch)
        loss.backward()
        total = loss.detach() if total is None else total + loss.detach()
        answers.append((piece.rows, logits.detach().argmax(-1)))
    return total, answers


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
) -> StepResult:
    """One step at `factor` times the largest learning rate."""
    for optimiser in optimisers:
        if isinstance(optimiser, SophiaG) and step % config.optimiser.hessian_every == 0:
            generator = torch.Generator().manual_seed(derived_seed("labels", seed, step))
            relabel = partial(sampled_targets, generator=generator)
            gradients(model, batch, loops, config, arithmetic, relabel)
            optimiser.update_hessian(len(batch))
            optimiser.zero_grad(set_to_none=True)
    loss, answers = gradients(model, batch, loops, config, arithmetic)
    params = [p for p in model.parameters() if p.grad is not None]
    if config.clip is None:
        norm = torch.nn.utils.get_total_norm([p.grad for p in params])
    else:
        norm = torch.nn.utils.clip_grad_norm_(params, config.clip)
    for optimiser in optimisers:
        for group in optimiser.param_groups:
            group["lr"] = group.setdefault("peak", group["lr"]) * factor
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
    return StepResult(loss, norm, answers)
