"""Opening what a run left."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from torch import nn

from algoprobe.core.config import digest, from_dict
from algoprobe.core.errors import AlgoprobeError, UsageError
from algoprobe.core.run import RunFolder, find_run
from algoprobe.tasks.task import Task

from .checkpoint import load_weights
from .config import Experiment
from .forward import Arithmetic

MOST_LOOPS = 10_000
"""More loops than any record recommends."""


@dataclass(frozen=True)
class TrainedRun:
    """A run with its model in memory."""

    folder: RunFolder
    experiment: Experiment
    task: Task
    model: nn.Module
    arithmetic: Arithmetic
    loops: int
    """The number of loops its record recommends."""


def read_experiment(folder: RunFolder) -> Experiment:
    """The experiment in `config.json`."""
    config = folder.read("config.json")
    try:
        return from_dict(Experiment, config.get("experiment"))
    except UsageError as error:
        raise AlgoprobeError(f"{folder.file('config.json')} is damaged: {error}") from error


def load_run(name: str | Path, device: str | None = None) -> TrainedRun:
    """The run at a path or `zoo:NAME`, with its weights. `device` overrides the one it was trained on."""
    folder = find_run(name)
    experiment = read_experiment(folder)
    record = folder.record
    task = experiment.task.build()
    model = experiment.model.build(task.sizes, experiment.seeds.init)
    load_weights(folder.file("model.safetensors"), model, digest(experiment))
    arithmetic = Arithmetic.resolve(experiment.train, record.get("precision"), device)
    loops = record.get("loops", experiment.model.loops)
    if not isinstance(loops, int) or isinstance(loops, bool) or not 1 <= loops <= MOST_LOOPS:
        raise AlgoprobeError(f"{folder.file('record.json')} is damaged: loops is {loops!r}")
    return TrainedRun(folder, experiment, task, arithmetic.place(model).eval(), arithmetic, loops)
