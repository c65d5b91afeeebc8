"""Which parts of a training recipe make a small transformer learn search: one added at a time, one taken away.

Laptop scale: graphs of up to 20 vertices (n = 65), trained on lookahead 1 to 6 and tested to 9, so that one run shows
how fast a recipe learns, how far it gets, and whether more loops carry it beyond what it was trained on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from algoprobe.core.run import RunFolder
from algoprobe.core.statistics import mean_interval
from algoprobe.training.config import AuxiliaryConfig, CurriculumConfig, Experiment, LoopsConfig, OptimiserConfig

from .comparison import cells_of, changed, check_logs, chosen, finish, laptop_only, merge_seeds, train_rows
from .registry import Preset, StudyOptions, preset, study
from .search_fig2 import demo, paper

if TYPE_CHECKING:
    from algoprobe.training.pool import Job

SOLVED = 0.95
"""Held-out accuracy at every trained lookahead from which a run counts as having learned the task."""


def best() -> Experiment:
    """The recipe that the rows are compared with; all its parts are switched off one by one below."""
    experiment = demo()
    return replace(
        experiment,
        task=replace(experiment.task, lookahead=6, naive_share=0.15),
        model=replace(experiment.model, embedding="names", combine="concatenate", output="tied", feedforward=1.0),
        train=replace(
            experiment.train,
            examples=40_000,
            batch=64,
            optimiser=OptimiserConfig(name="adamw", lr=4e-3, weight_decay=0.1),
            warmup=6_400,
            decay=0.5,
            # A look costs as much as a step and a half; looking often is cheaper than waiting for the next look.
            curriculum=CurriculumConfig(on=True, gate=0.8, measure="mix", every=10),
            auxiliary=AuxiliaryConfig(target="steps_to_goal", weight=4.0),
            validate_every=2_000,
        ),
    )


@preset("search-recipes", "laptop")
def search_recipes_preset() -> Experiment:
    """The best recipe of the study search-recipes: 20 vertices, lookahead up to 6, a minute on one core."""
    return best()


@dataclass(frozen=True)
class Recipe:
    """A row of the study."""

    group: Literal["ladder", "without", "instead"]
    """`ladder`: the row before, and one part more. `without`: the best less one part. `instead`: one part exchanged."""
    text: str
    """What is added, missing, or there instead."""
    experiment: Experiment


def ladder() -> dict[str, Recipe]:
    """The paper's recipe, then one part of the best after the other on top of it, up to the best itself."""
    start, end = paper(), best()
    budget = {name: getattr(end.train, name) for name in ("examples", "validate_every")}
    experiment = replace(start, task=replace(end.task, encoding="triples"))
    experiment = changed(experiment, train=budget | {"chunks": 1})
    found = {"paper": Recipe("ladder", "the paper's model and optimiser", experiment)}

    def add(name: str, text: str, **parts: dict[str, Any]) -> None:
        nonlocal experiment
        experiment = changed(experiment, **parts)
        found[name] = Recipe("ladder", text, experiment)

    optimiser = ("batch", "optimiser", "schedule", "warmup", "decay", "clip")
    add("+adamw", "AdamW, batches of 64, decay", train={name: getattr(end.train, name) for name in optimiser})
    add("+curriculum", "gated curriculum over lookahead", train={"curriculum": end.train.curriculum})
    add("+zero-init", "blocks start as the identity", model={"zero_init": True})
    body = {name: getattr(end.model, name) for name in end.model.__dataclass_fields__ if name not in LOOPED}
    add("+packed", "a token an edge, learned embeddings, four heads", task={"encoding": "packed"}, model=body | TABLES)
    add("+names", "one vector a name in all its roles", model={name: getattr(end.model, name) for name in TABLES})
    add(
        "+loops",
        "one block applied again and again: the best without its auxiliary loss",
        model={name: getattr(end.model, name) for name in LOOPED},
        train={"loops": end.train.loops},
    )
    add("best", "auxiliary loss: steps to the goal", train={"auxiliary": end.train.auxiliary})
    return found


TABLES = {"embedding": "learned", "combine": "sum", "output": "linear"}
"""Embeddings without names: a table of its own for each end of an edge and of the query, and an output matrix."""
LOOPED = ("layers", "loops", "inject", "outer_norm")
"""What makes a stack of blocks a loop."""


def untied(layers: int, experiment: Experiment) -> Experiment:
    """`experiment` with `layers` blocks of their own in place of one that is applied again."""
    model = {"layers": layers, "loops": 1, "inject": False, "outer_norm": False}
    return changed(experiment, model=model, train={"loops": LoopsConfig()})


def without() -> dict[str, Recipe]:
    """The best recipe with one part taken away."""
    end, deepest = best(), best().task.lookahead_max
    rows = {
        "no-curriculum": ("all lookaheads from the start", {"curriculum": {"on": False}}),
        "no-random-loops": ("always 8 loops", {"model": {"loops": deepest + 2}, "train": {"loops": LoopsConfig()}}),
        "no-injection": ("input enters the first loop only", {"model": {"inject": False}}),
        "no-outer-norm": ("no norm between loops", {"model": {"outer_norm": False}}),
        "no-zero-init": ("blocks start at random", {"model": {"zero_init": False}}),
        "no-decay": ("constant learning rate", {"train": {"schedule": "constant"}}),
        "no-naive": ("balanced rows alone", {"task": {"naive_share": 0.0}}),
        "no-heads": ("one head", {"model": {"heads": 1}}),
    }
    found = {name: Recipe("without", text, changed(end, **parts)) for name, (text, parts) in rows.items()}
    found["no-loops"] = Recipe("without", "8 blocks of their own", untied(deepest + 2, end))
    found["no-names"] = Recipe("without", "a table for each end of an edge", changed(end, model=TABLES))
    triples = {"position": "learned", "embedding": "learned", "combine": "sum"}
    found["no-packed"] = Recipe(
        "without", "three tokens an edge", changed(end, task={"encoding": "triples"}, model=triples)
    )
    return found


def instead() -> dict[str, Recipe]:
    """The best recipe with one part exchanged for another."""
    end = best()
    rows = {
        "muon": ("Muon for AdamW", {"optimiser": {"name": "muon", "lr": 0.01}}),
        "weight-1": ("auxiliary weight 1 for 4", {"auxiliary": {"weight": 1.0}}),
        "doubling": ("within 2^(r-1) steps after loop r", {"auxiliary": {"growth": "doubling"}}),
        "last": ("auxiliary loss after the last loop alone", {"auxiliary": {"growth": "last"}}),
        "gate-0.95": ("gate 0.95 on the newest lookahead", {"curriculum": {"gate": 0.95, "measure": "newest"}}),
        "poisson": ("loops from a clipped Poisson", {"loops": {"draw": "poisson", "low": 1, "high": 12, "mean": 3.0}}),
        "every-loop": ("the answer counts after every loop", {"loops": {"loss": "every"}}),
        "from-difficulty": ("… from the row's lookahead on", {"loops": {"loss": "from-difficulty"}}),
        "goals": ("four goals a graph", {"task": {"goals": 4}}),
        "along-path": ("half of the goals moved along the path", {"task": {"along_path": 0.5}}),
        "ids": ("40 names for 20 vertices", {"task": {"ids": 40}}),
        "grow": ("graphs grow with the curriculum", {"task": {"grow": 3.0}}),
        "embedding": ("embedding channel beside the state", {"model": {"recurrence": "embedding"}}),
        "reset": ("embedding channel alone", {"model": {"recurrence": "reset", "outer_norm": False}}),
        "width-128": ("twice the width", {"model": {"width": 128}}),
        "sum": ("ends of an edge added, not side by side", {"model": {"combine": "sum"}}),
        "feedforward-4": ("four times the feed-forward layer", {"model": {"feedforward": 4.0}}),
        "lr-2e-3": ("half the learning rate", {"optimiser": {"lr": 2e-3}}),
        "lr-8e-3": ("twice the learning rate", {"optimiser": {"lr": 8e-3}}),
        "batch-128": ("twice the batch", {"train": {"batch": 128}, "curriculum": {"every": 5}}),
    }
    found = {name: Recipe("instead", text, changed(end, **parts)) for name, (text, parts) in rows.items()}
    onehot = ladder()["+zero-init"].experiment
    onehot = changed(onehot, train={"auxiliary": end.train.auxiliary}, optimiser={"name": "muon", "lr": 0.01})
    found["onehot"] = Recipe("instead", "the paper's model: Muon, curriculum, auxiliary loss", onehot)
    return found


def recipes() -> dict[str, Recipe]:
    """All rows by name."""
    return ladder() | without() | instead()


def solved(folder: RunFolder, lookaheads: range) -> tuple[int, float] | None:
    """Examples and processor seconds at the first validation with `SOLVED` at every one of `lookaheads`, if any."""
    seconds = 0.0
    for line in folder.metrics:
        seconds = line.get("cpu_seconds", seconds)
        found = {cell["value"]: cell["accuracy"] for cell in line.get("validation", ())}
        if found and all(found.get(value, 0.0) >= SOLVED for value in lookaheads):
            return line["examples"], seconds
    return None


def reach(cells: Sequence[dict[str, Any]]) -> int:
    """The largest lookahead up to which every lookahead is answered at `SOLVED` or better."""
    accuracy = {cell["value"]: cell["accuracy"] for cell in cells if cell["axis"] == "lookahead"}
    return next((value - 1 for value in sorted(accuracy) if accuracy[value] < SOLVED), max(accuracy))


TIMES = (1.0, 1.5, 2.0, 4.0)
"""Numbers of loops at test time, in recommended ones."""


def beyond(folder: RunFolder, trained: int) -> dict[str, float]:
    """Mean accuracy over the lookaheads beyond `trained` at each of `TIMES` the run's own number of loops, if swept."""
    scored, found = folder.read("evaluation.json"), {}
    loops = scored["cells"][0]["loops"]
    for cell in [*scored["cells"], *scored.get("sweep", ())]:
        if cell["axis"] == "lookahead" and cell["value"] > trained:
            # The sweep has the recommended number of loops again, on fewer rows.
            found.setdefault(cell["loops"], {}).setdefault(cell["value"], cell["accuracy"])
    # Of an untied model there is its one depth.
    wanted = {f"{times:g}": -(-round(4 * times) * loops // 4) for times in TIMES}
    return {key: sum(found[count].values()) / len(found[count]) for key, count in wanted.items() if count in found}


def summary(values: Sequence[float]) -> dict[str, Any]:
    """Mean over seeds with Student's interval, and each value."""
    mean, low, high = mean_interval(values)
    return {"mean": mean, "low": low, "high": high, "values": list(values)}


def measured(jobs: Sequence[Job]) -> dict[str, Any]:
    """What one recipe's runs say, over their seeds."""
    folders, task = [job.folder for job in jobs], jobs[0].experiment.task
    check_logs(jobs)
    trained = range(1, task.lookahead_max + 1)
    when = [solved(folder, trained) for folder in folders]
    cells = [cells_of(folder) for folder in folders]
    merged = merge_seeds(cells)
    far = [beyond(folder, task.lookahead_max) for folder in folders]
    got = [examples for examples, _ in filter(None, when)]
    found = {
        "budget": folders[0].record["examples"],
        "parameters": folders[0].record["parameters"],
        "solved": [None if one is None else one[0] for one in when],
        "solved_cpu_seconds": [None if one is None else one[1] for one in when],
        "examples": summary(got) if len(got) == len(when) else None,
        "cpu_seconds": summary([seconds for _, seconds in filter(None, when)]) if len(got) == len(when) else None,
        "run_cpu_seconds": summary([folder.record["cpu_seconds"] for folder in folders]),
        "reach": summary([reach(of_seed) for of_seed in cells]),
        "worst": summary([min(c["accuracy"] for c in of_seed if c["value"] in trained) for of_seed in cells]),
        "beyond": {key: summary([of[key] for of in far]) for key in far[0]},
        "chance_beyond": mean_interval([c["chance"] for c in merged if (c["value"] or 0) > task.lookahead_max])[0],
    }
    return found | {"cells": merged}


@study("search-recipes")
def search_recipes(options: StudyOptions) -> dict[str, Any]:
    """What makes a small transformer learn search: parts of the recipe added and taken away one by one."""
    from algoprobe.report import recipes as shown

    laptop_only(options)
    rows = recipes()
    rows = {name: rows[name] for name in chosen(options, rows)}
    presets = {
        name: Preset("search-recipes", "laptop", recipe.text, lambda recipe=recipe: recipe.experiment)
        for name, recipe in rows.items()
    }
    jobs = train_rows(presets, options)
    results = {
        "study": "search-recipes",
        "scale": "laptop",
        "seeds": options.seeds,
        "rows": [
            {"recipe": name, "group": recipe.group, "change": recipe.text} | measured(jobs[name])
            for name, recipe in rows.items()
        ],
        "machine": next(iter(jobs.values()))[0].folder.record["machine"]["class"],
    }
    charts = {"figure": shown.cost(results["rows"]), "beyond": shown.beyond(results["rows"])}
    finish(options.out / "search-recipes", results, shown.tables(results["rows"]), charts, options)
    return results
