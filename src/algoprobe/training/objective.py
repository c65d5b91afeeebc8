"""What is minimised."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from algoprobe.tasks.batch import IGNORE, Batch

from .config import LoopsConfig


def cross_entropy(
    logits: Float[Tensor, "batch read outputs"], targets: Int[Tensor, "batch read"], smoothing: float = 0.0
) -> Float[Tensor, ""]:
    """Sum over the read columns of -Σ_v y_v log softmax(logits)_v; columns whose target is `IGNORE` count nothing.

    y is 1 - `smoothing` at the target, plus `smoothing` spread evenly over all classes (Szegedy et al. 2016).
    """
    return F.cross_entropy(
        logits.flatten(0, 1), targets.flatten(), ignore_index=IGNORE, reduction="sum", label_smoothing=smoothing
    )


def first_loops(config: LoopsConfig, batch: Batch, axis: str) -> Int[np.ndarray, "batch"] | None:
    """The loop, from 1, after which each row's answer counts first; None where it counts after the last loop alone.

    `axis` orders the rows by difficulty.
    """
    if config.loss == "last":
        return None
    difficulty = batch.axes[axis] if config.loss == "from-difficulty" else np.ones(len(batch), np.int64)
    return np.maximum(difficulty, 1)


def loop_cross_entropy(
    logits: Float[Tensor, "loops batch read outputs"],
    targets: Int[Tensor, "batch read"],
    first: Int[Tensor, "batch"],
    smoothing: float = 0.0,
) -> Float[Tensor, ""]:
    """Σ_rows mean over r = first..R of the cross-entropy after loop r; a row with first > R counts after R alone.

    Every row weighs the same, however many loops it counts after. `IGNORE` and `smoothing` as in `cross_entropy`.
    """
    loops = len(logits)
    every = targets.expand(loops, *targets.shape)
    losses = F.cross_entropy(
        logits.flatten(0, 2), every.flatten(), ignore_index=IGNORE, reduction="none", label_smoothing=smoothing
    )
    loop = torch.arange(1, loops + 1, device=logits.device)[:, None]
    counts = (loop >= first.clamp(max=loops)).to(losses.dtype)
    return (losses.view(every.shape).sum(-1) * counts / counts.sum(0)).sum()


def sampled_targets(
    logits: Float[Tensor, "batch read outputs"], targets: Int[Tensor, "batch read"], generator: torch.Generator
) -> Int[Tensor, "batch read"]:
    """Labels drawn from the model's own softmax, where there is a target (for SophiaG's curvature estimate)."""
    drawn = torch.multinomial(logits.flatten(0, 1).softmax(-1).cpu(), 1, generator=generator)
    return torch.where(targets == IGNORE, IGNORE, drawn.view(targets.shape).to(targets.device))
