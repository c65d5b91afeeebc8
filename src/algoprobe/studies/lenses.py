"""The general lenses on one run: take rows, apply a lens, table and heat map."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from algoprobe.core.errors import AlgoprobeError, UsageError, outside, unknown
from algoprobe.core.files import explain, write_json, write_text
from algoprobe.options import LensOptions
from algoprobe.probes.inputs import Inputs
from algoprobe.probes.patching import matrix
from algoprobe.report.figures import save_all
from algoprobe.report.lenses import heat_map, matrix_table, rows_table
from algoprobe.report.tables import Table
from algoprobe.tasks.batch import Batch
from algoprobe.tasks.task import Cell, Task
from algoprobe.training.evaluation import open_run

from .digit_lenses import digits, fourier, geometry, swap, tree
from .lens_kinds import (
    Found,
    Subject,
    View,
    ablate,
    attribution,
    check_finite,
    dynamics,
    logit,
    patch,
    path,
    pattern,
    probe,
)

PRINTED = 8
"""Columns of numbers that a terminal holds beside their names."""
STRONGEST = 20
"""Rows of a table that stands for a matrix too wide to print."""
MOST_SAMPLED = 100_000

KINDS: dict[str, tuple[Callable[[Subject], Found], int]] = {
    "logit": (logit, 500),
    "loops": (dynamics, 500),
    "attribution": (attribution, 200),
    "patch": (patch, 100),
    "path": (path, 50),
    "pattern": (pattern, 200),
    "ablate": (ablate, 200),
    "probe": (probe, 1000),
    "digits": (digits, 1),
    "swap": (swap, 1000),
    "tree": (tree, 1000),
    "geometry": (geometry, 5000),
    "fourier": (fourier, 1000),
}
"""Each lens with the number of rows that it takes unless told otherwise: seconds to a minute of one core."""

WHOLE = ("digits", "swap", "tree", "geometry", "fourier")
"""Lenses that look at whole products; `digits` at what the run has logged of them."""

READERS = {
    "sites": ("logit", "patch", "probe"),
    "senders": ("path",),
    "receivers": ("path",),
    "metric": ("patch", "path"),
    "looking": ("pattern",),
    "row": ("pattern",),
    "method": ("ablate",),
    "target": ("probe",),
    "at": tuple(kind for kind in KINDS if kind not in WHOLE),
    **dict.fromkeys(("rows", "on", "loops"), tuple(kind for kind in KINDS if kind != "digits")),
}
"""Which lenses read an option that not all do."""


def check(options: LensOptions) -> None:
    """Raise `UsageError` on an unknown lens or on an option that this lens would not read."""
    if options.kind not in KINDS:
        raise unknown("kind", options.kind, KINDS)
    for name, kinds in READERS.items():
        if getattr(options, name) not in ("", None) and options.kind not in kinds:
            raise UsageError(f"{name}: {options.kind!r} does not read it; allowed with: {', '.join(kinds)}")


def check_out(out: Path) -> None:
    """Make the folder `out` and see that it can be written, before minutes of work that would be lost."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out):
            pass
    except OSError as error:
        raise explain(error, out) from error


def check_numbers(rows: list[dict[str, Any]], view: View) -> None:
    """Raise `AlgoprobeError` when a number that was found is none: JSON has no place for it."""
    for row in rows:
        for name, value in row.items():
            if isinstance(value, float) and not math.isfinite(value):
                at = f"{view.down} {row[view.down]}, {view.across} {row[view.across]}"
                raise AlgoprobeError(f"{name} is not finite at {at}: the model's values overflow there")


def rows_of(task: Task, options: LensOptions, seed: int) -> tuple[Batch, str]:
    """The rows to open the model on and their name: of a test cell, or for a probe of the validation stream."""
    rows = KINDS[options.kind][1] if options.rows is None else options.rows
    if options.kind == "probe" and not options.on and options.at is None:
        if not 1 <= rows <= MOST_SAMPLED:
            raise outside("rows", rows, f"1 to {MOST_SAMPLED}")
        return task.sample("validation", seed, np.arange(rows)), "validation rows"
    cell = cell_of(task, options)
    reserved = task.config.test_rows
    if not 1 <= rows <= reserved and options.rows is not None:
        raise outside("rows", rows, f"1 to {reserved}, the reserved test rows of a cell")
    return task.test(cell, min(rows, reserved)), cell.name


def cell_of(task: Task, options: LensOptions) -> Cell:
    """The test cell that `on` and `at` name; by default the hardest of the first distribution."""
    cells = task.cells((options.on,) if options.on else ())
    cells = [cell for cell in cells if cell.distribution == cells[0].distribution]
    if options.at is None:
        # A cell without a value asks for everything at once.
        return max(cells, key=lambda cell: math.inf if cell.value is None else cell.value)
    found = [cell for cell in cells if cell.value == options.at]
    if not found:
        raise unknown("at", options.at, [cell.value for cell in cells if cell.value is not None])
    return found[0]


def table_of(found: dict[str, Any], view: View) -> Table:
    """The table of a lens: its fields, its matrix whichever way fits, or where none does its strongest rows."""
    title, rows = f"{view.title}, {found['rows_of']}", found["rows"]
    if view.columns:
        return rows_table(rows, view.columns, title)
    across, down = view.table[::-1] if view.table else (view.across, view.down)
    for one, other in ((down, across), (across, down)):
        if len({row[other] for row in rows}) <= PRINTED:
            return matrix_table(*matrix(rows, one, other, view.value), f"{title}: {view.value} by {view.across}", one)
    strongest = sorted(rows, key=lambda row: -abs(row[view.value]))[:STRONGEST]
    return rows_table(strongest, (view.down, view.across, view.value), f"{title}: the {len(strongest)} strongest")


def look(options: LensOptions) -> tuple[dict[str, Any], Table]:
    """The `lens --json` object of a run, and its table; with `out` also results.json, table.md and the heat map.

    Lenses compute in float32 without autocast, so that sums and shares hold to its rounding.
    """
    check(options)
    # An empty `--out` arrives as the path `.`, from which nothing tells it apart.
    if options.out is not None and options.out == Path():
        raise outside("out", "", "a folder's name; for the current folder its full path")
    if options.loops is not None and not 1 <= options.loops <= 1000:
        raise outside("loops", options.loops, "1 to 1000")
    run = open_run(options.run)
    batch, name = rows_of(run.task, options, run.experiment.seeds.data)
    loops = run.loops if options.loops is None else options.loops
    subject = Subject(run.model, run.task, batch, Inputs.of(batch, run.model), loops, options)
    check_finite(run.model, subject.inputs, loops)
    if options.out is not None:
        check_out(options.out)
    rows, view = KINDS[options.kind][0](subject)
    check_numbers(rows, view)
    found = {"kind": options.kind, "model": options.run, "rows_of": name, "loops": loops, "taken": len(batch)}
    found |= {"title": view.title, "note": view.note, "down": view.down, "across": view.across, "value": view.value}
    found["rows"] = rows
    table = table_of(found, view)
    if options.out is not None:
        save(found, view, table, options.out)
    return found, table


def save(found: dict[str, Any], view: View, table: Table, out: Path) -> None:
    """results.json, table.md and the heat map in a folder; pictures last, so that none can cost the numbers."""
    write_json(out / "results.json", found)
    write_text(out / "table.md", table.markdown())
    subtitle = f"{found['model']}, {found['rows_of']}. {view.note}"
    chart = heat_map(found["rows"], view.down, view.across, view.value, view.title, subtitle, view.signed)
    save_all({f"lens-{found['kind']}": chart}, out, (".png", ".svg", ".html"))
