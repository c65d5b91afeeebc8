"""A batch as tensors, and what logits are worth on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from algoprobe.core.errors import UsageError, outside
from algoprobe.core.statistics import wilson
from algoprobe.tasks.batch import IGNORE, Batch


@dataclass(frozen=True)
class Inputs:
    """What a lens needs of a batch, on the model's device."""

    tokens: Int[Tensor, "batch columns fields"]
    lengths: Int[Tensor, "batch"]
    targets: Int[Tensor, "batch read"]
    accepted: Bool[Tensor, "batch read outputs"]

    @classmethod
    def of(cls, batch: Batch, model: nn.Module) -> Inputs:
        """The tensors of `batch` where `model` computes."""
        device = next(model.parameters()).device
        whole = (batch.tokens, batch.lengths, batch.targets)
        tokens, lengths, targets = (torch.from_numpy(part.astype(np.int64)).to(device) for part in whole)
        return cls(tokens, lengths, targets, torch.from_numpy(batch.accepted).to(device))

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def read(self) -> int:
        """How many of the last columns hold answers."""
        return self.targets.shape[1]

    @property
    def counted(self) -> Bool[Tensor, "batch read"]:
        """Read columns that have a target."""
        return self.targets != IGNORE

    def real(self, align: str) -> Bool[Tensor, "batch columns"]:
        """Columns that are not padding."""
        column = torch.arange(self.tokens.shape[1], device=self.tokens.device)
        if align == "right":
            return column >= self.tokens.shape[1] - self.lengths[:, None]
        return column < self.lengths[:, None]

    def names(self, align: str) -> list[int]:
        """Numbers of the columns that mean the same in every row: -1 is the last; left-aligned, 0 is the first."""
        columns = self.tokens.shape[1]
        return list(range(-columns, 0)) if align == "right" else list(range(columns))


@torch.no_grad()
def answer_logits(model: nn.Module, inputs: Inputs, loops: int | None = None) -> Float[Tensor, "batch read outputs"]:
    """Logits at the read columns. Every column is computed in every block, so that each site has them all."""
    return model(inputs.tokens, inputs.lengths, loops=loops)[:, -inputs.read :]


def check_columns(site: str, value: Tensor, inputs: Inputs) -> None:
    """Raise `UsageError` unless what a site hands on has one vector for each row and column, or also for each head."""
    batch, columns = inputs.tokens.shape[:2]
    shape = tuple(value.shape)
    fits = len(shape) in (3, 4) and (shape[0], shape[-2]) == (batch, columns)
    if not fits:
        raise UsageError(
            f"site: {site!r} hands on a value of shape {list(shape)}; wanted: one vector for each row and column, "
            f"[{batch}, {columns}, …], or also for each head, [{batch}, heads, {columns}, …]"
        )


def loops_of(model: nn.Module, loops: int | None) -> int:
    """`loops`, or those of the model's config."""
    if loops is not None and loops < 1:
        raise outside("loops", loops, "1 and more")
    return model.config.loops if loops is None else loops


def right(logits: Float[Tensor, "batch read outputs"], inputs: Inputs) -> Bool[Tensor, "batch"]:
    """Rows whose largest logit is an accepted answer at every read column that has a target."""
    chosen = inputs.accepted.gather(2, logits.argmax(-1, keepdim=True))[..., 0]
    return (chosen | ~inputs.counted).all(1)


def target_log_probability(logits: Float[Tensor, "batch read outputs"], inputs: Inputs) -> Float[Tensor, "batch"]:
    """log softmax(logits)[target], in nats, mean over a row's read columns that have a target."""
    safe = inputs.targets.clamp_min(0)[..., None]
    found = logits.log_softmax(-1).gather(2, safe)[..., 0] * inputs.counted
    return found.sum(1) / inputs.counted.sum(1).clamp_min(1)


def accuracy_of(correct: Bool[Tensor, "rows"]) -> dict[str, Any]:
    """Share of right rows with its 95 % Wilson interval."""
    low, high = wilson(int(correct.sum()), len(correct))
    return {"accuracy": float(correct.double().mean()), "low": low, "high": high, "rows": len(correct)}
