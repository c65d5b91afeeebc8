"""Chains: how deep a looped model learns, and how much deeper more loops take it. Figures 5 and 7 of arXiv 2604.07822.

Laptop scale: 30 entities and 10 permutations. Figures 6 and 8 to 10 look at the runs of Figure 5.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .comparison import about, chosen, finish, merge_seeds, train_rows, varied, verdicts_of
from .hops_two import CURE
from .registry import Preset, StudyOptions, find_preset, study

if TYPE_CHECKING:
    from algoprobe.training.load import TrainedRun
    from algoprobe.training.pool import Job

DYNAMIC = "dynamic"
LEARNED = 0.95
"""Accuracy from which a number of hops counts as answered."""
SWEEP = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64)
ROWS = 200
"""Test rows a number of hops, at most."""


def rows_of(scale: str) -> dict[str, Preset]:
    """Untied blocks, the paper's loop with R fixed and drawn, and the cure."""
    name, fixed, untied = ("hops-paper", range(1, 9), 16) if scale == "paper" else ("hops-loop", (1, 2, 4, 8), 4)
    rows = {f"R = {r}": varied(find_preset(name), model={"loops": r}, loops={"draw": "fixed"}) for r in fixed}
    rows[f"{untied} untied layers"] = varied(
        find_preset(name), model={"layers": untied, "loops": 1}, loops={"draw": "fixed"}
    )
    rows[DYNAMIC] = find_preset(name)
    rows[CURE] = find_preset("hops-deep")
    if scale == "paper":
        cure = {"position": "relative", "relative_slope": 1.0, "recurrence": "reset", "inject": True}
        loops = {"draw": "uniform", "low": 1, "high": 4, "follow_stage": True, "loss": "from-difficulty"}
        rows[CURE] = varied(find_preset(name), task={"answer_at": "last"}, model=cure, loops=loops)
    return rows


def jobs_of(options: StudyOptions, rows: dict[str, Preset]) -> dict[str, list[Job]]:
    """Train and score what is missing of the rows that were asked for."""
    return train_rows({name: rows[name] for name in chosen(options, rows)}, options)


def opened(job: Job) -> TrainedRun:
    """The run with its model."""
    from algoprobe.training.evaluation import open_run

    return open_run(job.folder.path)


def passed(job: Job) -> int:
    """The learnable depth: the last number of hops whose held-out rows passed the gate."""
    return stages(job)[-1][0] if stages(job) else 0


def stages(job: Job) -> list[tuple[int, int]]:
    """(hops, optimiser steps until they passed), for each stage that passed. The last is held out at the end alone."""
    from algoprobe.training.log import whole_log

    config, found, lines = job.experiment.train, [], whole_log(job.experiment, job.folder)
    for line in lines:
        if "next_stage" in line and line["held_out"] >= config.curriculum.gate:
            found.append((line["stage"], line["step"]))
    last = job.experiment.task.hops
    cells = lines[-1].get("validation", ()) if found and found[-1][0] == last - 1 else ()
    if any(cell["value"] == last and cell["accuracy"] >= config.curriculum.gate for cell in cells):
        found.append((last, lines[-1]["step"]))
    return found


def by_hops(cells: Sequence[dict[str, Any]]) -> list[int]:
    """The numbers of hops that cells have."""
    return sorted({cell["value"] for cell in cells})


def swept(jobs: dict[str, list[Job]]) -> list[dict[str, Any]]:
    """For each model accuracy at every number of hops and loops, over its seeds, and how deep it is."""
    from algoprobe.training.evaluation import evaluate

    found = []
    for model, of_row in jobs.items():
        seeds = []
        for job in of_row:
            run = opened(job)
            cells = [cell for cell in run.task.cells() if cell.axis == "hops"]
            seeds.append(
                evaluate(run.model, run.task, cells, min(ROWS, run.task.config.test_rows), run.arithmetic, SWEEP)
            )
        cells = merge_seeds(seeds)
        best = {
            hops: max((c for c in cells if c["value"] == hops), key=lambda c: c["accuracy"]) for hops in by_hops(cells)
        }
        loops = of_row[0].folder.record["loops"]
        depth = [passed(job) for job in of_row]
        reach = {count: [reached(of_seed, count) for of_seed in seeds] for count in SWEEP}
        most = max(SWEEP, key=lambda count: (sum(reach[count]), -count))
        found.append(
            {
                "model": model,
                "cells": cells,
                "recommended_loops": loops,
                "learnable_depth": depth,
                "reach": {str(count): values for count, values in reach.items()},
                "best_loops": most,
                "best_reach": reach[most],
                "many_loops_reach": reach[SWEEP[-1]],
                "best": [cell | {"loops": cell["loops"]} for cell in best.values()],
            }
        )
    return found


def reached(cells: Sequence[dict[str, Any]], loops: int, level: float = LEARNED) -> int:
    """The largest number of hops up to which every one is answered at `level` with `loops` loops."""
    accuracy = {cell["value"]: cell["accuracy"] for cell in cells if cell["loops"] == loops}
    return next((hops - 1 for hops in sorted(accuracy) if accuracy[hops] < level), max(accuracy))


def few_loops(row: dict[str, Any]) -> float:
    """The largest accuracy above chance at fewer loops than hops, over all such cells: 0 for one hop a loop."""
    return max((c["accuracy"] - c["chance"] for c in row["cells"] if c["loops"] < c["value"]), default=0.0)


def at(row: dict[str, Any], hops: int, loops: int) -> float:
    """Mean accuracy in one cell of a swept row."""
    return next(c["accuracy"] for c in row["cells"] if (c["value"], c["loops"]) == (hops, loops))


def file_name(model: str) -> str:
    """A model's name as part of a file's."""
    return model.replace(" ", "").replace("=", "").lower()


def of_seeds(values: Sequence[float]) -> str:
    """The values of all seeds; equal ones stand once."""
    return ", ".join(map(str, dict.fromkeys(values))) if len(set(values)) == 1 else ", ".join(map(str, values))


def depth_table(rows: Sequence[dict[str, Any]], title: str) -> Any:
    """A row a model: hops passed in training, reach at its own, the best and the most loops."""
    from algoprobe.report import loops as shown

    lines = [
        {
            "model": row["model"],
            "depth": of_seeds(row["learnable_depth"]),
            "own": of_seeds(row["reach"].get(str(row["recommended_loops"]), row["best_reach"])),
            "loops": row["recommended_loops"],
            "best": of_seeds(row["best_reach"]),
            "best_loops": row["best_loops"],
            "many": of_seeds(row["many_loops_reach"]),
        }
        for row in rows
    ]
    columns = (
        ("model", "model"), ("depth", "hops passed"), ("loops", "own loops"), ("own", "reach at them"),
        ("best_loops", "best loops"), ("best", "reach at them"), ("many", f"reach at {SWEEP[-1]} loops"),
    )  # fmt: skip
    return shown.rows_table(lines, columns, title)


def maps(rows: Sequence[dict[str, Any]], seeds: int) -> dict[str, Any]:
    """A heat map of hops against loops for each model."""
    from algoprobe.report.lenses import heat_map

    charts = {}
    for row in rows:
        cells = [{"hops": f"{c['value']} hops", "loops": c["loops"], "accuracy": c["accuracy"]} for c in row["cells"]]
        rows_a_cell, chance = row["cells"][0]["rows"], row["cells"][0]["chance"]
        note = f"{rows_a_cell} test rows a cell and seed, mean over {seeds} seeds; chance {chance:.3f}."
        charts[f"map-{file_name(row['model'])}"] = heat_map(
            cells, "hops", "loops", "accuracy", f"{row['model']}: accuracy by hops and loops", note
        )
    return charts


def reach_chart(rows: Sequence[dict[str, Any]], title: str, seeds: int) -> Any:
    """Accuracy against hops, each model at its best number of loops."""
    from algoprobe.report import loops as shown

    points = [
        {"line": f"{row['model']}, {row['best_loops']} loops", "hops": c["value"]}
        | {key: c[key] for key in ("accuracy", "low", "high", "chance")}
        for row in rows
        for c in row["cells"]
        if c["loops"] == row["best_loops"]
    ]
    note = f"Each model at the loops that take it deepest; mean over {seeds} seeds, bands 95 %; dashed: chance."
    return shown.lines(points, "hops", "accuracy", title, note, names=("hops", "accuracy"))


FINDING = "Kohli et al., Figures 5 to 7 and App. I, J (200 entities, width 768), read off by eye"


@study("hops-fig5")
def hops_fig5(options: StudyOptions) -> dict[str, Any]:
    """How deep models answer against how often they loop, for R fixed, drawn, and the cure (Figure 5)."""
    jobs = jobs_of(options, rows_of(options.scale))
    found = swept(jobs)
    bands = []
    for row in found:
        if row["model"] == CURE:
            bands += [
                (CURE, "20 hops at 24 loops", "≤ 0.6 (trained to 22)", 0.95, 1.0, at(row, 20, 24), options.seeds),
                (CURE, "20 hops at 64 loops", "lower", 0.95, 1.0, at(row, 20, 64), options.seeds),
                (CURE, "above chance with loops < hops", "–", -1.0, 0.05, few_loops(row), options.seeds),
            ]
    results = {
        "study": "hops-fig5", "scale": options.scale, "seeds": options.seeds, "rows": found,
        "verdicts": verdicts_of(bands), **about(jobs),
    }  # fmt: skip
    title = f"Largest number of hops up to which all are answered at {LEARNED}, by seed; {options.scale} scale"
    charts = {"figure": reach_chart(found, "How deep models answer", options.seeds)} | maps(found, options.seeds)
    finish(options.out / "hops-fig5", results, [depth_table(found, title)], charts, options)
    return results


EQUAL = {"laptop": (3, 600_000), "paper": (12, 3_000_000 * 128)}
"""Most hops of Figure 7's training, and its examples."""


@study("hops-fig7")
def hops_fig7(options: StudyOptions) -> dict[str, Any]:
    """The same with equal data: every model trained on the same few hops (Figure 7)."""
    hops, examples = EQUAL[options.scale]
    rows = {
        model: varied(preset, task={"hops": hops, "hops_max_test": preset.make().task.n}, train={"examples": examples})
        for model, preset in rows_of(options.scale).items()
        if model != "R = 1" and "untied" not in model
    }
    jobs = jobs_of(options, rows)
    found = swept(jobs)
    results = {
        "study": "hops-fig7", "scale": options.scale, "seeds": options.seeds, "trained_to": hops, "rows": found,
        "verdicts": [], **about(jobs),
    }  # fmt: skip
    title = f"All trained to {hops} hops: largest number of hops answered at {LEARNED}, by seed"
    charts = {"figure": reach_chart(found, f"All trained to {hops} hops", options.seeds)} | maps(found, options.seeds)
    finish(options.out / "hops-fig7", results, [depth_table(found, title)], charts, options)
    return results
