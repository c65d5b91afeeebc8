"""Figure 5 of *Transformers Struggle to Learn to Search*: how many answers path merging explains.

Laptop scale: one-hot models of six layers, as in the paper, on graphs of up to 12 vertices (n = 41, lookahead 1 to 5),
trained in minutes on one core. Paper scale: n = 128 and the models of Figure 2.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from algoprobe.core.statistics import mean_interval
from algoprobe.options import ExplainOptions
from algoprobe.probes.circuit_settings import Settings
from algoprobe.training.config import AuxiliaryConfig, CurriculumConfig, Experiment, OptimiserConfig, TrainConfig

from .comparison import Expected, about, chosen, finish, train_rows, verdicts
from .registry import StudyOptions, find_preset, preset, study
from .search_fig2 import paper, trained_on


def onehot() -> Experiment:
    """The paper's model at n = 41, with a recipe that learns every lookahead in a few hundred thousand examples.

    Muon does the first part: an attention that steps from each position to the next is a permutation matrix, all of
    whose singular values are equal, and Muon's updates raise all of them at once. The auxiliary loss does the rest:
    with the answer alone, lookahead 3 comes after 350,000 examples for one seed and not within 800,000 for another.
    """
    experiment = paper()
    return replace(
        experiment,
        task=replace(experiment.task, n=41),
        model=replace(experiment.model, zero_init=True),
        train=TrainConfig(
            examples=400_000,
            batch=128,
            optimiser=OptimiserConfig(name="muon", lr=0.01, lr_other=2e-3, weight_decay=0.1),
            decay=0.6,
            auxiliary=AuxiliaryConfig(target="steps_to_goal", weight=4.0),
            curriculum=CurriculumConfig(on=True, gate=0.8),
            validate_every=50_000,
        ),
    )


@preset("search-onehot", "laptop")
def search_onehot() -> Experiment:
    """The paper's one-hot model on graphs of up to 12 vertices: every lookahead in minutes on one core."""
    return onehot()


@preset("search-onehot-naive", "laptop")
def search_onehot_naive() -> Experiment:
    """The same model and budget on naive graphs."""
    experiment = trained_on(onehot(), distribution="naive")
    # Naive graphs have no order of difficulty to walk through.
    return replace(experiment, train=replace(experiment.train, curriculum=CurriculumConfig(on=False)))


@preset("search-onehot-small", "laptop")
def search_onehot_small() -> Experiment:
    """The same model and budget on balanced graphs of lookahead up to 3."""
    return trained_on(onehot(), lookahead=3)


@preset("search-onehot-answers", "laptop")
def search_onehot_answers() -> Experiment:
    """search-onehot trained on answers alone, with more examples; not every seed gets there."""
    experiment = onehot()
    train = replace(
        experiment.train,
        examples=1_000_000,
        auxiliary=AuxiliaryConfig(),
        curriculum=CurriculumConfig(on=True, gate=0.8, measure="mix"),
    )
    return replace(experiment, train=train)


ROWS = {
    "laptop": {
        "naive": "search-onehot-naive",
        "balanced": "search-onehot",
        "small-lookahead": "search-onehot-small",
        "answers-only": "search-onehot-answers",
    },
    "paper": {"naive": "search-paper-naive", "balanced": "search-paper", "small-lookahead": "search-paper-small"},
}
CONTROL = "untrained"
INPUTS = 50
"""Inputs a cell, model and seed; the paper has 100 of one seed."""

FINDING = "Saparov et al., Figure 5 (n = 128): the smallest legible value of the row, and the control's range"


def bands(lookaheads: int) -> tuple[Expected, ...]:
    """The balanced row lies at 0.92 or more and the control at 0.05 or less, at every lookahead and on naive rows."""
    cells = [("naive", None), *(("lookahead", l) for l in range(1, lookaheads + 1))]
    return tuple(
        Expected(row, axis, value, text, low, high, FINDING)
        for row, text, low, high in (("balanced", "≥ 0.92", 0.92, 1.0), (CONTROL, "≤ 0.05", 0.0, 0.05))
        for axis, value in cells
    )


def explained(
    options: StudyOptions, folder: Path, models: tuple[str, ...], control: bool, at: str
) -> tuple[dict, dict]:
    """Train what is missing and explain it: the `explain --json` object, and the runs by row and seed."""
    from .circuits import Subject
    from .explain import explain_all
    from .explain_plan import plan_for

    presets = ROWS[options.scale]
    chosen(options, presets)
    jobs = train_rows({row: find_preset(presets[row]) for row in models}, options)
    subjects = [
        Subject(label_of(row, seed), str(job.folder.path))
        for row, of_row in jobs.items()
        for seed, job in enumerate(of_row)
    ]
    if control:
        # One control is enough, since nothing of it is ever explained: the start of the first row's first run.
        first = next(iter(jobs.values()))[0]
        subjects.append(Subject(label_of(CONTROL, 0), str(first.folder.path), "untrained"))
    on = "balanced" if at else ""
    asked = ExplainOptions((), on=on, at=at, rows=INPUTS, workers=options.workers, out=folder / "circuits")
    found, _, _ = explain_all(plan_for(asked, Settings(), subjects), options.workers)
    return found, jobs


def label_of(row: str, seed: int) -> str:
    """What a row's model of one seed is called."""
    return f"{row}, seed {seed}"


SHARES = (("explained", "low", "high"), *((key, f"{key}_low", f"{key}_high") for key in ("accuracy", "maximal")))
"""What is averaged over seeds, and the ends of its interval."""


def over_seeds(found: dict[str, Any], row: str, seeds: int) -> list[dict[str, Any]]:
    """A row's cells with means over its seeds and Student's intervals over them (one seed: as they are)."""
    cells = {model["label"]: model["cells"] for model in found["models"]}
    merged = []
    for group in zip(*(cells[label_of(row, seed)] for seed in range(seeds))):
        cell = dict(group[0]) | {"seeds": seeds}
        cell["explained_right"] = sum(one["explained_right"] for one in group) / seeds
        for key, low, high in SHARES if seeds > 1 else ():
            values = [one[key] for one in group if one[key] is not None]
            if values:
                mean, below, above = mean_interval(values)
                cell |= {key: mean, low: max(0.0, below), high: min(1.0, above)}
        merged.append(cell)
    return merged


@study("search-fig5")
def search_fig5(options: StudyOptions) -> dict[str, Any]:
    """How many answers path merging explains, for what a model was trained on (the search paper's Figure 5)."""
    from algoprobe.report import explained as shown

    folder, models = options.out / "search-fig5", options.models or ("naive", "balanced", "small-lookahead")
    found, jobs = explained(options, folder, models, control=True, at="")
    rows = (*models, CONTROL)
    seeds = dict.fromkeys(models, options.seeds) | {CONTROL: 1}
    cells = {row: over_seeds(found, row, seeds[row]) for row in rows}
    results = {
        "study": "search-fig5",
        "scale": options.scale,
        "seeds": options.seeds,
        "rows": [{"trained_on": row, "cells": of_row} for row, of_row in cells.items()],
        "verdicts": verdicts(cells, bands(max(c["value"] or 0 for c in cells[rows[0]])), "explained"),
        **about(jobs),
    }
    tables = [
        shown.matrix_of(cells, "explained", "Share of answers that path merging explains"),
        shown.matrix_of(cells, "maximal", "Share of merges that double the path"),
        shown.matrix_of(cells, "accuracy", "Accuracy on the same inputs"),
        shown.baselines_table(cells),
    ]
    charts = {
        "figure": shown.shares(cells, "explained", "Answers that path merging explains"),
        "maximal": shown.shares(cells, "maximal", "Merges that double the path"),
        "accuracy": shown.shares(cells, "accuracy", "Accuracy on the same inputs"),
    }
    finish(folder, results, tables, charts, options)
    return results


@study("search-directions")
def search_directions(options: StudyOptions) -> dict[str, Any]:
    """In which layers merges run forward from a vertex or backward from the goal (the search paper's A.12)."""
    from algoprobe.report import explained as shown

    folder = options.out / "search-directions"
    models = options.models or ("balanced", "small-lookahead")
    deepest = find_preset(ROWS[options.scale]["balanced"]).make().task.lookahead_max
    # The paper looks at lookahead 9 of 20; a row of the largest lookahead may leave no vertex id to patch with.
    found, jobs = explained(options, folder, models, control=False, at=str(deepest - 1))
    results = {
        "study": "search-directions",
        "scale": options.scale,
        "seeds": options.seeds,
        "lookahead": deepest - 1,
        "rows": found["directions"],
        **about(jobs),
    }
    charts = {
        f"{row}-{seed}-{direction}": shown.directions(found["directions"], label_of(row, seed), direction)
        for row in models
        for seed in range(options.seeds)
        for direction in ("forward", "backward")
    }
    finish(folder, results, [shown.direction_table(found["directions"])], charts, options)
    return results
