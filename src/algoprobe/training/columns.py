"""What held-out rows say of each answered column: accuracy, loss, and the gradient that its loss alone sends back.

Source: the learning dynamics of arXiv 2510.00184 (loss and gradient norm of each digit of a product through training).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from algoprobe.tasks.task import Task

from .forward import Arithmetic, chunks


def column_dynamics(
    model: nn.Module, task: Task, seed: int, rows: int, arithmetic: Arithmetic, loops: int
) -> list[dict[str, Any]]:
    """For each read column of `rows` validation rows: accuracy, mean cross-entropy in nats, and the Euclidean norm of
    its gradient by all parameters. Weights and their gradients are left as they are. Columns count from the first
    answer.
    """
    batch = task.sample("validation", seed, np.arange(rows))
    read, found = batch.targets.shape[1], []
    (piece,) = chunks(batch, model.sizes.align, 1, arithmetic.device)
    parameters = [p for p in model.parameters() if p.requires_grad]
    with torch.enable_grad():
        with arithmetic.autocast():
            logits = model(piece.tokens, piece.lengths, read=read, loops=loops)
        right = (logits.argmax(-1) == piece.targets).double().mean(0)
        for column in range(read):
            loss = F.cross_entropy(logits[:, column], piece.targets[:, column])
            parts = torch.autograd.grad(loss, parameters, retain_graph=column < read - 1, allow_unused=True)
            norm = torch.nn.utils.get_total_norm([part for part in parts if part is not None])
            numbers = {"accuracy": float(right[column]), "loss": loss.item(), "gradient_norm": norm.item()}
            found.append({"column": column, **numbers, "rows": rows})
    return found
