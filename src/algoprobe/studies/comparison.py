"""What studies share: train rows of a figure over seeds, merge seeds, watch, compare with the paper."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from algoprobe.core.config import digest
from algoprobe.core.errors import outside, unknown
from algoprobe.core.files import write_json, write_text
from algoprobe.core.run import RunFolder
from algoprobe.core.statistics import mean_interval, wilson
from algoprobe.tasks.hops.config import HopsConfig
from algoprobe.training.config import Experiment, Seeds

from .registry import Preset, StudyOptions

if TYPE_CHECKING:
    from algoprobe.report.tables import Table
    from algoprobe.training.pool import Job


@dataclass(frozen=True)
class Expected:
    """A cell of a figure: what the paper says, and where ours should lie."""

    row: str
    """What the model was trained on."""
    axis: str
    value: int | None
    paper: str
    """The paper's value, or a dash; always of the paper's own size."""
    low: float
    high: float
    source: str
    """Where the band comes from."""


def changed(experiment: Experiment, **parts: dict[str, Any]) -> Experiment:
    """`experiment` with fields of its parts changed: `task`, `model`, `train`, and those of training by their names."""
    for name, fields in parts.items():
        if name in ("task", "model", "train"):
            experiment = replace(experiment, **{name: replace(getattr(experiment, name), **fields)})
        else:
            part = replace(getattr(experiment.train, name), **fields)
            experiment = replace(experiment, train=replace(experiment.train, **{name: part}))
    return experiment


def varied(preset: Preset, **parts: dict[str, Any]) -> Preset:
    """`preset` with fields changed as in `changed`, under its own name."""
    return replace(preset, make=lambda: changed(preset.make(), **parts))


def with_seed(experiment: Experiment, seed: int) -> Experiment:
    """`experiment` with all three seeds set to `seed`, and of a task of facts other facts."""
    task = replace(experiment.task, graph=seed) if isinstance(experiment.task, HopsConfig) else experiment.task
    return replace(experiment, task=task, seeds=Seeds(data=seed, init=seed, train=seed))


def cells_of(folder: RunFolder) -> list[dict[str, Any]]:
    """The test cells of an evaluated run."""
    return folder.read("evaluation.json")["cells"]


def check_logs(jobs: Sequence[Job]) -> None:
    """Raise `AlgoprobeError` where a run's log lacks a line or holds a damaged one."""
    from algoprobe.training.log import whole_log

    for job in jobs:
        whole_log(job.experiment, job.folder)


def merge_seeds(runs: Sequence[Sequence[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Cell by cell the mean over seeds, with Student's 95 % interval over them (one seed: Wilson's over its rows)."""
    merged = []
    for cells in zip(*runs):
        cell = dict(cells[0])
        if len(cells) > 1:
            mean, low, high = mean_interval([c["accuracy"] for c in cells])
            cell |= {"accuracy": mean, "low": max(0.0, low), "high": min(1.0, high), "seeds": len(cells)}
        else:
            cell["low"], cell["high"] = wilson(cell["accuracy"] * cell["rows"], cell["rows"])
        merged.append(cell)
    return merged


def verdicts(
    rows: dict[str, list[dict[str, Any]]], expected: Sequence[Expected], key: str = "accuracy"
) -> list[dict[str, Any]]:
    """For every expected cell that was measured: paper value, ours (`key`), band, and whether ours lies in it."""
    found = []
    for band in expected:
        for cell in rows.get(band.row, ()):
            if (cell["axis"], cell["value"]) == (band.axis, band.value) and cell["distribution"] != "star":
                inside = band.low <= cell[key] <= band.high
                found.append(
                    {
                        "trained_on": band.row,
                        "cell": band.axis if band.value is None else f"{band.axis} {band.value}",
                        "paper": band.paper,
                        "ours": cell[key],
                        "band": [band.low, band.high],
                        "verdict": "in the band" if inside else "outside",
                        "seeds": cell["seeds"],
                        "source": band.source,
                    }
                )
    return found


def verdicts_of(found: Iterable[tuple[str, str, str, float, float, float, int]]) -> list[dict[str, Any]]:
    """Verdicts from (model, cell, the paper's value in words, low, high, ours, seeds)."""
    return [
        {
            "trained_on": row,
            "cell": cell,
            "paper": paper,
            "ours": ours,
            "band": [low, high],
            "verdict": "in the band" if low <= ours <= high else "outside",
            "seeds": seeds,
        }
        for row, cell, paper, low, high, ours, seeds in found
    ]


class Watch:
    """Prints a line for each running job every `seconds`, on standard error."""

    def __init__(self, seconds: float = 20.0) -> None:
        self.seconds = seconds
        self.began = self.last = time.monotonic()

    def __call__(self, running: Sequence[Job]) -> None:
        if time.monotonic() - self.last < self.seconds:
            return
        from algoprobe.training.progress import clock, describe, say

        self.last = time.monotonic()
        for job in running:
            lines = [line for line in job.folder.metrics if "loss" in line]
            total = job.experiment.train.steps * job.experiment.train.batch
            text = describe(lines[-1], total) if lines else "starting"
            say(f"{clock(self.last - self.began):>7}  {job.label}: {text}")


def compare(
    name: str,
    title: str,
    rows: dict[str, Preset],
    expected: Sequence[Expected],
    options: StudyOptions,
    more: Callable[[dict[str, list[Job]]], tuple[dict[str, Any], list[Table]]] | None = None,
) -> dict[str, Any]:
    """Train each row's preset over the seeds, and set the rows' test cells side by side.

    `more` measures something else on the runs: further entries of the results, and further tables.
    Writes `results.json`, the figure and one page of the first seed's runs to OUT/NAME, prints table and verdicts, and
    returns what `results.json` holds. Raises `AlgoprobeError` when a run failed; what is done stays done.
    """
    from algoprobe.report import charts, figures, page, tables

    jobs = train_rows(rows, options)
    cells = {row: merge_seeds([cells_of(job.folder) for job in of_row]) for row, of_row in jobs.items()}
    found = {
        "study": name,
        "scale": options.scale,
        "seeds": options.seeds,
        "rows": [{"trained_on": row, "cells": of_row} for row, of_row in cells.items()],
        "verdicts": verdicts(cells, expected),
        **about(jobs),
    }
    extra, further = more(jobs) if more else ({}, [])
    found |= extra
    folder = options.out / name
    write_json(folder / "results.json", found)
    figures.save_all({"figure": charts.trained_on_tested_on(cells)}, folder)
    shown = [tables.trained_on_tested_on(cells), *further]
    write_text(folder / "table.md", "\n".join(table.markdown() for table in shown))
    page_path = page.write([of_row[0].folder.path for of_row in jobs.values()], folder / "report")
    if not options.json:
        show(shown, found["verdicts"])
        print(f"{title}: figure {folder / 'figure.png'}, page {page_path}")
    return found


def train_rows(rows: dict[str, Preset], options: StudyOptions) -> dict[str, list[Job]]:
    """Train and score what is missing of each row's preset over the seeds; the runs, by row and seed."""
    from algoprobe.training.pool import run_jobs

    jobs = {row: [job_for(preset, row, seed, options) for seed in range(options.seeds)] for row, preset in rows.items()}
    # Seed by seed, so that a study stopped half-way has whole seeds.
    run_jobs([jobs[row][seed] for seed in range(options.seeds) for row in rows], options.workers, Watch())
    return jobs


def job_for(preset: Preset, row: str, seed: int, options: StudyOptions) -> Job:
    """The run of one row and seed."""
    from algoprobe.training.pool import Job

    experiment = with_seed(preset.make(), seed)
    folder = RunFolder(options.out / preset.name / digest(experiment))
    return Job(f"trained on {row}, seed {seed}", preset.name, preset.scale, experiment, folder)


def chosen(options: StudyOptions, rows: Iterable[str], default: Iterable[str] = ()) -> list[str]:
    """The rows that `--models` names, each once; without it `default`, or all.

    Raises `UsageError` on a name that is none.
    """
    for row in options.models:
        if row not in rows:
            raise unknown("models", row, rows)
    return list(dict.fromkeys(options.models or default or rows))


def laptop_only(options: StudyOptions) -> None:
    """Raise `UsageError` when a study that has one scale is asked for the other."""
    if options.scale != "laptop":
        raise outside("scale", options.scale, "'laptop' (this study has one scale)")


def about(jobs: dict[str, list[Job]]) -> dict[str, Any]:
    """What the runs cost and where they were made."""
    return {
        "examples": {row: of_row[0].folder.record["examples"] for row, of_row in jobs.items()},
        "cpu_seconds": {row: [job.folder.record["cpu_seconds"] for job in of_row] for row, of_row in jobs.items()},
        "machine": next(iter(jobs.values()))[0].folder.record["machine"]["class"],
    }


def finish(folder: Path, results: dict[str, Any], tables: list[Table], charts: dict, options: StudyOptions) -> None:
    """Write a study's results, tables and figures; print them."""
    from algoprobe.report import figures

    write_json(folder / "results.json", results)
    write_text(folder / "table.md", "\n".join(table.markdown() for table in tables))
    figures.save_all(charts, folder)
    if not options.json:
        show(tables, results.get("verdicts", []))
        print(f"{results['study']}: results, tables and figures in {folder}")


def show(tables: Sequence[Table], found: Sequence[dict[str, Any]]) -> None:
    """Print tables, then for each expected cell paper value, ours, band and verdict."""
    from rich.console import Console

    from algoprobe.report.tables import Table

    columns = ("model", "cell", "paper", "ours", "band", "seeds", "verdict")
    rows = tuple(
        (
            v["trained_on"],
            v["cell"],
            v["paper"],
            f"{v['ours']:.3f}",
            f"{v['band'][0]:.2f}–{v['band'][1]:.2f}",
            str(v["seeds"]),
            v["verdict"],
        )
        for v in found
    )
    verdict = (Table("Paper (at its own size) and ours", (("", columns),), rows),) if rows else ()
    console = Console()
    for table in (*tables, *verdict):
        console.print(table.rich())
