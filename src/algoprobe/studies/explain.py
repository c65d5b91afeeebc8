"""`algoprobe explain`: how much of what a model answers is explained by merging paths, as tables, JSON and drawings."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

from algoprobe.core.config import digest, to_dict
from algoprobe.core.errors import AlgoprobeError, Interrupted
from algoprobe.core.files import read_json_lines, read_object, write_json, write_text
from algoprobe.core.run import RunFolder
from algoprobe.report import circuits as drawings
from algoprobe.report import explained as shown
from algoprobe.report.tables import Table
from algoprobe.tasks.task import Cell
from algoprobe.training.interrupt import stop_requests
from algoprobe.training.progress import clock, say

from .circuits import Work, do_all, opened
from .explain_plan import Plan, key, key_of
from .explain_shares import cells_of, direction_rows, sensitivity_of

EVERY = 20.0
"""Seconds between two lines of progress."""


def drawing_name(label: str, cell: Cell, row: int) -> str:
    """The file name, without ending, of one input's drawing."""
    plain = re.sub(r"[^\w.-]", "-", label)
    # Labels that differ in odd characters alone keep names of their own.
    mark = "" if plain == label else f"-{digest([label])[:6]}"
    return f"{plain}{mark}-{cell.name.replace(' ', '-')}-{row}"


def kept_records(plan: Plan) -> dict[tuple[Any, ...], dict[str, Any]]:
    """What earlier, perhaps stopped, runs into the same folder left.

    Raises `AlgoprobeError` when the folder was made with other settings, or from another model of the same label.
    """
    folder = RunFolder(plan.folder)
    if folder.has("inputs.jsonl") and not folder.has("plan.json"):
        raise AlgoprobeError(f"{plan.folder} has inputs.jsonl and no plan.json to say what of; name another --out")
    about = {"settings": to_dict(plan.settings), "sensitivity": plan.works[0].sensitivity}
    models = {subject.label: subject.identity for subject in plan.subjects}
    if folder.has("plan.json"):
        before = folder.read("plan.json")
        known = before.pop("models", {})
        if before != about or any(known.get(label, identity) != identity for label, identity in models.items()):
            raise AlgoprobeError(f"{plan.folder} holds circuits of other models or settings; name another --out")
        models = known | models
    folder.write("plan.json", about | {"models": models})
    # What is no whole record is made again.
    records = [r for r in read_json_lines(folder.file("inputs.jsonl")) if is_whole(r, about["sensitivity"])]
    # Without the torn line that a killed process may have left, so that more can be added.
    write_text(folder.file("inputs.jsonl"), "".join(json.dumps(record) + "\n" for record in records))
    return {key(record): record for record in records}


FIELDS = {
    "label": str, "distribution": str, "axis": str, "row": int, "answer": int, "correct": bool, "explained": bool,
    "operations": int, "kept": int, "merges": int, "not_maximal": int, "directions": list,
}  # fmt: skip
"""What a record holds, besides `value` and, if asked for, `sensitivity`."""


def is_whole(record: dict[str, Any], sensitivity: bool) -> bool:
    """Whether a line of `inputs.jsonl` has every field, of its type."""
    whole = all(type(record.get(name)) is kind for name, kind in FIELDS.items())
    entries = record.get("directions") if whole else []
    whole &= all(isinstance(e, list) and [type(x) for x in e] == [int, str, int, int] for e in entries)
    value, others = record.get("value"), record.get("sensitivity")
    return whole and type(value) in (int, type(None)) and (isinstance(others, dict) or not sensitivity)


def run(plan: Plan, workers: int) -> list[dict[str, Any]]:
    """Explain what of the plan is not done yet; a record for each input, in the plan's order.

    Every finished input is saved at once: whatever stops this, the same command goes on.
    """
    folder = RunFolder(plan.folder)
    with folder.lock():
        done = kept_records(plan)
        for label, cell in plan.empty:
            say(f"{label}: no test row of {cell} leaves a vertex id to patch with; --replacement zero needs none")
        left = [work for work in plan.works if key_of(work) not in done or (work.drawn and not drawing(plan, work))]
        progress = Progress(len(left))
        with stop_requests() as stop:
            for work, (record, circuit) in do_all(left, workers, lambda: stop.requested):
                if circuit is not None:
                    save_drawing(plan.folder, work, record, circuit)
                folder.append("inputs.jsonl", [record])
                done[key(record)] = record
                progress.add()
            if stop.requested and progress.done < len(left):
                raise Interrupted(f"{progress.done} of {len(left)} inputs are done and saved")
    return [done[key_of(work)] for work in plan.works]


def drawing(plan: Plan, work: Work) -> dict[str, Any] | None:
    """The circuit of an input as it was saved; None where it, or its picture, is missing or damaged."""
    path = plan.folder / "circuits" / f"{drawing_name(work.subject.label, work.cell, work.row)}.json"
    try:
        circuit = read_object(path)
        drawings.summary(circuit)
    except (AlgoprobeError, KeyError, TypeError, ValueError, AttributeError, IndexError):
        return None
    return circuit if path.with_suffix(".svg").exists() else None


class Progress:
    """A line now and then: how many inputs are done, and how long the rest will take."""

    def __init__(self, total: int) -> None:
        self.clock, self.total, self.done = time.monotonic, total, 0
        self.began = self.last = self.clock()

    def add(self) -> None:
        """One more input is done."""
        self.done += 1
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


def explain_all(plan: Plan, workers: int) -> tuple[dict[str, Any], list[Table], Path]:
    """The `explain --json` object of a plan, its tables, and the page.

    Writes `results.json`, `table.md`, `index.html` and `circuits/` into the plan's folder.
    """
    records = run(plan, workers)
    circuits = [circuit for work in plan.works if work.drawn and (circuit := drawing(plan, work))]
    cells, sensitivity = cells_of(plan, records), sensitivity_of(plan, records)
    found = {
        "settings": to_dict(plan.settings),
        "models": [{"model": s.name, "label": s.label, "cells": cells[s.label]} for s in plan.subjects],
        "sensitivity": sensitivity,
        "directions": direction_rows(plan, records),
        "drawn": [drawings.summary(circuit) for circuit in circuits],
        "empty": [{"label": label, "cell": cell, "skipped": plan.skipped[label, cell]} for label, cell in plan.empty],
        "folder": str(plan.folder),
    }
    tables = [shown.explained_table(label, of_model) for label, of_model in cells.items()]
    tables += [shown.merges_table(label, mine) for label, mine in cells.items() if any(c["merges"] for c in mine)]
    tables += [shown.sensitivity_table(sensitivity)] if sensitivity else []
    write_json(plan.folder / "results.json", found)
    write_text(plan.folder / "table.md", "\n".join(table.markdown() for table in tables))
    page = plan.folder / "index.html"
    write_text(page, drawings.page(circuits, "Circuits", tables if len(records) > 1 else ()))
    return found, tables, page
