"""Weights kept on the way, for what is asked of a run before its end: accuracy along training, lenses by phase."""

from __future__ import annotations

from pathlib import Path

from algoprobe.core.config import digest
from algoprobe.core.errors import AlgoprobeError
from algoprobe.core.files import explain
from algoprobe.core.run import RunFolder

from .checkpoint import load_weights
from .config import TrainConfig
from .load import TrainedRun

FIRST = 200
"""The first snapshot comes after this part of the budget, or after a step."""


def marks(config: TrainConfig) -> frozenset[int]:
    """Steps after which weights are kept: `snapshots` of them, evenly spaced on a log scale, the last at the end."""
    count, last = config.snapshots, config.steps
    if not count:
        return frozenset()
    first = max(1.0, last / FIRST)
    return frozenset(round(first * (last / first) ** (i / (count - 1))) for i in range(count - 1)) | {last}


def snapshot_file(folder: RunFolder, step: int) -> Path:
    """Where the weights after `step` steps are kept."""
    path = folder.file("snapshots")
    try:
        path.mkdir(exist_ok=True)
    except OSError as error:
        raise explain(error, path) from error
    return path / f"{step:09d}.safetensors"


def snapshot_steps(folder: RunFolder, config: TrainConfig) -> list[int]:
    """After how many steps weights of a finished run were kept.

    Raises `AlgoprobeError` when there are none, or when one is lost: a curve must not have a gap that nobody sees.
    """
    found = sorted(int(path.stem) for path in folder.file("snapshots").glob("*.safetensors") if path.stem.isdigit())
    if not found:
        raise AlgoprobeError(f"{folder.path} has no snapshots; train with --train.snapshots")
    last = folder.record.get("examples", config.steps * config.batch) // config.batch
    for step in sorted({*(step for step in marks(config) if step <= last), last}):
        if step not in found:
            raise AlgoprobeError(
                f"{folder.path} has lost the snapshot after step {step}; delete the folder, and the same command "
                "trains it again"
            )
    return found


def load_snapshot(run: TrainedRun, step: int) -> None:
    """Give the run's model the weights it had after `step` steps."""
    load_weights(snapshot_file(run.folder, step), run.model, digest(run.experiment))
