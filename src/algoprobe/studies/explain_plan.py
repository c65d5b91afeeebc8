"""What `explain` is to do: models, inputs, a folder. Every mistake is found here, before any work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from algoprobe.core.config import digest, to_dict
from algoprobe.core.errors import UsageError, outside
from algoprobe.options import ExplainOptions, parse_numbers
from algoprobe.probes.circuit_settings import Settings

from .circuits import AT_ONCE, Subject, Work, cells_for, opened, rows_for, subject_for


@dataclass(frozen=True)
class Plan:
    """What is to be explained, and where the results go."""

    subjects: tuple[Subject, ...]
    settings: Settings
    works: tuple[Work, ...]
    skipped: dict[tuple[str, str], int]
    """Test rows left out because they use every id, by label and cell name."""
    folder: Path


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
        raise UsageError(f"runs: {', '.join(labels)} are not all different")
    return tuple(found)


def plan_for(options: ExplainOptions, settings: Settings, subjects: Sequence[Subject]) -> Plan:
    """Cells, rows and folder; every mistake of the caller is found here, before any work."""
    subjects = tuple(subjects)
    on = tuple(part for part in options.on.split(",") if part)
    values = parse_numbers("at", options.at) if options.at else []
    works, skipped = [], {}
    for subject in subjects:
        task, _ = opened(subject)
        cells = cells_for(task, on, values)
        if options.row is not None and len(cells) > 1:
            raise UsageError(f"row: {len(cells)} cells have a row {options.row}; name one with --on and --at")
        for cell in cells:
            rows, left_out = rows_for(task, cell, options.rows, settings)
            if options.row is not None:
                if options.row >= task.config.test_rows:
                    raise outside("row", options.row, f"0 to {task.config.test_rows - 1}, the reserved rows of a cell")
                rows, left_out = [options.row], 0
            skipped[subject.label, cell.name] = left_out
            drawn = tuple(rows[: max(options.draw, options.row is not None)])
            for first in range(0, len(rows), AT_ONCE):
                part = tuple(rows[first : first + AT_ONCE])
                works.append(Work(subject, cell, part, drawn, settings, options.sensitivity))
    if not works:
        raise UsageError(
            "rows: no test row of these cells leaves a vertex id to patch with; --replacement zero needs none"
        )
    # A folder holds one selection of cells; more rows of them go into the same one.
    made_of = [[s.label, s.identity] for s in subjects] + [to_dict(settings), options.sensitivity]
    made_of += [[options.on, options.at, options.row]]
    return Plan(subjects, settings, tuple(works), skipped, options.out or Path("runs") / "explain" / digest(made_of))


def key(record: dict[str, Any]) -> tuple[Any, ...]:
    """What tells the inputs of a folder apart."""
    return tuple(record.get(name) for name in ("label", "distribution", "axis", "value", "row"))


def wanted(plan: Plan) -> list[tuple[Work, int]]:
    """Every input of the plan."""
    return [(work, row) for work in plan.works for row in work.rows]


def key_of(work: Work, row: int) -> tuple[Any, ...]:
    """The key of an input before it has a record."""
    return (work.subject.label, work.cell.distribution, work.cell.axis, work.cell.value, row)
