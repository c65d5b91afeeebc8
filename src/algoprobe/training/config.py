"""What a run is: task, model, training, seeds. Imports neither torch nor numba."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

from algoprobe.core.config import check_choices
from algoprobe.core.errors import UsageError, outside, unknown
from algoprobe.models.config import TransformerConfig
from algoprobe.tasks.hops.config import HopsConfig
from algoprobe.tasks.multiplication.config import MultiplicationConfig
from algoprobe.tasks.search.config import SearchConfig

TaskConfig = SearchConfig | HopsConfig | MultiplicationConfig
ModelConfig = TransformerConfig


@dataclass(frozen=True)
class OptimiserConfig:
    """Which update rule, and its numbers."""

    name: Literal["adamw", "muon", "sign-momentum", "sophia-g"] = "adamw"
    """`sign-momentum` is what the search paper's runs really used; `sophia-g` is what its text says."""
    lr: float = 1e-3
    """Largest learning rate (with muon: of the matrices inside blocks)."""
    lr_other: float = 2e-3
    """Muon only: learning rate of AdamW for everything that is not a matrix inside a block."""
    betas: tuple[float, float] | None = None
    """Decay of both moments; None: adamw 0.9, 0.98; sign-momentum and sophia-g 0.965, 0.99; muon 0.95."""
    weight_decay: float = 0.1
    """Decoupled weight decay; sign-momentum and sophia-g apply it to all parameters, the others to matrices only."""
    rho: float = 0.04
    """SophiaG only: the curvature estimate is multiplied by this before it divides the step."""
    hessian_every: int = 10
    """SophiaG only: steps between curvature estimates."""

    def __post_init__(self) -> None:
        check_choices(self, "train.optimiser")
        for name in ("lr", "lr_other", "rho"):
            if not 0 < getattr(self, name) < math.inf:
                raise outside(f"train.optimiser.{name}", getattr(self, name), "a number above 0")
        if self.betas is not None and not all(0 <= b < 1 for b in self.betas):
            raise outside("train.optimiser.betas", self.betas, "two numbers from 0 to below 1")
        if not 0 <= self.weight_decay < math.inf:
            raise outside("train.optimiser.weight_decay", self.weight_decay, "a number from 0")
        if self.hessian_every < 1:
            raise outside("train.optimiser.hessian_every", self.hessian_every, "1 and more")


@dataclass(frozen=True)
class CurriculumConfig:
    """Start easy; add the next difficulty when held-out rows of the hardest one so far are answered right.

    Everything that came before stays in the mix: stage c trains on difficulties up to c.
    """

    on: bool = False
    """Whether there is a curriculum; without one all difficulties come from the start."""
    start: int = 1
    """First stage."""
    gate: float = 0.95
    """Held-out accuracy that opens the next stage."""
    measure: Literal["newest", "mix"] = "newest"
    """Which held-out rows count: those of the stage's own difficulty, or its whole training mix."""
    every: int = 20
    """Steps between two looks."""
    rows: int = 256
    """Held-out rows in a look."""
    pace: int = 0
    """Steps that each stage takes, whatever the accuracy; 0: the gate decides."""
    first: int = 0
    """Steps that the first stage takes, with `pace`; 0: as many as the others."""
    patience: int = 0
    """Steps that a stage may take: training ends where one has not passed by then, or where the last one passes.
    0: stages have all the time there is, and training goes on after the last."""
    restart: bool = False
    """Whether each stage begins with new optimiser state and a warm-up of its own."""

    def __post_init__(self) -> None:
        check_choices(self, "train.curriculum")
        for name in ("patience", "pace", "first"):
            if not 0 <= getattr(self, name) <= 10**13:
                raise outside(f"train.curriculum.{name}", getattr(self, name), f"0 to {10**13}")
        if self.first and not self.pace:
            raise outside("train.curriculum.first", self.first, "0 without train.curriculum.pace")
        if self.patience and self.pace:
            raise outside("train.curriculum.patience", self.patience, "0 with train.curriculum.pace, which never waits")
        if not 0 < self.gate <= 1:
            raise outside("train.curriculum.gate", self.gate, "more than 0, at most 1")
        for name, most in (("start", 1000), ("every", 10**9), ("rows", 10**6)):
            if not 1 <= getattr(self, name) <= most:
                raise outside(f"train.curriculum.{name}", getattr(self, name), f"1 to {most}")


@dataclass(frozen=True)
class LoopsConfig:
    """How many times the stack is applied in a training batch (R)."""

    draw: Literal["fixed", "uniform", "poisson"] = "fixed"
    """`fixed`: the model's own number. `uniform`: low to high. `poisson`: mean `mean`, clipped to low to high."""
    low: int = 1
    """Smallest R (uniform, poisson)."""
    high: int = 6
    """Largest R (uniform, poisson)."""
    mean: float = 4.0
    """Mean of the Poisson draw before clipping."""
    follow_stage: bool = False
    """Add the current difficulty (the curriculum's stage, or the task's largest) to R."""
    loss: Literal["last", "every", "from-difficulty"] = "last"
    """Loops after which a row's answer counts: the last; every one; those from the row's own difficulty (its hops, its
    lookahead) on. A row's loss is the mean over them."""

    def __post_init__(self) -> None:
        check_choices(self, "train.loops")
        if not 1 <= self.low <= self.high:
            raise outside("train.loops.low", self.low, f"1 to {self.high}, the value of train.loops.high")
        if self.high > 1000:
            raise outside("train.loops.high", self.high, "at most 1000")
        if not 0 < self.mean <= 700:
            raise outside("train.loops.mean", self.mean, "more than 0, at most 700")


@dataclass(frozen=True)
class AuxiliaryConfig:
    """A second loss, on the states on the way to the answer; its heads are dropped after training."""

    target: Literal["none", "steps_to_goal", "running_sum", "product_sum"] = "none"
    """`steps_to_goal` (search): at every edge, whether the goal is reached within k steps; k grows with the loop or
    block. `running_sum`, `product_sum` (multiplication): the number ĉ_k or s_k at the column that answers c_k."""
    weight: float = 1.0
    """What the auxiliary loss is multiplied by before it is added to the main one."""
    growth: Literal["serial", "doubling", "last"] = "serial"
    """k after loop r: r, or 2^(r-1). `last`: only the last state that can be read, and any number of steps."""

    site: Literal["stream", "heads"] = "stream"
    """Sums: what is read: the residual stream after the last block, or outputs of its heads before their projection."""
    heads: tuple[int, ...] = ()
    """Sums: which heads (site `heads`); empty: all."""
    scale: Literal["standard", "raw"] = "standard"
    """Sums: whether each column's number is standardised, or taken as it is (the paper)."""
    states: Literal["last", "every"] = "last"
    """Sums: whether it is read after the last loop alone or after every one."""

    def __post_init__(self) -> None:
        check_choices(self, "train.auxiliary")
        if not 0 < self.weight < math.inf:
            raise outside("train.auxiliary.weight", self.weight, "a number above 0")

    @property
    def on(self) -> bool:
        """Whether there is an auxiliary loss."""
        return self.target != "none"


@dataclass(frozen=True)
class TrainConfig:
    """How long, with what, and in which arithmetic."""

    examples: int = 1_000_000
    """Training examples in all: the budget."""
    batch: int = 128
    """Examples in a step."""
    chunks: int = 1
    """Parts a batch is cut into after sorting by length; each is as wide as its own longest row, so less is padding."""
    optimiser: OptimiserConfig = field(default_factory=OptimiserConfig)
    schedule: Literal["constant", "linear", "cosine"] = "linear"
    """After the warm-up: constant, or constant and then falling to zero over the last `decay` of the budget."""
    warmup: int = 25_600
    """Examples over which the learning rate rises from zero."""
    decay: float = 0.15
    """Share of the budget at its end over which the learning rate falls (linear, cosine)."""
    clip: float | None = 1.0
    """Largest norm of the whole gradient; None: no clipping."""
    label_smoothing: float = 0.0
    """Share of each target's probability that is spread evenly over all classes."""
    curriculum: CurriculumConfig = field(default_factory=CurriculumConfig)
    loops: LoopsConfig = field(default_factory=LoopsConfig)
    auxiliary: AuxiliaryConfig = field(default_factory=AuxiliaryConfig)
    validate_every: int = 100_000
    """Examples between two validations, whose accuracy per difficulty is logged."""
    validate_rows: int = 1000
    """Held-out rows in a validation."""
    column_rows: int = 0
    """Held-out rows of which each validation also logs accuracy, loss and gradient norm of every column that is
    answered; 0: none."""
    snapshots: int = 0
    """How many weights are kept on the way, to the end, each a fixed factor of examples after the one before it."""
    device: str = "auto"
    """`auto`, `cpu`, `cuda`, `cuda:1`, `mps`."""
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """Arithmetic of the matrix products (weights and optimiser state stay float32); `auto` goes by the device."""
    attention: Literal["auto", "fused", "explicit"] = "auto"
    """Attention path; `auto` goes by the device."""
    threads: int = 1
    """CPU threads. Bits depend on it."""

    def __post_init__(self) -> None:
        check_choices(self, "train")
        limits = {"examples": 10**13, "batch": 2**20, "chunks": 2**20, "validate_every": 10**13, "validate_rows": 10**6}
        for name, most in (limits | {"threads": 1024}).items():
            if not 1 <= getattr(self, name) <= most:
                raise outside(f"train.{name}", getattr(self, name), f"1 to {most}")
        if self.chunks > self.batch:
            raise outside("train.chunks", self.chunks, f"at most the batch, {self.batch}")
        if not 0 <= self.label_smoothing < 1:
            raise outside("train.label_smoothing", self.label_smoothing, "0 to below 1")
        if not 0 <= self.column_rows <= 10**6:
            raise outside("train.column_rows", self.column_rows, f"0 to {10**6}")
        if not 0 <= self.snapshots <= 1000:
            raise outside("train.snapshots", self.snapshots, "0 to 1000")
        if self.warmup < 0:
            raise outside("train.warmup", self.warmup, "0 and more")
        if not 0 <= self.decay <= 1:
            raise outside("train.decay", self.decay, "0 to 1")
        if self.clip is not None and not 0 < self.clip < math.inf:
            raise outside("train.clip", self.clip, "a number above 0, or None")

    @property
    def steps(self) -> int:
        """Number of optimiser steps: the budget in whole batches, rounded up."""
        return -(-self.examples // self.batch)


@dataclass(frozen=True)
class Seeds:
    """Three independent seeds: change one and only its effect changes."""

    data: int = 0
    """Which examples are drawn."""
    init: int = 0
    """Starting weights."""
    train: int = 0
    """Random choices of the loop (number of loops in a batch, SophiaG's labels)."""


@dataclass(frozen=True)
class Experiment:
    """All that decides the result of a run."""

    task: TaskConfig = field(default_factory=SearchConfig)
    model: ModelConfig = field(default_factory=TransformerConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    seeds: Seeds = field(default_factory=Seeds)

    @property
    def looped(self) -> bool:
        """Whether training ever applies the stack more than once."""
        loops = self.train.loops
        return self.model.loops > 1 if loops.draw == "fixed" else loops.high > 1 or loops.follow_stage

    def check(self) -> None:
        """Raise `UsageError` where the parts do not fit each other, before any work."""
        curriculum, task = self.train.curriculum, self.task.build()
        self.model.check(task.sizes)
        if curriculum.on and task.stages() == 1:
            raise UsageError(
                "train.curriculum.on: True is not possible; this task has no order of difficulty "
                f"({self.task.drawn_from})"
            )
        for name in ("patience", "restart", "pace"):
            value = getattr(curriculum, name)
            if value and not curriculum.on:
                raise outside(f"train.curriculum.{name}", value, f"{type(value)()} without train.curriculum.on")
        if curriculum.on and curriculum.start > task.stages():
            raise outside("train.curriculum.start", curriculum.start, f"1 to {task.stages()}, the task's difficulties")
        loss = self.train.loops.loss
        if loss != "last" and not self.looped:
            raise outside("train.loops.loss", loss, "'last' (the stack is applied once)")
        if loss == "from-difficulty" and not task.ordered:
            raise outside("train.loops.loss", loss, "'last', 'every' (this task has no order of difficulty)")
        auxiliary = self.train.auxiliary
        if auxiliary.on and auxiliary.target not in (*task.counted, *task.summed):
            raise unknown("train.auxiliary.target", auxiliary.target, ["none", *task.counted, *task.summed])
        if auxiliary.heads and auxiliary.site != "heads":
            raise outside("train.auxiliary.heads", auxiliary.heads, "none without train.auxiliary.site 'heads'")
        if len(set(auxiliary.heads)) < len(auxiliary.heads):
            raise outside("train.auxiliary.heads", auxiliary.heads, "each head once")
        if any(not 0 <= head < self.model.heads for head in auxiliary.heads):
            raise outside("train.auxiliary.heads", auxiliary.heads, f"numbers 0 to {self.model.heads - 1}")
        if auxiliary.site == "heads" and auxiliary.states == "every":
            raise outside("train.auxiliary.states", "every", "'last' with train.auxiliary.site 'heads'")
        if auxiliary.target in task.summed and self.model.coda:
            raise outside("model.coda", self.model.coda, "0 with an auxiliary loss on sums, which are read before it")
        if auxiliary.target in task.counted and not self.looped and self.model.layers == 1:
            raise UsageError(
                f"train.auxiliary.target: {self.train.auxiliary.target!r} is not possible; a single block applied once "
                "has no state on the way; allowed: 'none', or more than one of model.layers or model.loops"
            )
