"""Chains: how deep a looped model learns, how much deeper more loops take it, what they cost. Figures 5 to 10 of
arXiv 2604.07822.

Laptop scale: 30 entities and 10 permutations; the cure also at the paper's 200 entities, in a preset of its own. All
figures but Figure 7 look at the same runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from algoprobe.core.statistics import mean_interval
from algoprobe.probes.halting_settings import RULES, Halting

from .comparison import about, changed, chosen, finish, merge_seeds, train_rows, verdicts_of
from .hops_two import varied
from .registry import Preset, StudyOptions, find_preset, study

if TYPE_CHECKING:
    from algoprobe.training.load import TrainedRun
    from algoprobe.training.pool import Job

CURE, DYNAMIC = "reset", "dynamic"
LEARNED = 0.95
"""Accuracy from which a number of hops counts as answered."""
SWEEP = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64)
ROWS = 200
"""Test rows a number of hops, at most."""


def rows_of(scale: str) -> dict[str, Preset]:
    """The paper's loop with R fixed and drawn, and the cure."""
    name, fixed = ("hops-paper", range(1, 9)) if scale == "paper" else ("hops-loop", (1, 2, 4, 8))
    rows = {f"R = {r}": varied(name, model={"loops": r}, loops={"draw": "fixed"}) for r in fixed}
    rows[DYNAMIC] = find_preset(name)
    if scale == "laptop":
        rows[CURE] = find_preset("hops-deep")
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
        name = "map-" + row["model"].replace(" ", "").replace("=", "").lower()
        charts[name] = heat_map(cells, "hops", "loops", "accuracy", f"{row['model']}: accuracy by hops and loops", note)
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
        model: varied_more(
            preset, task={"hops": hops, "hops_max_test": preset.make().task.n}, train={"examples": examples}
        )
        for model, preset in rows_of(options.scale).items()
        if model != "R = 1"
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


def varied_more(preset: Preset, **parts: dict[str, Any]) -> Preset:
    """`preset` with further fields changed."""
    return replace(preset, make=lambda: changed(preset.make(), **parts))


FINE_TUNING = 50
"""Steps on rows of one more hop; the paper's number."""


@study("hops-fig6")
def hops_fig6(options: StudyOptions) -> dict[str, Any]:
    """What each further hop costs in updates, and fifty steps on the next one (Figure 6)."""
    from algoprobe.report import loops as shown

    jobs = jobs_of(options, rows_of(options.scale))
    rows, points, tuned = [], [], []
    for model, of_row in jobs.items():
        seeds = [stages(job) for job in of_row]
        for hops in sorted({stage for of_seed in seeds for stage, _ in of_seed}):
            when = [dict(of_seed)[hops] for of_seed in seeds if hops in dict(of_seed)]
            mean = mean_interval(when)[0]
            rows.append(
                {
                    "model": model,
                    "hops": hops,
                    "steps": round(mean),
                    "values": when,
                    "of": f"{len(when)} of {len(seeds)}",
                }
            )
            points.append({"line": model, "hops": hops, "steps": mean})
        tuned += [fine_tuned(job) | {"model": model, "seed": seed} for seed, job in enumerate(of_row)]
    results = {
        "study": "hops-fig6", "scale": options.scale, "seeds": options.seeds, "rows": rows, "fine_tuning": tuned,
        "verdicts": [], **about(jobs),
    }  # fmt: skip
    chart = shown.lines(
        points, "hops", "steps", "Updates until a number of hops passes",
        f"Held-out accuracy at the gate; mean over the seeds that passed, of {options.seeds}.",
        names=("hops", "optimiser steps"), share=False,
    )  # fmt: skip
    columns = (("model", "model"), ("hops", "hops"), ("steps", "steps"), ("of", "seeds that passed"))
    tables = [shown.rows_table(rows, columns, "Optimiser steps until a number of hops passes, mean over seeds")]
    columns = (
        ("model", "model"), ("seed", "seed"), ("hops", "one more hop"), ("before", "accuracy before"),
        ("after", f"after {FINE_TUNING} steps"), ("earlier", "hops before, after"), ("rows", "rows"),
    )  # fmt: skip
    tables.append(shown.rows_table(tuned, columns, f"{FINE_TUNING} steps on rows of one more hop"))
    finish(options.out / "hops-fig6", results, tables, {"figure": chart}, options)
    return results


def fine_tuned(job: Job) -> dict[str, Any]:
    """Accuracy on one more hop than a run has passed, before and after `FINE_TUNING` steps on rows of it alone."""
    from algoprobe.training.fine_tuning import fine_tune

    run, depth = opened(job), max(1, passed(job))
    task = run.task.at_stage(depth + 1) if depth + 1 <= run.task.stages() else deeper(run, depth + 1)
    loops = max(run.loops, depth + 1) if run.experiment.model.recurrence == "reset" else run.loops
    measure = [accuracy(run, hops, loops) for hops in (depth + 1, depth)]
    fine_tune(run, task, depth + 1, FINE_TUNING, loops)
    after = [accuracy(run, hops, loops) for hops in (depth + 1, depth)]
    return {
        "hops": depth + 1,
        "before": measure[0],
        "after": after[0],
        "earlier": after[1],
        "loops": loops,
        "rows": ROWS,
    }


def deeper(run: TrainedRun, hops: int) -> Any:
    """The run's task with training rows of up to `hops` hops."""
    return replace(run.task.config, hops=hops, hops_max_test=run.task.config.n).build()


def accuracy(run: TrainedRun, hops: int, loops: int) -> float:
    """Accuracy on test rows of `hops` hops."""
    from algoprobe.training.evaluation import evaluate_cell

    cell = next(cell for cell in run.task.cells() if cell.axis == "hops" and cell.value == hops)
    return evaluate_cell(run.model, run.task, cell, min(ROWS, run.task.config.test_rows), run.arithmetic, [loops])[0][
        "accuracy"
    ]


MARGIN_HOPS = (2, 3, 4, 6, 8, 12, 16, 20, 24)


@study("hops-fig8")
def hops_fig8(options: StudyOptions) -> dict[str, Any]:
    """Logit margin, fixed points and overthinking: what 64 loops do to the answer (Figure 8)."""
    from algoprobe.probes.dynamics import loop_dynamics
    from algoprobe.probes.inputs import Inputs
    from algoprobe.report import loops as shown

    jobs, rows = jobs_of(options, rows_of(options.scale)), []
    for model, of_row in jobs.items():
        seeds: dict[int, list] = {}
        for job in of_row:
            run = opened(job)
            for cell in run.task.cells():
                if cell.axis == "hops" and cell.value in MARGIN_HOPS:
                    batch = run.task.test(cell, min(ROWS, run.task.config.test_rows))
                    seeds.setdefault(cell.value, []).append(
                        loop_dynamics(run.model, Inputs.of(batch, run.model), SWEEP[-1])
                    )
        for hops, of_hops in seeds.items():
            first = [float(np.mean(right[right > 0].tolist())) for _, right in of_hops if bool((right > 0).any())]
            for of_loop in zip(*(points for points, _ in of_hops)):
                means = {
                    key: mean_interval([point[key] for point in of_loop])[0] if of_loop[0][key] is not None else None
                    for key in ("accuracy", "margin", "entropy", "kl", "change")
                }
                rows.append(
                    {"model": model, "hops": hops, "loop": of_loop[0]["loop"], "seeds": len(of_loop)}
                    | means
                    | {"first_right": float(np.mean(first)) if first else None}
                )
    results = {
        "study": "hops-fig8",
        "scale": options.scale,
        "seeds": options.seeds,
        "rows": rows,
        "verdicts": [],
        **about(jobs),
    }
    charts, lines = {}, []
    for model in jobs:
        of_model = [row for row in rows if row["model"] == model]
        name = model.replace(" ", "").replace("=", "").lower()
        note = f"Mean over {ROWS} test rows a number of hops and {options.seeds} seeds; lines: hops."
        for key, words, share in (
            ("margin", "logit margin", False),
            ("accuracy", "accuracy", True),
            ("change", "‖h(t) - h(t-1)‖ / ‖h(t)‖", False),
        ):  # fmt: skip
            points = [{"line": row["hops"], "loop": row["loop"], key: row[key]} for row in of_model]
            charts[f"{key}-{name}"] = shown.lines(
                points, "loop", key, f"{model}: {words} against loops", note, names=("loops", words), ordered=True,
                log=True, share=share,
            )  # fmt: skip
        for hops in dict.fromkeys(row["hops"] for row in of_model):
            of_hops = [row for row in of_model if row["hops"] == hops]
            top = max(of_hops, key=lambda row: row["margin"])
            lines.append(
                {
                    "model": model, "hops": hops, "first": of_hops[0]["first_right"], "peak": top["margin"],
                    "at": top["loop"], "end": of_hops[-1]["margin"], "best": max(row["accuracy"] for row in of_hops),
                    "last": of_hops[-1]["accuracy"], "change": of_hops[-1]["change"],
                }
            )  # fmt: skip
    columns = (
        ("model", "model"), ("hops", "hops"), ("first", "first right loop"), ("peak", "largest margin"),
        ("at", "at loop"),
        ("end", f"at {SWEEP[-1]}"), ("best", "best accuracy"), ("last", f"at {SWEEP[-1]}"), ("change", "last change"),
    )  # fmt: skip
    table = shown.rows_table(lines, columns, f"Margin and accuracy over {SWEEP[-1]} loops; {options.scale} scale")
    finish(options.out / "hops-fig8", results, [table], charts, options)
    return results


MOST_LOOPS = 64
ENTROPY = {"laptop": 0.5, "paper": 3.0}
"""Nats. The paper's 3.0 is for 217 tokens; among 42 it would let a uniform guess among twenty pass."""


@study("hops-fig9-10")
def hops_fig9_10(options: StudyOptions) -> dict[str, Any]:
    """Halting rules: loops taken and accuracy against hops, loops saved over the best fixed R (Figures 9, 10)."""
    from algoprobe.report import loops as shown

    rows = rows_of(options.scale)
    names = chosen(options, rows, [name for name in (DYNAMIC, CURE) if name in rows])
    jobs = train_rows({name: rows[name] for name in names}, options)
    found, mixes = [], []
    for model, of_row in jobs.items():
        seeds = [halted(job, ENTROPY[options.scale]) for job in of_row]
        for of_cell in zip(*(of_seed["cells"] for of_seed in seeds)):
            found.append({"model": model} | averaged(of_cell, ("accuracy", "loops", "chance")))
        for of_rule in zip(*(of_seed["mix"] for of_seed in seeds)):
            mixes.append(
                {"model": model} | averaged(of_rule, ("accuracy", "loops", "saved", "fixed_accuracy", "fixed_loops"))
            )
    results = {
        "study": "hops-fig9-10", "scale": options.scale, "seeds": options.seeds, "rows": found, "mix": mixes,
        "verdicts": verdicts_of(
            (row["model"], f"{row['rule']}: share of loops saved", "–", 0.35, 1.0, row["saved"], options.seeds)
            for row in mixes if row["model"] == CURE and row["rule"] in ("kl-entropy", "confidence")
        ), **about(jobs),
    }  # fmt: skip
    charts = {}
    for model in jobs:
        name = model.replace(" ", "").replace("=", "").lower()
        of_model = [row for row in found if row["model"] == model]
        note = f"At most {MOST_LOOPS} loops; mean over {options.seeds} seeds, {ROWS} test rows a number of hops."
        for key, words in (("accuracy", "accuracy"), ("loops", "mean loops")):
            points = [{"line": row["rule"], "hops": row["value"], key: row[key]} for row in of_model]
            charts[f"{key}-{name}"] = shown.lines(
                points, "hops", key, f"{model}: {words} by halting rule", note, names=("hops", words),
                share=key == "accuracy",
            )  # fmt: skip
    columns = (
        ("model", "model"), ("rule", "rule"), ("accuracy", "accuracy"), ("loops", "mean loops"),
        ("fixed_accuracy", "fixed best R: accuracy"), ("fixed_loops", "its loops"), ("saved", "loops saved"),
    )  # fmt: skip
    table = shown.rows_table(mixes, columns, f"Halting over a mix of hops, as many rows of each; {options.scale} scale")
    finish(options.out / "hops-fig9-10", results, [table], charts, options)
    return results


def averaged(rows: Sequence[dict[str, Any]], keys: Sequence[str]) -> dict[str, Any]:
    """The first of `rows` with the means of some fields over all."""
    return dict(rows[0]) | {key: float(np.mean([row[key] for row in rows])) for key in keys}


def halted(job: Job, most_entropy: float) -> dict[str, Any]:
    """Every rule on the run's test rows: accuracy and mean loops by hops, and over a mix beside the best fixed R.

    The mix has hops 2 up to what the run reaches with some fixed R, so that each of its rows can be answered.
    """
    from algoprobe.training.evaluation import evaluate

    from .halting import halt_cells, over_mix

    run = opened(job)
    cells = [cell for cell in run.task.cells() if cell.axis == "hops"]
    rows = min(ROWS, run.task.config.test_rows)
    fixed = evaluate(run.model, run.task, cells, rows, run.arithmetic, range(1, MOST_LOOPS + 1))
    reach = max(2, *(reached(fixed, loops) for loops in range(1, MOST_LOOPS + 1)))
    rules = [Halting(rule, entropy=most_entropy) for rule in RULES]
    found = halt_cells(run, cells, rows, rules, MOST_LOOPS)
    return {"cells": found, "mix": over_mix(found, fixed, range(2, reach + 1)), "reach": reach}
