"""A finished run made small enough to keep: what others need of it, in half precision where no answer changes."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from algoprobe.core.config import digest
from algoprobe.core.errors import AlgoprobeError, UsageError
from algoprobe.core.files import explain
from algoprobe.core.run import RunFolder

from .checkpoint import save_weights
from .evaluation import is_scored, open_run
from .forward import answers
from .load import TrainedRun

KEPT = ("config.json", "evaluation.json", "examples.json", "metrics.jsonl")
LIMIT = 8 * 2**20
"""Largest weights file, in bytes."""


def all_answers(run: TrainedRun) -> np.ndarray:
    """The model's answers to every reserved test row of every standard cell."""
    cells = run.task.cells()
    rows = [run.task.test(cell, run.task.config.test_rows) for cell in cells]
    return np.concatenate([answers(run.model, batch, run.arithmetic, run.loops) for batch in rows])


def export(name: str | Path, target: Path) -> dict[str, Any]:
    """Copy config, record, metrics, evaluation, examples and weights of a run to the folder `target`.

    Weights are rounded to float16 when the answers to all reserved test rows stay the same, else kept in float32.
    Returns `{"folder", "precision", "rows", "bytes"}`. Raises `AlgoprobeError` when the weights exceed 8 MiB.
    """
    run = open_run(name)
    if run.folder.record.get("status") != "finished" or not is_scored(run.folder):
        raise UsageError(f"run: {name} is not finished and scored; `algoprobe train {name}` finishes it")
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise UsageError(f"target: {target} is there already and not an empty folder; name another")
    exact, given = {k: v.clone() for k, v in run.model.state_dict().items()}, all_answers(run)
    run.model.load_state_dict({k: v.half().float() for k, v in exact.items()})
    half = bool(np.array_equal(all_answers(run), given))
    size = sum(v.numel() for v in exact.values()) * (2 if half else 4)
    if size > LIMIT:
        raise AlgoprobeError(f"the weights take {size:,} bytes, more than the {LIMIT:,} that a kept model may have")
    if not half:
        run.model.load_state_dict(exact)
    precision = "float16" if half else "float32"
    made = RunFolder(target.with_name(f".{target.name}.{os.getpid()}.tmp"))
    try:
        made.path.mkdir(parents=True)
        for file in KEPT:
            if run.folder.has(file):
                shutil.copyfile(run.folder.file(file), made.file(file))
        # Where it stood on this machine is nothing to whoever gets it.
        made.write("evaluation.json", run.folder.read("evaluation.json") | {"model": target.name})
        save_weights(made.file("model.safetensors"), run.model.half() if half else run.model, digest(run.experiment))
        made.write("record.json", run.folder.record | {"kept": {"precision": precision, "rows_compared": len(given)}})
        size = made.file("model.safetensors").stat().st_size
        os.replace(made.path, target)
    except OSError as error:
        raise explain(error, target) from error
    finally:
        shutil.rmtree(made.path, ignore_errors=True)
    return {"folder": str(target), "precision": precision, "rows": len(given), "bytes": size}
