"""What many loops do to an answer, and when to stop. Figures 8 to 10 of arXiv 2604.07822, on the runs of Figure 5."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from algoprobe.core.statistics import mean_interval
from algoprobe.probes.halting_settings import RULES, Halting

from .comparison import about, chosen, finish, train_rows, verdicts_of
from .hops_deep import DYNAMIC, ROWS, SWEEP, file_name, jobs_of, opened, reached, rows_of
from .hops_two import CURE
from .registry import StudyOptions, study

if TYPE_CHECKING:
    from algoprobe.report.tables import Table
    from algoprobe.training.pool import Job

MARGIN_HOPS = (2, 3, 4, 6, 8, 12, 16, 20, 24)
MEASURES = (
    ("margin", "logit margin", False),
    ("accuracy", "accuracy", True),
    ("change", "‖h(t) - h(t-1)‖ / ‖h(t)‖", False),
)
"""What Figure 8 draws against loops: field, words, whether it is a share."""


def dynamics(model: str, jobs: Sequence[Job]) -> list[dict[str, Any]]:
    """For each number of hops and loop the means over a model's seeds (`probes.dynamics`)."""
    from algoprobe.probes.dynamics import loop_dynamics
    from algoprobe.probes.inputs import Inputs

    seeds: dict[int, list] = {}
    for run in map(opened, jobs):
        for cell in run.task.cells():
            if cell.axis == "hops" and cell.value in MARGIN_HOPS:
                batch = run.task.test(cell, min(ROWS, run.task.config.test_rows))
                found = loop_dynamics(run.model, Inputs.of(batch, run.model), SWEEP[-1])
                seeds.setdefault(cell.value, []).append(found)
    rows = []
    for hops, of_hops in seeds.items():
        first = [float(right[right > 0].double().mean()) for _, right in of_hops if bool((right > 0).any())]
        for of_loop in zip(*(points for points, _ in of_hops)):
            row = {"model": model, "hops": hops, "loop": of_loop[0]["loop"], "seeds": len(of_loop)}
            row |= averaged(of_loop, ("accuracy", "margin", "entropy", "kl", "change"))
            rows.append(row | {"first_right": float(np.mean(first)) if first else None})
    return rows


def averaged(rows: Sequence[dict[str, Any]], keys: Sequence[str]) -> dict[str, Any]:
    """The means of some fields over `rows`; None where one has none."""
    values = {key: [row[key] for row in rows] for key in keys}
    return {key: None if None in found else mean_interval(found)[0] for key, found in values.items()}


def dynamics_table(rows: Sequence[dict[str, Any]], scale: str) -> Table:
    """For each model and number of hops when the margin is largest, and what the most loops leave of it."""
    from algoprobe.report import loops as shown

    lines = []
    for model, hops in dict.fromkeys((row["model"], row["hops"]) for row in rows):
        of_hops = [row for row in rows if (row["model"], row["hops"]) == (model, hops)]
        top, end, best = max(of_hops, key=lambda row: row["margin"]), of_hops[-1], max(r["accuracy"] for r in of_hops)
        # Where few rows are ever right, when they first are is when luck struck.
        first = end["first_right"] if best > 0.5 else None
        lines.append(
            {"model": model, "hops": hops, "first": first, "peak": top["margin"], "at": top["loop"]}
            | {"end": end["margin"], "best": best, "last": end["accuracy"], "change": end["change"]}
        )
    most = SWEEP[-1]
    columns = (
        ("model", "model"), ("hops", "hops"), ("first", "first right loop"), ("peak", "largest margin"),
        ("at", "at loop"), ("end", f"margin at {most}"), ("best", "best accuracy"), ("last", f"accuracy at {most}"),
        ("change", f"change at {most}"),
    )  # fmt: skip
    return shown.rows_table(lines, columns, f"Margin and accuracy over {SWEEP[-1]} loops; {scale} scale")


@study("hops-fig8")
def hops_fig8(options: StudyOptions) -> dict[str, Any]:
    """Logit margin, fixed points and overthinking: what 64 loops do to the answer (Figure 8)."""
    from algoprobe.report import loops as shown

    jobs = jobs_of(options, rows_of(options.scale))
    found, charts = {model: dynamics(model, of_row) for model, of_row in jobs.items()}, {}
    for model, rows in found.items():
        note = f"Mean over {ROWS} test rows a number of hops and {options.seeds} seeds; lines: hops."
        for key, words, share in MEASURES:
            points = [{"line": row["hops"], "loop": row["loop"], key: row[key]} for row in rows]
            charts[f"{key}-{file_name(model)}"] = shown.lines(
                points, "loop", key, f"{model}: {words} against loops", note, names=("loops", words), ordered=True,
                log=True, share=share,
            )  # fmt: skip
    rows = [row for of_model in found.values() for row in of_model]
    results = {"study": "hops-fig8", "scale": options.scale, "seeds": options.seeds, "rows": rows, "verdicts": []}
    results |= about(jobs)
    finish(options.out / "hops-fig8", results, [dynamics_table(rows, options.scale)], charts, options)
    return results


MOST_LOOPS = 64
ENTROPY = {"laptop": 0.5, "paper": 3.0}
"""Nats. The paper's 3.0 is for 217 tokens; among 42 it would let a uniform guess among twenty pass."""


def halted(job: Job, most_entropy: float) -> dict[str, Any]:
    """Every rule on a run's test rows: accuracy and mean loops by hops, and over a mix beside the best fixed R.

    The mix has hops 2 up to what the run reaches with some fixed R, so that each of its rows can be answered.
    """
    from .halting import fixed_cells, halt_cells, over_mix

    run = opened(job)
    cells = [cell for cell in run.task.cells() if cell.axis == "hops"]
    rows, counts = min(ROWS, run.task.config.test_rows), range(1, MOST_LOOPS + 1)
    fixed = fixed_cells(run, cells, rows, MOST_LOOPS)
    reach = max(2, *(reached(fixed, loops) for loops in counts))
    found = halt_cells(run, cells, rows, [Halting(rule, entropy=most_entropy) for rule in RULES], MOST_LOOPS)
    return {"cells": found, "mix": [row | {"reach": reach} for row in over_mix(found, fixed, range(2, reach + 1))]}


@study("hops-fig9-10")
def hops_fig9_10(options: StudyOptions) -> dict[str, Any]:
    """Halting rules: loops taken and accuracy against hops, loops saved over the best fixed R (Figures 9, 10)."""
    from algoprobe.report import loops as shown

    presets = rows_of(options.scale)
    names = chosen(options, presets, [name for name in (DYNAMIC, CURE) if name in presets])
    jobs = train_rows({name: presets[name] for name in names}, options)
    rows, mixes = [], []
    for model, of_row in jobs.items():
        seeds = [halted(job, ENTROPY[options.scale]) for job in of_row]
        for of_cell in zip(*(of_seed["cells"] for of_seed in seeds)):
            rows.append({"model": model} | of_cell[0] | averaged(of_cell, ("accuracy", "loops", "chance", "shortcut")))
            rows[-1] |= {"seeds": len(seeds)}
        for of_rule in zip(*(of_seed["mix"] for of_seed in seeds)):
            keys = ("accuracy", "loops", "saved", "fixed_accuracy", "fixed_loops", "reach")
            mixes.append({"model": model} | of_rule[0] | averaged(of_rule, keys))
    saved = [
        (row["model"], f"{row['rule']}: loops saved", "–", 0.35, 1.0, row["saved"], options.seeds)
        for row in mixes
        if row["model"] == CURE and row["rule"] in ("kl-entropy", "confidence") and row["saved"] is not None
    ]
    results = {"study": "hops-fig9-10", "scale": options.scale, "seeds": options.seeds, "rows": rows, "mix": mixes}
    results |= {"verdicts": verdicts_of(saved), **about(jobs)}
    charts = {}
    for model in jobs:
        note = f"At most {MOST_LOOPS} loops; mean over {options.seeds} seeds, {ROWS} test rows a number of hops."
        for key, words in (("accuracy", "accuracy"), ("loops", "mean loops")):
            points = [{"line": r["rule"], "hops": r["value"], key: r[key]} for r in rows if r["model"] == model]
            charts[f"{key}-{file_name(model)}"] = shown.lines(
                points, "hops", key, f"{model}: {words} by halting rule", note, names=("hops", words),
                share=key == "accuracy",
            )  # fmt: skip
    columns = (
        ("model", "model"), ("rule", "rule"), ("reach", "hops 2 to"), ("accuracy", "accuracy"),
        ("loops", "mean loops"), ("fixed_loops", "best fixed R"), ("fixed_accuracy", "its accuracy"),
        ("saved", "loops saved"),
    )  # fmt: skip
    title = f"Halting over a mix of hops, as many rows of each; {options.scale} scale"
    table = shown.rows_table(mixes, columns, title, words=2)
    finish(options.out / "hops-fig9-10", results, [table], charts, options)
    return results
