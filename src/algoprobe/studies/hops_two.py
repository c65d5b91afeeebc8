"""Two hops: does a model compose facts that training has only shown alone? Figure 3 of arXiv 2604.07822.

Laptop scale: 50 entities and 10 relations, every seed with facts, a split and test rows of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from algoprobe.core.statistics import mean_interval, wilson

from .comparison import about, chosen, finish, train_rows, varied, verdicts_of
from .registry import Preset, StudyOptions, find_preset, study

if TYPE_CHECKING:
    from algoprobe.tasks.batch import Batch
    from algoprobe.training.load import TrainedRun
    from algoprobe.training.pool import Job

GROUPS = ("train", "id", "ood", "first-ood", "second-ood")
"""Training pairs, then the test groups: both facts ID, both OOD, an OOD fact first, an OOD fact second."""
CURE = "reset"
TRAIN_ROWS = 500


def rows_of(scale: str) -> dict[str, Preset]:
    """The models of Figures 3 and 4: loops of the paper's kind, untied blocks of the same depth, the cure."""
    if scale == "paper":
        loops = {f"R = {r}": varied(find_preset("hops-two-paper"), model={"loops": r}) for r in (1, 2, 4, 8)}
        untied = varied(find_preset("hops-two-paper"), model={"layers": 8, "loops": 1})
        cure = varied(
            find_preset("hops-two-paper"),
            task={"answer_at": "last"},
            model={"loops": 2, "position": "relative", "recurrence": "reset", "inject": True},
            loops={"loss": "from-difficulty"},
        )
        return {"8 untied layers": untied, **loops, CURE: cure}
    loops = {f"R = {r}": varied(find_preset("hops-two-loop"), model={"loops": r}) for r in (1, 2, 4, 8)}
    untied = varied(find_preset("hops-two-loop"), model={"layers": 2, "loops": 1})
    # From the paper's loop to the cure, one part at a time.
    relative = {"position": "relative"}
    each = {"loss": "from-difficulty"}
    steps = {
        "R = 2 relative": varied(find_preset("hops-two-loop"), task={"answer_at": "last"}, model=relative),
        "R = 2 loss a loop": varied(
            find_preset("hops-two-loop"), task={"answer_at": "last"}, model=relative, loops=each
        ),
        "R = 2 channel": varied(find_preset("hops-two"), model={"recurrence": "embedding", "inject": False}),
    }
    return {"2 untied layers": untied, **loops, **steps, CURE: find_preset("hops-two")}


LADDER = ("R = 2", "R = 2 relative", "R = 2 loss a loop", "R = 2 channel", CURE)
LONG = "R = 2, long"
"""The paper's loop with a budget at which its effect shows; one seed."""
LONG_TIMES = 5


def long_row() -> dict[str, Preset]:
    """The longer run of the paper's loop."""
    examples = LONG_TIMES * find_preset("hops-two-loop").make().train.examples
    return {LONG: varied(find_preset("hops-two-loop"), train={"examples": examples})}


@dataclass(frozen=True)
class Groups:
    """The rows of one seed's facts, by group."""

    batches: dict[str, Batch]
    baselines: dict[str, dict[str, Any]]
    """Chance and best shortcut, which do not depend on the model."""

    @classmethod
    def of(cls, run: TrainedRun) -> Groups:
        """All test rows of each group, and as many training pairs as the first ones of the stream give."""
        from algoprobe.training.evaluation import baselines_of

        task, found = run.task, {}
        stream = task.sample("train", run.experiment.seeds.data, np.arange(4 * TRAIN_ROWS))
        pairs = stream.index[stream.axes["hops"] == 2][:TRAIN_ROWS]
        found["train"] = task.sample("train", run.experiment.seeds.data, pairs)
        for cell in task.cells(GROUPS[1:]):
            found[cell.distribution] = task.test(cell, task.config.test_rows)
        return cls(found, {name: baselines_of(task, batch) for name, batch in found.items()})

    def accuracy(self, run: TrainedRun) -> dict[str, dict[str, Any]]:
        """Accuracy in each group at the run's own number of loops, chance and best shortcut beside."""
        from algoprobe.training.forward import answers

        found = {}
        for name, batch in self.batches.items():
            right = run.task.grade(batch, answers(run.model, batch, run.arithmetic, run.loops))
            low, high = wilson(int(right.sum()), len(batch))
            found[name] = {"accuracy": float(right.mean()), "low": low, "high": high, "rows": len(batch)}
            found[name] |= self.baselines[name]
        return found


def along_training(job: Job) -> list[dict[str, Any]]:
    """At each snapshot: examples, CPU seconds, accuracy in each group."""
    from algoprobe.training.evaluation import open_run
    from algoprobe.training.log import whole_log
    from algoprobe.training.snapshots import load_snapshot, snapshot_steps

    run, found = open_run(job.folder.path), []
    groups, log = Groups.of(run), [line for line in whole_log(job.experiment, job.folder) if "cpu_seconds" in line]
    steps = np.array([line["step"] for line in log])
    seconds = np.array([line["cpu_seconds"] for line in log])
    for step in snapshot_steps(job.folder, job.experiment.train):
        load_snapshot(run, step)
        spent = float(np.interp(step, steps, seconds))
        cells = groups.accuracy(run)
        found.append(
            {"step": step, "examples": step * job.experiment.train.batch, "cpu_seconds": spent, "cells": cells}
        )
    return found


def merged(cells: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """One group over its seeds: the mean with Student's interval, and accuracy and interval over all rows pooled."""
    right = sum(cell["accuracy"] * cell["rows"] for cell in cells)
    rows = sum(cell["rows"] for cell in cells)
    mean, low, high = mean_interval([cell["accuracy"] for cell in cells])
    if len(cells) == 1:
        low, high = cells[0]["low"], cells[0]["high"]
    pooled = wilson(right, rows)
    return {
        "accuracy": mean,
        "low": max(0.0, low),
        "high": min(1.0, high),
        "pooled": right / rows,
        "pooled_low": pooled[0],
        "pooled_high": pooled[1],
        "rows_in_all": rows,
        "seeds": len(cells),
        "values": [cell["accuracy"] for cell in cells],
    } | {key: mean_interval([cell[key] for cell in cells])[0] for key in ("chance", "shortcut")}


def curves(jobs: dict[str, list[Job]]) -> list[dict[str, Any]]:
    """For each model its curve over training, merged over seeds, and how it ends."""
    found = []
    for model, of_row in jobs.items():
        seeds = [along_training(job) for job in of_row]
        points = [
            {
                "examples": of_step[0]["examples"],
                "cpu_seconds": sum(point["cpu_seconds"] for point in of_step) / len(of_step),
                "cells": {name: merged([point["cells"][name] for point in of_step]) for name in of_step[0]["cells"]},
            }
            for of_step in zip(*seeds)
        ]
        record = of_row[0].folder.record
        found.append(
            {
                "model": model,
                "parameters": record["parameters"],
                "examples": record["examples"],
                "cpu_seconds": mean_interval([job.folder.record["cpu_seconds"] for job in of_row])[0],
                "cells": points[-1]["cells"],
                "curve": points,
            }
        )
    return found


def points_of(rows: Sequence[dict[str, Any]], group: str, x: str) -> list[dict[str, Any]]:
    """The curves of one group as points of a chart."""
    return [
        {"line": row["model"], x: point[x]}
        | {key: point["cells"][group][key] for key in ("accuracy", "low", "high", "chance")}
        for row in rows
        for point in row["curve"]
    ]


FINDING = "Kohli et al., Figure 3 (2,000 entities, width 768), read off by eye"
BANDS = {
    "R = 1": ("0.01", 0.0, 0.05),
    "2 untied layers": ("0", 0.0, 0.05),
    "8 untied layers": ("0", 0.0, 0.05),
    CURE: ("–", 0.95, 1.0),
}
"""OOD accuracy: the paper's, and where ours should lie. The plain loop has none: on a laptop it only starts."""


@study("hops-fig3")
def hops_fig3(options: StudyOptions) -> dict[str, Any]:
    """Composing facts seen only alone, over training, for R = 1 to 8, untied blocks and the cure (Figure 3)."""
    from algoprobe.report import loops as shown

    rows = rows_of(options.scale)
    # The long run shows one thing once and has one seed.
    long = options.scale == "laptop" and (not options.models or LONG in options.models)
    names = [name for name in chosen(options, [*rows, *([LONG] if long else [])], rows) if name != LONG]
    jobs = train_rows({name: rows[name] for name in names}, options)
    if long:
        jobs |= train_rows(long_row(), replace(options, seeds=1))
    found = curves(jobs)
    results = {
        "study": "hops-fig3",
        "scale": options.scale,
        "seeds": options.seeds,
        "rows": found,
        "verdicts": verdicts_of(
            (row["model"], "ood, pooled over seeds", *BANDS[row["model"]], row["cells"]["ood"]["pooled"], options.seeds)
            for row in found
            if row["model"] in BANDS
        ),
        **about(jobs),
    }
    for verdict in results["verdicts"]:
        verdict["source"] = FINDING
    charts = {}
    ladder = [row for row in found if row["model"] in LADDER]
    plain = [row for row in found if row["model"] not in (*LADDER[1:-1], LONG)]
    for name, (of_chart, group, x, title) in {
        "figure": (plain, "ood", "examples", "Facts never composed in training, composed"),
        "seconds": (plain, "ood", "cpu_seconds", "The same against CPU seconds"),
        "first-ood": (plain, "first-ood", "examples", "First hop OOD, second ID"),
        "second-ood": (plain, "second-ood", "examples", "First hop ID, second OOD"),
        "ladder": (ladder, "ood", "examples", "From the paper's loop to the cure, a part at a time"),
    }.items():
        note = f"{'Both hops OOD. ' * (group == 'ood')}Mean over seeds ({options.seeds}), bands: 95 %; dashed: chance."
        names = ({"examples": "training examples", "cpu_seconds": "CPU seconds of one core"}[x], "accuracy")
        if of_chart:
            points = points_of(of_chart, group, x)
            charts[name] = shown.lines(points, x, "accuracy", title, note, names=names, log=True)
    for row in found:
        if row["model"] == LONG:
            lines = [
                {"line": group, "examples": point["examples"], "accuracy": point["cells"][group]["accuracy"]}
                for group in GROUPS
                for point in row["curve"]
            ]
            charts["long"] = shown.lines(
                lines, "examples", "accuracy", "The paper's loop, R = 2, given time",
                "One seed; lines: groups of rows.", names=("training examples", "accuracy"), log=True,
            )  # fmt: skip
    title = f"Accuracy at the end, mean over seeds ({options.seeds}); {options.scale} scale"
    finish(options.out / "hops-fig3", results, shown.groups_tables(found, GROUPS, title), charts, options)
    return results
