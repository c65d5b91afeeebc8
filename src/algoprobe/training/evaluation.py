"""Accuracy on reserved test rows, beside chance and the shortcuts on the same rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from algoprobe.core.errors import AlgoprobeError, UsageError, outside
from algoprobe.core.machine import keep_freed_memory
from algoprobe.core.run import RunFolder
from algoprobe.core.statistics import wilson
from algoprobe.tasks.batch import Batch
from algoprobe.tasks.task import Cell, Task

from .forward import Arithmetic, answers, answers_after
from .load import TrainedRun, load_run

SWEEP_ROWS, SWEEP_ROWS_IN_ALL = 200, 4200
"""Test rows a cell, and at most in all cells, in the loop sweep and among which worked examples are sought."""


def evaluate_cell(
    task: Task, cell: Cell, batch: Batch, answered: np.ndarray, counts: Sequence[int]
) -> list[dict[str, Any]]:
    """One cell of the `eval --json` contract at each number of loops in `counts`, whose answers are `answered`.

    Each has accuracy with its Wilson interval, chance, best shortcut, rows, and loops.
    """
    found, baselines = [], baselines_of(task, batch)
    for loops, given in zip(counts, answered):
        right = task.grade(batch, given)
        low, high = wilson(int(right.sum()), len(batch))
        found.append(
            {
                "axis": cell.axis,
                "value": cell.value,
                "distribution": cell.distribution,
                "accuracy": float(right.mean()),
                "low": low,
                "high": high,
                **baselines,
                "rows": len(batch),
                "loops": loops,
                "seeds": 1,
            }
        )
    return found


def baselines_of(task: Task, batch: Batch, rows: Sequence[int] | None = None) -> dict[str, Any]:
    """Chance and the best shortcut on a batch, or on some of its rows: `chance`, `shortcut`, `shortcut_name`."""
    chosen = slice(None) if rows is None else list(rows)
    means = {name: float(values[chosen].mean()) for name, values in task.baselines(batch).items()}
    chance = means.pop("chance")
    best = max(means, key=means.get) if means else None
    return {"chance": chance, "shortcut": means[best] if best else chance, "shortcut_name": best}


def evaluate(
    model: nn.Module,
    task: Task,
    cells: Iterable[Cell],
    rows: int,
    arithmetic: Arithmetic,
    loops: Iterable[int],
) -> list[dict[str, Any]]:
    """Every cell at every number of loops."""
    model.eval()
    counts = list(dict.fromkeys(loops))
    found, tokens = [], None
    for cell in cells:
        batch = task.test(cell, rows)
        # Cells that judge the same rows in different ways hold the same array.
        if batch.tokens is not tokens:
            tokens, answered = batch.tokens, answers_after(model, batch, arithmetic, counts)
        found.append(evaluate_cell(task, cell, batch, answered, counts))
    return [cell for group in zip(*found) for cell in group]


def validate(model: nn.Module, task: Task, seed: int, rows: int, arithmetic: Arithmetic, loops: int) -> list[dict]:
    """Accuracy on held-out rows of the training distribution, for every value of the task's order of difficulty."""
    batch = task.sample("validation", seed, np.arange(rows))
    right = task.grade(batch, answers(model, batch, arithmetic, loops))
    values = batch.axes[task.stage_axis]
    return [
        {
            "axis": task.stage_axis,
            "value": int(value),
            "distribution": task.config.distribution,
            "accuracy": float(right[values == value].mean()),
            "rows": int((values == value).sum()),
        }
        for value in np.unique(values)
    ]


def worked_examples(
    model: nn.Module, task: Task, cells: Iterable[Cell], arithmetic: Arithmetic, loops: int, rows: int
) -> list[dict[str, Any]]:
    """For each cell the first right and the first wrong answer among its first `rows` rows, as JSON for drawings."""
    found = []
    for cell in cells:
        batch = task.test(cell, rows)
        given = answers(model, batch, arithmetic, loops)
        right = task.grade(batch, given)
        for verdict in (False, True):
            hits = np.flatnonzero(right == verdict)
            if len(hits):
                row = int(hits[0])
                found.append(
                    {"distribution": cell.distribution, "axis": cell.axis, "value": cell.value, "correct": verdict}
                    | task.worked(batch, row, given[row])
                )
    return found


def task_at(run: TrainedRun, n: int | None) -> Task:
    """The run's task, or with `n` the same at another input size. `UsageError` where the model cannot read it."""
    if n is None or n == run.task.config.n:
        return run.task
    task, position = run.task.at_size(n), run.experiment.model.position
    if position not in ("none", "relative") and task.sizes.length > run.task.sizes.length:
        raise outside(
            "n", n, f"at most {run.task.config.n}, the size of training (model.position {position!r} ends there)"
        )
    return task


def cells_at(task: Task, on: tuple[str, ...], values: Sequence[int]) -> list[Cell]:
    """The test cells of some distributions (none given: the standard ones) at some values of their axis (none: all)."""
    cells = task.cells(on)
    known = sorted({cell.value for cell in cells if cell.value is not None})
    names = dict.fromkeys(cell.distribution for cell in cells)
    for value in values:
        if value not in known:
            raise outside(
                "at", value, ", ".join(map(str, known)) or f"none, since {', '.join(on or names)} has no such axis"
            )
    return [cell for cell in cells if cell.value in values] if values else cells


def sweep_counts(recommended: int) -> list[int]:
    """Numbers of loops from far too few to four times the recommended one."""
    few = [count for count in (1, 2, 3, 4, 6, 8) if count < recommended]
    return few + [-(-recommended * quarters // 4) for quarters in (4, 6, 8, 12, 16)]


def open_run(name: str | Path, device: str | None = None) -> TrainedRun:
    """The run, on as many threads as it trained with: more would wait for each other wherever runs share the cores."""
    run = load_run(name, device)
    keep_freed_memory()
    torch.set_num_threads(run.experiment.train.threads)
    return run


def is_scored(folder: RunFolder) -> bool:
    """Whether the run has a whole evaluation."""
    try:
        kept = folder.read("evaluation.json") if folder.has("evaluation.json") else {}
    except AlgoprobeError:
        return False
    parts = kept.get("cells"), kept.get("sweep", [])
    return bool(parts[0]) and all(isinstance(cells, list) and all(map(is_cell, cells)) for cells in parts)


def is_cell(value: Any) -> bool:
    """Whether a JSON value has what others read of a cell that `evaluate_cell` made."""
    numbers = ("accuracy", "low", "high", "chance", "shortcut", "rows", "loops")
    return (
        isinstance(value, dict)
        and {"axis", "value", "distribution", "seeds"} <= value.keys()
        and all(isinstance(value.get(name), int | float) for name in numbers)
    )


def score(folder: RunFolder) -> str:
    """Evaluate a trained run for its record: every standard cell, a loop sweep on fewer rows, worked examples.

    Returns the worst cell in words.
    `evaluation.json` comes last and at once: a run that has it is scored.
    """
    run = open_run(folder.path)
    task, cells, rows = run.task, run.task.cells(), run.task.config.test_rows
    fewer = max(1, min(SWEEP_ROWS, rows, SWEEP_ROWS_IN_ALL // len(cells)))
    found = {"model": str(folder.path), "cells": evaluate(run.model, task, cells, rows, run.arithmetic, [run.loops])}
    if run.experiment.model.loops > 1:
        counts = sweep_counts(run.loops)
        found["sweep"] = evaluate(run.model, task, cells, fewer, run.arithmetic, counts)
    with folder.lock():
        folder.write("examples.json", worked_examples(run.model, task, cells, run.arithmetic, run.loops, fewer))
        folder.write("evaluation.json", found)
    worst = min(found["cells"], key=lambda cell: cell["accuracy"])
    where = Cell(worst["axis"], worst["value"], worst["distribution"]).name
    return f"{where}, accuracy {worst['accuracy']:.3f}, chance {worst['chance']:.2f}"


def evaluate_folder(
    name: str | Path,
    *,
    on: tuple[str, ...] = (),
    at: Sequence[int] = (),
    n: int | None = None,
    rows: int | None = None,
    loops: Callable[[int], list[int]] = lambda recommended: [recommended],
    device: str | None = None,
    save: bool = False,
) -> dict[str, Any]:
    """The `eval --json` object of the run at a path or `zoo:NAME`.

    `on` names distributions (empty: the task's standard ones), `at` values of their axis (empty: all), `n` another
    input size than that of training, with reserved rows of its own, `rows` the test rows a cell (None: all reserved);
    `loops` maps the recommended number of loops to those to run. `save` puts the cells into `evaluation.json`: at the
    recommended number of loops as its cells, otherwise as its sweep.
    """
    run = open_run(name, device)
    task = task_at(run, n)
    cells, counts, reserved = cells_at(task, on, at), loops(run.loops), task.config.test_rows
    rows = reserved if rows is None else rows
    if not 1 <= rows <= reserved:
        raise outside("rows", rows, f"1 to {reserved}, the reserved test rows of a cell")
    part = "cells" if counts == [run.loops] else "sweep"
    if save and task is not run.task:
        raise UsageError("save: what a run keeps is of the size it trained at; leave out --n, or --save")
    if save and part == "cells" and (on or at or rows < reserved):
        raise UsageError("save: what a run keeps has every cell and row; leave out --on, --at and --rows, or --save")
    if save and not is_scored(run.folder):
        raise UsageError(f"save: {name} is not scored yet; `algoprobe train {name}` does that at the end")
    scored = evaluate(run.model, task, cells, rows, run.arithmetic, counts)
    found = {"model": str(name), "n": task.config.n, "cells": scored}
    if save:
        with run.folder.lock():
            kept = run.folder.read("evaluation.json")
            run.folder.write("evaluation.json", kept | {part: found["cells"]})
    return found
