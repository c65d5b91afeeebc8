"""`algoprobe explain`: how much of what a model answers is explained by merging paths, as tables, JSON and drawings."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from algoprobe.core.config import digest, to_dict
from algoprobe.core.errors import AlgoprobeError, Interrupted, UsageError, outside
from algoprobe.core.files import read_json_lines, write_json, write_text
from algoprobe.core.run import RunFolder
from algoprobe.core.statistics import wilson
from algoprobe.options import ExplainOptions, parse_numbers
from algoprobe.probes.circuits import Settings
from algoprobe.report import circuits as drawings
from algoprobe.report import explained as shown
from algoprobe.report.tables import Table
from algoprobe.tasks.task import Cell
from algoprobe.training.evaluation import baselines_of
from algoprobe.training.interrupt import stop_requests
from algoprobe.training.progress import say

from .circuits import AT_ONCE, Subject, Work, cells_for, do_all, opened, rows_for, subject_for

EVERY = 20.0
"""Seconds between two lines of progress."""


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


def drawing_name(label: str, cell: Cell, row: int) -> str:
    """The file name, without ending, of one input's drawing."""
    return f"{label}-{cell.name}-{row}".replace(" ", "-").replace("/", "-")


def kept_records(plan: Plan) -> dict[tuple[Any, ...], dict[str, Any]]:
    """What earlier, perhaps stopped, runs into the same folder left.

    Raises `AlgoprobeError` when the folder was made with other settings, or from another model of the same label.
    """
    folder = RunFolder(plan.folder)
    about = {"settings": to_dict(plan.settings), "sensitivity": plan.works[0].sensitivity}
    models = {subject.label: subject.identity for subject in plan.subjects}
    if folder.has("plan.json"):
        before = folder.read("plan.json")
        known = before.pop("models", {})
        if before != about or any(known.get(label, identity) != identity for label, identity in models.items()):
            raise AlgoprobeError(f"{plan.folder} holds circuits of other models or settings; name another --out")
        models = known | models
    folder.write("plan.json", about | {"models": models})
    records = read_json_lines(folder.file("inputs.jsonl"))
    # Without the torn line that a killed process may have left, so that more can be added.
    write_text(folder.file("inputs.jsonl"), "".join(json.dumps(record) + "\n" for record in records))
    return {key(record): record for record in records}


def run(plan: Plan, workers: int) -> list[dict[str, Any]]:
    """Explain what of the plan is not done yet; a record for each input, in the plan's order.

    Every finished input is saved at once: whatever stops this, the same command goes on.
    """
    folder = RunFolder(plan.folder)
    with folder.lock():
        done = kept_records(plan)
        left = [w for w in (missing(work, done, plan.folder) for work in plan.works) if w.rows]
        total, progress = sum(len(work.rows) for work in left), Progress(sum(len(work.rows) for work in left))
        with stop_requests() as stop:
            for work, results in do_all(left, workers, lambda: stop.requested):
                for record, circuit in results:
                    if circuit is not None:
                        save_drawing(plan.folder, work, record, circuit)
                    folder.append("inputs.jsonl", [record])
                    done[key(record)] = record
                progress.add(len(results))
            if stop.requested and progress.done < total:
                raise Interrupted(f"{progress.done} of {total} inputs are done and saved")
    return [done[key_of(work, row)] for work, row in wanted(plan)]


def missing(work: Work, done: dict[tuple[Any, ...], dict[str, Any]], folder: Path) -> Work:
    """The part of a work that has no record, or lacks its drawing."""
    rows = [
        row
        for row in work.rows
        if key_of(work, row) not in done
        or (
            row in work.drawn
            and not (folder / "circuits" / f"{drawing_name(work.subject.label, work.cell, row)}.json").exists()
        )
    ]
    return Work(work.subject, work.cell, tuple(rows), work.drawn, work.settings, work.sensitivity)


class Progress:
    """A line now and then: how many inputs are done, and how long the rest will take."""

    def __init__(self, total: int) -> None:
        import time

        self.clock, self.total, self.done = time.monotonic, total, 0
        self.began = self.last = self.clock()

    def add(self, inputs: int) -> None:
        """So many more inputs are done."""
        from algoprobe.training.progress import clock

        self.done += inputs
        now = self.clock()
        if now - self.last >= EVERY and self.done < self.total:
            self.last = now
            each = (now - self.began) / self.done
            left = clock(each * (self.total - self.done))
            say(f"{self.done} of {self.total} inputs done, {each:.2f} s each, {left} left")


def save_drawing(folder: Path, work: Work, record: dict[str, Any], circuit: dict[str, Any]) -> None:
    """One input's circuit as JSON and as a picture."""
    task, _ = opened(work.subject)
    graph = task.test(work.cell, task.config.test_rows).source.fields_of(record["row"])
    circuit |= {"model": record["label"], "cell": work.cell.name, "row": record["row"], "accepted": graph["accepted"]}
    name = drawing_name(record["label"], work.cell, record["row"])
    write_json(folder / "circuits" / f"{name}.json", circuit)
    write_text(folder / "circuits" / f"{name}.svg", drawings.draw(circuit))


def drawn_circuits(plan: Plan) -> list[dict[str, Any]]:
    """The circuits that the plan wants drawn, from the folder."""
    names = [
        drawing_name(work.subject.label, work.cell, row) for work, row in wanted(plan) if row in work.drawn
    ]  # fmt: skip
    return [json.loads((plan.folder / "circuits" / f"{name}.json").read_text()) for name in dict.fromkeys(names)]


def share(records: Sequence[dict[str, Any]], name: str) -> tuple[float, float, float]:
    """The share of records where `name` holds, and its 95 % Wilson interval."""
    hits = sum(bool(record[name]) for record in records)
    return hits / len(records), *wilson(hits, len(records))


def cells_of(plan: Plan, records: Sequence[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """For each model the cells of the `explain --json` contract."""
    found: dict[str, list[dict[str, Any]]] = {subject.label: [] for subject in plan.subjects}
    for subject in plan.subjects:
        task, _ = opened(subject)
        for cell in dict.fromkeys(work.cell for work in plan.works if work.subject == subject):
            mine = [
                r for r in records if key(r)[:4] == key_of(Work(subject, cell, (), (), plan.settings, False), 0)[:4]
            ]
            explained, low, high = share(mine, "explained")
            both = sum(r["explained"] and r["correct"] for r in mine)
            accuracy, accuracy_low, accuracy_high = share(mine, "correct")
            merges = sum(r["merges"] for r in mine)
            maximal = merges - sum(r["not_maximal"] for r in mine)
            rows = [r["row"] for r in mine]
            found[subject.label].append(
                {
                    "axis": cell.axis,
                    "value": cell.value,
                    "distribution": cell.distribution,
                    "explained": explained,
                    "low": low,
                    "high": high,
                    "explained_right": both / len(mine),
                    "maximal": maximal / merges if merges else None,
                    "maximal_low": wilson(maximal, merges)[0],
                    "maximal_high": wilson(maximal, merges)[1],
                    "merges": merges,
                    "accuracy": accuracy,
                    "accuracy_low": accuracy_low,
                    "accuracy_high": accuracy_high,
                    **baselines_of(task, task.test(cell, task.config.test_rows), rows),
                    "rows": len(mine),
                    "skipped": plan.skipped[subject.label, cell.name],
                    "operations": sum(r["operations"] for r in mine) / len(mine),
                }
            )
    return found


def sensitivity_of(plan: Plan, records: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """For each model and other setting the explained share over all its inputs."""
    found = []
    for subject in plan.subjects:
        mine = [r for r in records if r["label"] == subject.label]
        if not mine or "sensitivity" not in mine[0]:
            continue
        columns = {"as given": [r["explained"] for r in mine]}
        columns |= {name: [r["sensitivity"][name] for r in mine] for name in mine[0]["sensitivity"]}
        for name, values in columns.items():
            low, high = wilson(sum(values), len(values))
            row = {"model": subject.label, "setting": name, "explained": sum(values) / len(values)}
            found.append(row | {"low": low, "high": high, "rows": len(values)})
    return found


def direction_rows(plan: Plan, records: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """How often something is merged into a vertex between start and goal, by step, direction and distance to the goal.

    `share` is over the inputs of the model that have a vertex at this distance (appendix A.12's picture).
    """
    found = []
    for subject in plan.subjects:
        mine = [r for r in records if r["label"] == subject.label and r["explained"]]
        steps = [opened(subject)[1].name(step) for step in range(opened(subject)[1].steps)]
        farthest = max((entry[3] for r in mine for entry in r["directions"]), default=0)
        for distance in range(farthest + 1):
            have = [r for r in mine if any(entry[3] == distance for entry in r["directions"])]
            for step, name in enumerate(steps):
                for direction in ("forward", "backward"):
                    wanted = [step, direction, distance]
                    hits = sum(
                        any([e[0], e[1], e[3]] == wanted for e in r["directions"]) for r in have
                    )  # fmt: skip
                    found.append(
                        {
                            "model": subject.label,
                            "step": name,
                            "direction": direction,
                            "distance": distance,
                            "share": hits / len(have) if have else 0.0,
                            "rows": len(have),
                        }
                    )
    return found


def explain_all(plan: Plan, workers: int) -> tuple[dict[str, Any], list[Table], Path]:
    """The `explain --json` object of a plan, its tables, and the page.

    Writes `results.json`, `table.md`, `index.html` and `circuits/` into the plan's folder.
    """
    records = run(plan, workers)
    cells, sensitivity = cells_of(plan, records), sensitivity_of(plan, records)
    found = {
        "settings": to_dict(plan.settings),
        "models": [{"model": s.name, "label": s.label, "cells": cells[s.label]} for s in plan.subjects],
        "sensitivity": sensitivity,
        "directions": direction_rows(plan, records),
        "folder": str(plan.folder),
    }
    tables = [shown.explained_table(label, of_model) for label, of_model in cells.items()]
    tables += [shown.merges_table(label, mine) for label, mine in cells.items() if any(c["merges"] for c in mine)]
    tables += [shown.sensitivity_table(sensitivity)] if sensitivity else []
    write_json(plan.folder / "results.json", found)
    write_text(plan.folder / "table.md", "\n".join(table.markdown() for table in tables))
    page = plan.folder / "index.html"
    write_text(page, drawings.page(drawn_circuits(plan), "Circuits", tables))
    return found, tables, page
