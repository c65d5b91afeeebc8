"""Halting rules on one run: loops taken and accuracy in each test cell, beside the best fixed number of loops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from algoprobe.core.errors import UsageError, outside
from algoprobe.core.statistics import wilson
from algoprobe.probes.halting import answer_adaptively
from algoprobe.probes.halting_settings import Halting
from algoprobe.probes.inputs import Inputs
from algoprobe.training.evaluation import baselines_of, cells_at, evaluate, open_run, task_at

ROWS = 200
"""Test rows a cell unless told otherwise."""

if TYPE_CHECKING:
    from algoprobe.options import HaltOptions
    from algoprobe.report.tables import Table
    from algoprobe.tasks.task import Cell
    from algoprobe.training.load import TrainedRun


def halt_cells(
    run: TrainedRun, cells: Sequence[Cell], rows: int, rules: Sequence[Halting], most: int
) -> list[dict[str, Any]]:
    """Every rule in every cell: accuracy with its interval, baselines, mean loops, and how many rows took `most`."""
    found = []
    for cell in cells:
        batch = run.task.test(cell, rows)
        inputs, baselines = Inputs.of(batch, run.model), baselines_of(run.task, batch)
        hops = batch.axes.get("hops", batch.axes.get(run.task.stage_axis))
        for halting in rules:
            given = answer_adaptively(run.model, inputs, halting, most, hops)
            right = run.task.grade(batch, given.answers)
            low, high = wilson(int(right.sum()), len(batch))
            found.append(
                {"rule": halting.rule, "axis": cell.axis, "value": cell.value, "distribution": cell.distribution}
                | {"accuracy": float(right.mean()), "low": low, "high": high}
                | baselines
                | {"rows": len(batch), "loops": float(given.loops.mean()), "seeds": 1}
                | {"at_limit": float((given.loops == most).mean())}
            )
    return found


def best_fixed(fixed: Sequence[dict[str, Any]]) -> tuple[int, float]:
    """The number of loops with the largest mean accuracy over cells, to a tenth of a point the smallest, and it."""
    counts = sorted({cell["loops"] for cell in fixed})
    means = {count: float(np.mean([c["accuracy"] for c in fixed if c["loops"] == count])) for count in counts}
    best = max(counts, key=lambda count: (round(means[count], 3), -count))
    return best, means[best]


WITHIN = 0.005
"""Accuracy that a rule may lose against the best fixed number of loops and still be said to save some of them."""


def over_mix(
    cells: Sequence[dict[str, Any]], fixed: Sequence[dict[str, Any]], values: Sequence[int | None]
) -> list[dict[str, Any]]:
    """Each rule over a mix with as many rows of each value, beside the best fixed R.

    `saved` is the share of its loops that the rule does without; None where the rule is less accurate, or where no
    fixed R is right more often than chance.
    """
    inside = [cell for cell in fixed if cell["value"] in values]
    loops, accuracy = best_fixed(inside)
    chance, found = float(np.mean([cell["chance"] for cell in inside])), []
    for rule in dict.fromkeys(cell["rule"] for cell in cells):
        of_rule = [cell for cell in cells if cell["rule"] == rule and cell["value"] in values]
        mean, right = (float(np.mean([cell[key] for cell in of_rule])) for key in ("loops", "accuracy"))
        saves = right >= accuracy - WITHIN and accuracy > chance + 0.05
        found.append(
            {"rule": rule, "accuracy": right, "loops": mean, "fixed_accuracy": accuracy, "fixed_loops": loops}
            | {"saved": 1 - mean / loops if saves else None}
        )
    return found


def fixed_cells(run: TrainedRun, cells: Sequence[Cell], rows: int, most: int) -> list[dict[str, Any]]:
    """Every cell at every number of loops up to `most`, in float32 as the adaptive evaluation."""
    arithmetic = replace(run.arithmetic, dtype="float32")
    return evaluate(run.model, run.task, cells, rows, arithmetic, range(1, most + 1))


def halt(options: HaltOptions, halting: Halting) -> tuple[dict[str, Any], list[Table]]:
    """The `halt --json` object of a run, and its tables."""
    from algoprobe.report.loops import rows_table

    run = open_run(options.run)
    if run.experiment.model.loops == 1 and not run.experiment.looped:
        raise UsageError(f"run: {options.run} applies its stack once, so that there is nothing to halt")
    if halting.rule == "hop-rate" and not run.task.ordered:
        raise outside("halting.rule", halting.rule, "the others (this task has no order of difficulty)")
    run = replace(run, task=task_at(run, options.n))
    cells = cells_at(run.task, tuple(part for part in options.on.split(",") if part), options.values)
    reserved = run.task.config.test_rows
    rows = min(ROWS, reserved) if options.rows is None else options.rows
    if not 1 <= rows <= reserved:
        raise outside("rows", rows, f"1 to {reserved}, the reserved test rows of a cell")
    # Enough for the deepest rows even where a loop follows one hop alone.
    most = options.most or max(4 * run.loops, 8 + max((cell.value or 0 for cell in cells), default=0))
    fixed = fixed_cells(run, cells, rows, most)
    found = halt_cells(run, cells, rows, [halting], most)
    mix = over_mix(found, fixed, [cell.value for cell in cells])[0]
    columns = (
        ("cell", "test cell"),
        ("accuracy", "accuracy"),
        ("95", "95 %"),
        ("loops", "mean loops"),
        ("at_limit", f"took {most}"),
    )
    columns += (("chance", "chance"), ("shortcut", "best shortcut"), ("rows", "rows"))
    lines = [row | {"cell": cell.name, "95": f"{row['low']:.2f}–{row['high']:.2f}"} for row, cell in zip(found, cells)]
    title = f"{options.run}: {halting.rule}, at most {most} loops"
    tables = [rows_table(lines, columns, title)]
    columns = (
        ("rule", "rule"), ("accuracy", "accuracy"), ("loops", "mean loops"), ("fixed_loops", "best fixed R"),
        ("fixed_accuracy", "its accuracy"), ("saved", "loops saved"),
    )  # fmt: skip
    tables.append(rows_table([mix], columns, "Over all cells alike"))
    return {"model": options.run, "most": most, "halting": vars(halting), "cells": found, "mix": mix}, tables
