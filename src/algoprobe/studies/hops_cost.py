"""What a further hop costs. Figure 6 of arXiv 2604.07822, on the runs of Figure 5."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from algoprobe.core.statistics import mean_interval

from .comparison import about, finish
from .hops_deep import ROWS, jobs_of, opened, passed, rows_of, stages
from .registry import StudyOptions, study

if TYPE_CHECKING:
    from algoprobe.tasks.task import Task
    from algoprobe.training.load import TrainedRun
    from algoprobe.training.pool import Job

FINE_TUNING = 50
"""Steps on rows of one more hop; the paper's number."""


def steps_by_hops(model: str, jobs: list[Job]) -> list[dict[str, Any]]:
    """For each number of hops the optimiser steps until it passed, of the seeds where it did."""
    seeds, rows = [dict(stages(job)) for job in jobs], []
    for hops in sorted({hops for of_seed in seeds for hops in of_seed}):
        when = [of_seed[hops] for of_seed in seeds if hops in of_seed]
        rows.append(
            {"model": model, "hops": hops, "steps": round(mean_interval(when)[0]), "values": when}
            | {"of": f"{len(when)} of {len(seeds)}"}
        )
    return rows


def fine_tuned(job: Job) -> dict[str, Any]:
    """Accuracy on one more hop than a run has passed, before and after `FINE_TUNING` steps on rows of it alone.

    At as many loops as there are hops, at least the run's own: a block that follows a hop a loop needs them. `own` is
    accuracy before, at the run's own loops.
    """
    from algoprobe.training.fine_tuning import fine_tune

    run, hops = opened(job), max(1, passed(job)) + 1
    loops = max(run.loops, hops)
    own, before = accuracy(run, hops, run.loops), accuracy(run, hops, loops)
    fine_tune(run, deeper(run, hops), hops, FINE_TUNING, loops)
    after, earlier = accuracy(run, hops, loops), accuracy(run, max(2, hops - 1), loops)
    found = {"hops": hops, "loops": loops, "own": own, "before": before, "after": after, "earlier": earlier}
    return found | {"rows": min(ROWS, run.task.config.test_rows)}


def deeper(run: TrainedRun, hops: int) -> Task:
    """The run's task with training rows of up to `hops` hops."""
    return replace(run.task.config, hops=hops, hops_max_test=run.task.config.n).build()


def accuracy(run: TrainedRun, hops: int, loops: int) -> float:
    """Accuracy on test rows of `hops` hops."""
    from algoprobe.training.evaluation import evaluate

    cell = next(cell for cell in run.task.cells() if cell.axis == "hops" and cell.value == hops)
    rows = min(ROWS, run.task.config.test_rows)
    return evaluate(run.model, run.task, [cell], rows, run.arithmetic, [loops])[0]["accuracy"]


@study("hops-fig6")
def hops_fig6(options: StudyOptions) -> dict[str, Any]:
    """What each further hop costs in updates, and fifty steps on the next one (Figure 6)."""
    from algoprobe.report import loops as shown

    jobs = jobs_of(options, rows_of(options.scale))
    rows = [row for model, of_row in jobs.items() for row in steps_by_hops(model, of_row)]
    tuned = [
        {"model": model, "seed": seed} | fine_tuned(job)
        for model, of_row in jobs.items()
        for seed, job in enumerate(of_row)
    ]
    results = {"study": "hops-fig6", "scale": options.scale, "seeds": options.seeds, "rows": rows}
    results |= {"fine_tuning": tuned, "verdicts": [], **about(jobs)}
    chart = shown.lines(
        [row | {"line": row["model"]} for row in rows], "hops", "steps", "Updates until a number of hops passes",
        f"Held-out accuracy at the gate; mean over the seeds that passed, of {options.seeds}.",
        names=("hops", "optimiser steps"), share=False,
    )  # fmt: skip
    columns = (("model", "model"), ("hops", "hops"), ("steps", "steps"), ("of", "seeds that passed"))
    tables = [shown.rows_table(rows, columns, "Optimiser steps until a number of hops passes, mean over seeds")]
    columns = (
        ("model", "model"), ("seed", "seed"), ("hops", "hops"), ("own", "at own loops"), ("loops", "loops"),
        ("before", "before"), ("after", "after"), ("earlier", "a hop less"),
    )  # fmt: skip
    tables.append(shown.rows_table(tuned, columns, f"{FINE_TUNING} steps on rows of one more hop"))
    finish(options.out / "hops-fig6", results, tables, {"figure": chart}, options)
    return results
