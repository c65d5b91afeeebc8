"""An auxiliary loss on the states on the way to the answer. Its heads live outside the model and end with training.

After loop r = 1, 2, … (in a model whose stack is applied once: after block r) a linear head says at every supervised
column whether the goal is reached within k(r) steps:

    loss = mean over states r and columns c of BCE(w · x[r, c] + b, steps[c] <= k(r))

k(r) is r (`serial`) or 2^(r-1) (`doubling`); with `last` only the last state counts, and any number of steps will do.
The last block of the last loop computes no more than the columns that are read, so the state after it has no head.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from algoprobe.core.errors import unknown
from algoprobe.core.sizes import Sizes
from algoprobe.core.stream import derived_seed
from algoprobe.tasks.batch import FAR, IGNORE, Batch
from algoprobe.tasks.task import Task

from .config import AuxiliaryConfig, Experiment


class Auxiliary(nn.Module):
    """One head for all loops; in a model whose stack is applied once, one head a block."""

    def __init__(self, config: AuxiliaryConfig, width: int, layers: int, looped: bool) -> None:
        super().__init__()
        self.config, self.looped = config, looped
        blocks = range(layers - 2 if config.growth == "last" else 0, layers - 1)
        self.sites = ["loop_out"] if looped else [f"blocks.{block}.resid_post" for block in blocks]
        self.heads = nn.ModuleList(nn.Linear(width, 1) for _ in self.sites)

    @classmethod
    def seeded(cls, experiment: Experiment, sizes: Sizes) -> Auxiliary:
        """Heads whose starting weights are a pure function of the init seed, and share nothing with the model's."""
        model = experiment.model
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(derived_seed("auxiliary", experiment.seeds.init))
            return cls(experiment.train.auxiliary, model.model_width(sizes), model.layers, experiment.looped)

    def targets(self, task: Task, batch: Batch) -> Int[np.ndarray, "batch columns"]:
        """The steps that `task` counts at every column of `batch`. Raises `UsageError` when it does not count them."""
        found = task.intermediate(batch)
        if self.config.target not in found:
            raise unknown("train.auxiliary.target", self.config.target, ["none", *found])
        return found[self.config.target]

    @contextlib.contextmanager
    def states(self, model: nn.Module) -> Iterator[list[Tensor]]:
        """What the supervised sites of `model` hand on while the context is open, in order; no output changes."""
        found: list[Tensor] = []
        # A hook that returns None leaves the output as it is, and that is what `append` returns.
        handles = [
            model.get_submodule(site).register_forward_hook(lambda module, inputs, state: found.append(state))
            for site in self.sites
        ]
        try:
            yield found
        finally:
            for handle in handles:
                handle.remove()

    def within(self, states: int) -> list[int]:
        """k(r) for r = 1 … `states`, never so large that `FAR` is within reach."""
        if self.config.growth == "last":
            return [FAR - 1] * states
        return [min(r if self.config.growth == "serial" else 2 ** (r - 1), FAR - 1) for r in range(1, states + 1)]

    def loss(self, states: list[Tensor], steps: Int[Tensor, "batch columns"]) -> Float[Tensor, ""]:
        """The cross-entropy summed over the supervised columns of `steps` and averaged over the supervised states.

        `states` are those of one forward pass, each `[batch, columns, width]`. 0 where there is none to supervise:
        a looped model in a batch of one loop.
        """
        if self.looped:
            states = states[:-1]  # the last one has the read columns alone
            states = states[-1:] if self.config.growth == "last" else states
        if not states:
            return torch.zeros((), device=steps.device)
        heads = list(self.heads) * len(states) if self.looped else self.heads
        logits = torch.stack([head(x.to(head.weight.dtype)).squeeze(-1) for head, x in zip(heads, states)])
        within = torch.tensor(self.within(len(states)), dtype=steps.dtype, device=steps.device)
        reached = (steps <= within[:, None, None]).to(logits.dtype)
        counts = (steps != IGNORE).to(logits.dtype).expand_as(logits)
        return F.binary_cross_entropy_with_logits(logits, reached, counts, reduction="sum") / len(states)
