"""Search on larger graphs, and on graphs larger and deeper than those of training.

All presets have one body and one recipe (that of the study search-recipes); only size, budget and loops differ.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from algoprobe.training.config import Experiment

from .comparison import (
    Expected,
    about,
    cells_of,
    changed,
    check_logs,
    chosen,
    compare,
    finish,
    laptop_only,
    merge_seeds,
    train_rows,
)
from .registry import StudyOptions, find_preset, preset, study
from .search_recipes import best, solved, summary

if TYPE_CHECKING:
    from algoprobe.report.tables import Table
    from algoprobe.tasks.search.graphs import Graphs
    from algoprobe.training.pool import Job


def searcher(vertices: int, examples: int, **task: Any) -> Experiment:
    """The best recipe, twice as wide, on graphs of up to `vertices` vertices and every lookahead that fits them.

    Graphs grow with the curriculum: with graphs of up to 100 vertices from the start lookahead 2 was not learned in
    40,000 examples, beginning with 12 it was in 29,000; what is learned in small graphs holds in larger ones.
    """
    experiment = changed(
        best(),
        task={"n": 3 * vertices + 5, "lookahead": None, "grow": 3.0} | task,
        model={"width": 128, "heads": 8},
        train={"examples": examples, "validate_every": 2_000 if vertices < 41 else 5_000},
    )
    deepest = experiment.task.lookahead_max
    # 50 held-out rows a lookahead, so that 0.95 of them is a number of rows.
    return changed(experiment, model={"loops": deepest + 3}, train={"validate_rows": max(1000, 50 * deepest)})


@preset("search-12", "laptop")
def search_12() -> Experiment:
    """The best recipe on graphs of up to 12 vertices, lookahead up to 5."""
    return searcher(12, 40_000)


@preset("search-20", "laptop")
def search_20() -> Experiment:
    """The best recipe on graphs of up to 20 vertices, lookahead up to 9."""
    return searcher(20, 40_000)


@preset("search-41", "laptop")
def search_41() -> Experiment:
    """Graphs of up to 41 vertices, lookahead up to 20, the search paper's size: four minutes on one core."""
    return searcher(41, 60_000)


@preset("search-41-short", "laptop")
def search_41_short() -> Experiment:
    """search-41 with 35,000 examples: how far down they can go."""
    return searcher(41, 35_000)


@preset("search-41-small", "laptop")
def search_41_small() -> Experiment:
    """search-41 trained on lookahead up to 12 only; more loops carry it further."""
    return searcher(41, 60_000, lookahead=12)


@preset("search-41-names", "laptop")
def search_41_names() -> Experiment:
    """search-41 with vertices named by numbers up to 100, so that it can read graphs of up to 100 vertices."""
    return searcher(41, 100_000, ids=100)


def calmer(experiment: Experiment) -> Experiment:
    """`experiment` at half the learning rate, which falls earlier: beyond 41 vertices the full rate is too noisy."""
    return changed(experiment, train={"decay": 0.75}, optimiser={"lr": 2e-3})


@preset("search-64", "laptop")
def search_64() -> Experiment:
    """Graphs of up to 64 vertices, lookahead up to 31."""
    return calmer(searcher(64, 100_000))


@preset("search-100", "laptop")
def search_100() -> Experiment:
    """Graphs of up to 100 vertices, lookahead up to 49: half an hour of one core."""
    return calmer(searcher(100, 100_000))


@preset("search-200", "laptop")
def search_200() -> Experiment:
    """Graphs of up to 200 vertices, lookahead up to 99: hours of one core."""
    return calmer(searcher(200, 150_000))


PAPER_SIZE = {
    "60,000 examples": "search-41",
    "35,000 examples": "search-41-short",
    "lookahead to 12": "search-41-small",
}
"""Row of the study search-41 → preset."""
FIGURE = "Saparov et al., Figure 2 (n = 128, 883 million examples); the band is what this study set out for"
LEGIBLE = {5: "1.00", 14: "0.99", 20: "0.97"}
EXPECTED = (
    Expected("60,000 examples", "naive", None, "0.99", 0.99, 1.0, FIGURE),
    *(Expected("60,000 examples", "lookahead", l, LEGIBLE.get(l, "–"), 0.98, 1.0, FIGURE) for l in range(1, 21)),
)


def training_graphs(job: Job) -> Iterator[Graphs]:
    """The graphs that a finished run was trained on, drawn again from its curriculum's log."""
    import numpy as np

    experiment, batch = job.experiment, job.experiment.train.batch
    task = experiment.task.build()
    moves = [(line["step"], line["next_stage"]) for line in job.folder.metrics if "next_stage" in line]
    start, stage = 0, experiment.train.curriculum.start
    for step, after in [*moves, (experiment.train.steps, task.stages())]:
        if after != stage or step == experiment.train.steps:
            at, stage = task.at_stage(stage), after
            yield at.graphs("train", experiment.seeds.data, np.arange(start * batch, step * batch))
            start = step


def on_unseen_shapes(job: Job) -> list[dict[str, Any]]:
    """Accuracy on the test rows that equal no training row of the run, whatever the vertices are called."""
    import numpy as np

    from algoprobe.core.statistics import wilson
    from algoprobe.tasks.search.canonical import certificates
    from algoprobe.training.evaluation import baselines_of, open_run
    from algoprobe.training.forward import answers

    seen = np.unique(np.concatenate([certificates(graphs) for graphs in training_graphs(job)]))
    run, found = open_run(job.folder.path), []
    run.model.eval()
    for cell in run.task.cells():
        batch = run.task.test(cell, run.task.config.test_rows)
        new = np.flatnonzero(~np.isin(certificates(batch.source), seen))
        one = {"axis": cell.axis, "value": cell.value, "distribution": cell.distribution, "rows": len(new)}
        if len(new):
            right = run.task.grade(batch, answers(run.model, batch, run.arithmetic, run.loops))[new]
            low, high = wilson(int(right.sum()), len(new))
            one |= {"accuracy": float(right.mean()), "low": low, "high": high}
            one |= baselines_of(run.task, batch, new.tolist())
        found.append(one)
    return found


def unseen(jobs: dict[str, list[Job]]) -> tuple[dict[str, Any], list[Table]]:
    """`on_unseen_shapes` of the first row's first seed, as results and as a table."""
    from algoprobe.report import beyond as shown

    row, of_row = next(iter(jobs.items()))
    check_logs(of_row[:1])
    cells = on_unseen_shapes(of_row[0])
    return {"unseen_shapes": {"trained_on": row, "seed": 0, "cells": cells}}, [shown.unseen_table(row, cells)]


@study("search-41")
def search_41_study(options: StudyOptions) -> dict[str, Any]:
    """The search paper's size, 41 vertices and lookahead up to 20, learned from 60,000 examples."""
    laptop_only(options)
    rows = {row: find_preset(PAPER_SIZE[row]) for row in chosen(options, PAPER_SIZE)}
    return compare("search-41", "The paper's size", rows, EXPECTED, options, unseen)


BEYOND = {
    "lookahead": ("search-41-small", None),
    "vertices-41": ("search-41-names", None),
    "vertices-60": ("search-41-names", 185),
    "vertices-80": ("search-41-names", 245),
    "vertices-100": ("search-41-names", 305),
}
"""Row of the study search-beyond → the preset it trains, and the input size it is tested at (None: its own)."""
COUNTS = (4, 8, 12, 16, 20, 24, 32, 48, 64, 96)
"""Loops at test time."""
ROWS = 200
"""Test rows a cell and seed."""


def at_loops(jobs: Sequence[Job], n: int | None, counts: Sequence[int]) -> list[dict[str, Any]]:
    """The balanced cells of size `n` at each number of loops: means over the seeds' runs."""
    from algoprobe.training.evaluation import evaluate_folder

    found = [
        evaluate_folder(job.folder.path, on=("balanced",), n=n, rows=ROWS, loops=lambda _: list(counts))["cells"]
        for job in jobs
    ]
    return merge_seeds(found)


@study("search-beyond")
def search_beyond(options: StudyOptions) -> dict[str, Any]:
    """Deeper and larger graphs than in training, from too few loops to far too many."""
    from algoprobe.report import beyond as shown

    laptop_only(options)
    rows = chosen(options, BEYOND)
    jobs = train_rows({name: find_preset(name) for name in dict.fromkeys(BEYOND[row][0] for row in rows)}, options)
    folder, found = options.out / "search-beyond", []
    for row in rows:
        name, n = BEYOND[row]
        config = jobs[name][0].experiment.task
        found.append(
            {
                "row": row,
                "model": name,
                "trained_vertices": config.vertices,
                "trained_lookahead": config.lookahead_max,
                "vertices": ((n or config.n) - 5) // 3,
                "recommended_loops": jobs[name][0].folder.record["loops"],
                "cells": at_loops(jobs[name], n, COUNTS),
            }
        )
    results = {"study": "search-beyond", "scale": "laptop", "seeds": options.seeds, "rows": found, **about(jobs)}
    charts = {row["row"]: shown.against_loops(row) for row in found}
    finish(folder, results, shown.tables(found), charts, options)
    return results


COST = {
    "12": "search-12",
    "20": "search-20",
    "41": "search-41",
    "64": "search-64",
    "100": "search-100",
    "200": "search-200",
}
"""Row of the study search-cost (number of vertices) → preset."""


def operations(job: Job, examples: int) -> float:
    """Floating-point operations of the matrix products that training spent on its first `examples` examples.

    Counted on one step of each of two numbers of loops, between which they grow in proportion, and summed over the
    number of loops that the run logged at every tenth step. Before the first of these steps its number counts.
    """
    import numpy as np
    from torch.utils.flop_counter import FlopCounterMode

    from algoprobe.training.auxiliary import Auxiliary
    from algoprobe.training.forward import Arithmetic
    from algoprobe.training.step import gradients

    experiment, config = job.experiment, job.experiment.train
    task = experiment.task.build()
    model = experiment.model.build(task.sizes)
    auxiliary = Auxiliary.seeded(experiment, task.sizes) if config.auxiliary.on else None
    arithmetic = Arithmetic.resolve(config, {"dtype": "float32", "attention": "explicit"}, "cpu")
    batch = task.sample("train", 0, np.arange(config.batch))
    steps = auxiliary.targets(task, batch) if auxiliary else None

    def count(loops: int) -> int:
        with FlopCounterMode(display=False) as counter:
            gradients(model, batch, loops, config, arithmetic, None, auxiliary, steps)
        return counter.get_total_flops()

    one, two = count(1), count(2)
    logged = [line for line in job.folder.metrics if "loops" in line]
    logged = [line for line in logged if line["examples"] <= examples] or [logged[0] | {"examples": examples}]
    # A line stands for the steps since the one before it.
    done, total = 0, 0.0
    for line in logged:
        total += (line["examples"] - done) / config.batch * (one + (line["loops"] - 1) * (two - one))
        done = line["examples"]
    return total


def slope(sizes: Sequence[float], values: Sequence[float]) -> float:
    """The exponent p of the least-squares fit values ≈ c · sizes^p, on logarithms."""
    x, y = [math.log(size) for size in sizes], [math.log(value) for value in values]
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    return sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y)) / sum((a - mean_x) ** 2 for a in x)


@study("search-cost")
def search_cost(options: StudyOptions) -> dict[str, Any]:
    """What it costs to learn search on graphs of 12 to 100 vertices (200 when asked for): is it still a wall?"""
    from algoprobe.report import beyond as shown

    laptop_only(options)
    rows = chosen(options, COST, [row for row in COST if row != "200"])
    jobs = train_rows({row: find_preset(COST[row]) for row in rows}, options)
    found = []
    for of_row in jobs.values():
        folders, config = [job.folder for job in of_row], of_row[0].experiment.task
        check_logs(of_row)
        when = [solved(folder, range(1, config.lookahead_max + 1)) for folder in folders]
        cells = [cells_of(folder) for folder in folders]
        one = {
            "vertices": config.vertices,
            "lookahead": config.lookahead_max,
            "budget": folders[0].record["examples"],
            "parameters": folders[0].record["parameters"],
            "solved": [one and one[0] for one in when],
            "run_cpu_seconds": summary([folder.record["cpu_seconds"] for folder in folders]),
            "worst": summary([min(c["accuracy"] for c in of if c["axis"] == "lookahead") for of in cells]),
            "naive": summary([next(c["accuracy"] for c in of if c["axis"] == "naive") for of in cells]),
            "cells": merge_seeds(cells),
        }
        if all(when):
            one["examples"] = summary([examples for examples, _ in when])
            one["cpu_seconds"] = summary([seconds for _, seconds in when])
            one["operations"] = summary([operations(job, examples) for job, (examples, _) in zip(of_row, when)])
        found.append(one)
    done = [row for row in found if "examples" in row]
    slopes = {
        key: slope([row["vertices"] for row in done], [row[key]["mean"] for row in done])
        for key in ("examples", "cpu_seconds", "operations")
        # A run that is solved before its first line of losses has no seconds.
        if len(done) > 1 and all(row[key]["mean"] > 0 for row in done)
    }
    results = {"study": "search-cost", "scale": "laptop", "seeds": options.seeds, "rows": found, "slopes": slopes}
    results |= about(jobs)
    charts = {key: shown.cost(done, slopes, key) for key in ("examples", "operations") if done}
    finish(options.out / "search-cost", results, [shown.cost_table(found)], charts, options)
    return results
