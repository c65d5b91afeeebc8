"""What `explain` is to do: models, inputs, a folder. Every mistake is found here, before any work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from algoprobe.core.config import digest, to_dict
from algoprobe.core.errors import UsageError, outside
from algoprobe.options import ExplainOptions, parse_numbers
from algoprobe.probes.circuits import Layout, Settings
from algoprobe.tasks.search import SearchTask
from algoprobe.tasks.search.config import DISTRIBUTIONS
from algoprobe.tasks.task import Cell
from algoprobe.training.evaluation import cells_at

from .circuits import Subject, Work, opened, refuse_too_large, rows_for, subject_for, variants


@dataclass(frozen=True)
class Plan:
    """What is to be explained, and where the results go."""

    subjects: tuple[Subject, ...]
    settings: Settings
    works: tuple[Work, ...]
    skipped: dict[tuple[str, str], int]
    """Test rows left out because they use every id, by label and cell name."""
    folder: Path

    @property
    def empty(self) -> list[tuple[str, str]]:
        """Label and name of each cell that has no row to explain."""
        filled = {(work.subject.label, work.cell.name) for work in self.works}
        return [place for place in self.skipped if place not in filled]


def subjects_of(options: ExplainOptions) -> tuple[Subject, ...]:
    """The models to explain, with labels that differ."""
    if not options.runs:
        raise UsageError("runs: name at least one run folder, zoo:NAME or handmade:NAME")
    found = [subject_for(name, options.loops) for name in options.runs]
    if options.control:
        trained = next((s for s in found if s.kind == "trained"), None)
        if trained is None:
            raise UsageError("control: an untrained control needs a trained run to take its config from")
        found.append(Subject("untrained", trained.name, "untrained", trained.loops))
    labels = [subject.label for subject in found]
    if len(set(labels)) < len(labels):
        raise UsageError(f"runs: their names must differ; these are called {', '.join(labels)}")
    return tuple(found)


def plan_for(options: ExplainOptions, settings: Settings, subjects: Sequence[Subject]) -> Plan:
    """Cells, rows and folder; every mistake of the caller is found here, before any work."""
    if options.sensitivity:
        variants(settings)  # raises where another setting is none
    works, skipped = [], {}
    for subject in subjects:
        task, stack = opened(subject)
        mine = []
        for cell in chosen_cells(options, task):
            rows, skipped[subject.label, cell.name] = chosen_rows(options, task, cell, settings)
            if rows:
                widest = int(task.test(cell, task.config.test_rows).lengths[rows].max())
                refuse_too_large(stack, widest, subject.label)
            drawn = max(options.draw, options.row is not None)
            mine += [
                Work(subject, cell, row, number < drawn, settings, options.sensitivity)
                for number, row in enumerate(rows)
            ]
        if not mine:
            raise UsageError(
                f"rows: no test row of these cells leaves {subject.label} a vertex id to patch with; allowed: other "
                "cells, or --replacement zero, which needs none"
            )
        works += mine
    folder = options.out
    if folder is None:
        # A folder holds one selection of cells; more rows of them go into the same one.
        made_of = [[s.label, s.identity] for s in subjects] + [to_dict(settings), options.sensitivity]
        folder = Path("runs") / "explain" / digest([*made_of, options.on, options.at, options.row])
    elif (folder / "config.json").exists():
        raise UsageError(f"out: {folder} is a run folder; allowed: another folder")
    return Plan(tuple(subjects), settings, tuple(works), skipped, folder)


def chosen_cells(options: ExplainOptions, task: SearchTask) -> list[Cell]:
    """The cells that `on` and `at` name."""
    on = tuple(dict.fromkeys(part.strip() for part in options.on.split(",") if part.strip()))
    if options.on and not on:
        raise UsageError(f"on: {options.on!r} names no distribution; allowed: {', '.join(DISTRIBUTIONS)}")
    values = parse_numbers("at", options.at) if options.at else []
    cells = cells_at(task, on, values)
    if options.row is not None and len(cells) > 1:
        raise UsageError(f"row: {len(cells)} cells have a row {options.row}; name one with --on and --at")
    return cells


def chosen_rows(options: ExplainOptions, task: SearchTask, cell: Cell, settings: Settings) -> tuple[list[int], int]:
    """The rows of a cell to explain, and how many were skipped."""
    if options.row is None:
        return rows_for(task, cell, options.rows, settings)
    if options.row >= task.config.test_rows:
        raise outside("row", options.row, f"0 to {task.config.test_rows - 1}, the reserved rows of a cell")
    graphs = task.test(cell, task.config.test_rows).source
    Layout.of(graphs, options.row, task.config.encoding).replacement(settings)  # raises where no id is free
    return [options.row], 0


def key(record: dict[str, Any]) -> tuple[Any, ...]:
    """What tells the inputs of a folder apart."""
    return tuple(record.get(name) for name in ("label", "distribution", "axis", "value", "row"))


def key_of(work: Work) -> tuple[Any, ...]:
    """The key of an input before it has a record."""
    return (work.subject.label, work.cell.distribution, work.cell.axis, work.cell.value, work.row)
