"""What is minimised."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from algoprobe.tasks.batch import IGNORE


def cross_entropy(logits: Float[Tensor, "batch read outputs"], targets: Int[Tensor, "batch read"]) -> Float[Tensor, ""]:
    """Sum over the read columns of -log softmax(logits)[target]; columns whose target is `IGNORE` count nothing."""
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=IGNORE, reduction="sum")


def sampled_targets(
    logits: Float[Tensor, "batch read outputs"], targets: Int[Tensor, "batch read"], generator: torch.Generator
) -> Int[Tensor, "batch read"]:
    """Labels drawn from the model's own softmax, where there is a target (for SophiaG's curvature estimate)."""
    drawn = torch.multinomial(logits.flatten(0, 1).softmax(-1).cpu(), 1, generator=generator)
    return torch.where(targets == IGNORE, IGNORE, drawn.view(targets.shape).to(targets.device))
