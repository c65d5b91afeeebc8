"""An auxiliary loss on whole numbers that a model should hold where it answers, such as running sums.

    loss = mean over readers g and columns k of (w_g · x_g[k] + b_g - t[k])²

Readers stand on the residual stream after the last block, of the last loop or of every one, or on the output of single
heads of the last block, before its output projection (arXiv 2510.00184: two heads, one vector a head for all
columns, no bias). t is the number itself (`raw`) or standardised for each column. The readers
live outside the model and end with training.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from algoprobe.core.stream import derived_seed
from algoprobe.tasks.batch import IGNORE, Batch
from algoprobe.tasks.task import Task

from .config import AuxiliaryConfig, Experiment

COUNTED = 20_000
"""Rows of the card's stream that means and deviations are taken from."""


class Regression(nn.Module):
    """One reader for the stream, or one a head."""

    def __init__(self, config: AuxiliaryConfig, width: int, heads: int, layers: int, task: Task) -> None:
        super().__init__()
        self.config = config
        self.chosen = list(config.heads or range(heads)) if config.site == "heads" else [0]
        inside = width // heads if config.site == "heads" else width
        self.readers = nn.ModuleList(nn.Linear(inside, 1) for _ in self.chosen)
        self.site = f"blocks.{layers - 1}.attn.z" if config.site == "heads" else "loop_out"
        rows = task.sample("card", 0, np.arange(COUNTED))
        values = torch.from_numpy(task.intermediate(rows)[config.target].astype(np.float32))
        values = values[:, (values != IGNORE).any(0)]
        mean, deviation = values.mean(0), values.std(0).clamp_min(1e-3)
        if config.scale == "raw":
            mean, deviation = torch.zeros_like(mean), torch.ones_like(deviation)
        self.register_buffer("mean", mean, persistent=False)
        self.register_buffer("deviation", deviation, persistent=False)

    @classmethod
    def seeded(cls, experiment: Experiment, task: Task) -> Regression:
        """Readers whose starting weights are a pure function of the init seed, and share nothing with the model's."""
        model = experiment.model
        config = experiment.train.auxiliary
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(derived_seed("auxiliary", experiment.seeds.init))
            return cls(config, model.model_width(task.sizes), model.heads, model.layers, task)

    def targets(self, task: Task, batch: Batch) -> Int[np.ndarray, "batch columns"]:
        """The numbers that `task` gives at every column of `batch`."""
        return task.intermediate(batch)[self.config.target]

    @contextlib.contextmanager
    def states(self, model: nn.Module) -> Iterator[list[Tensor]]:
        """What the site hands on while the context is open, loop by loop; no output changes."""
        found: list[Tensor] = []
        # A hook that returns None leaves the output as it is, and that is what `append` returns.
        handle = model.get_submodule(self.site).register_forward_hook(lambda module, inputs, x: found.append(x))
        try:
            yield found
        finally:
            handle.remove()

    def loss(self, states: list[Tensor], numbers: Int[Tensor, "batch columns"]) -> Float[Tensor, ""]:
        """The squared error summed over the columns of `numbers` that have one, averaged over readers and states."""
        columns = len(self.mean)
        wanted = numbers[:, -columns:]
        counts = (wanted != IGNORE).float()
        target = (wanted.float() - self.mean) / self.deviation
        total = torch.zeros((), device=numbers.device)
        used = states if self.config.states == "every" else states[-1:]
        for x in used:
            for head, reader in zip(self.chosen, self.readers):
                part = x[:, head, -columns:] if self.config.site == "heads" else x[:, -columns:]
                found = reader(part.to(reader.weight.dtype)).squeeze(-1).float()
                total = total + ((found - target).square() * counts).sum()
        return total / (len(used) * len(self.readers))
