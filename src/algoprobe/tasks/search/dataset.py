"""The stream as a torch dataset. Whole batches are dealt to the workers in turn, as a DataLoader collects them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch.utils.data import IterableDataset, get_worker_info

from algoprobe.core.errors import outside

if TYPE_CHECKING:
    from .task import SearchTask


class SearchDataset(IterableDataset):
    """Batches `start`, `start + 1`, … of a stream (without end, or `batches` of them) as dicts of tensors.

    Tensors: `tokens` int64 [batch, length, fields], `lengths` [batch], `targets` int64 [batch, 1], `accepted` bool
    [batch, 1, outputs], `index` int64 [batch].
    """

    def __init__(self, task: SearchTask, batch_size: int, seed: int, split: str, start: int, batches: int | None):
        if batch_size < 1:
            raise outside("batch_size", batch_size, "1 and more")
        self.task, self.batch_size, self.seed = task, batch_size, seed
        self.split, self.start, self.count = split, start, batches

    def __iter__(self) -> Iterator[dict[str, torch.Tensor]]:
        worker = get_worker_info()
        number, step = (0, 1) if worker is None else (worker.id, worker.num_workers)
        while self.count is None or number < self.count:
            first = (self.start + number) * self.batch_size
            batch = self.task.sample(self.split, self.seed, np.arange(first, first + self.batch_size))
            yield {
                "tokens": torch.from_numpy(batch.tokens.astype(np.int64)),
                "lengths": torch.from_numpy(batch.lengths),
                "targets": torch.from_numpy(batch.targets),
                "accepted": torch.from_numpy(batch.accepted),
                "index": torch.from_numpy(batch.index),
            }
            number += step
