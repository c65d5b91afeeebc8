"""A few steps on rows of one difficulty alone, from a trained run's weights; nothing is written."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from algoprobe.tasks.task import Task

from .load import TrainedRun
from .objective import first_loops
from .optimisers import build
from .step import update

FACTOR = 0.05


def fine_tune(run: TrainedRun, task: Task, difficulty: int, steps: int, loops: int) -> None:
    """Train the run's model `steps` steps on training rows of `task` that have this difficulty, at `loops` loops.

    Optimiser and batch are the run's own; the optimiser's state is new, its learning rate `FACTOR` of the largest: at
    all of it, and without a warm-up, the first steps undo what the run has learned. Source: *Loop, Think, & Generalize*
    (arXiv 2604.07822), §6.
    """
    config, seed = replace(run.experiment.train, chunks=1), run.experiment.seeds.data
    optimisers = build(config.optimiser, run.model, None)
    run.model.train()
    place = 0
    for step in range(steps):
        found: list[int] = []
        while len(found) < config.batch:
            drawn = task.sample("train", seed, np.arange(place, place + 4 * config.batch))
            found += drawn.index[drawn.axes[task.stage_axis] == difficulty].tolist()
            place += 4 * config.batch
        batch = task.sample("train", seed, np.array(found[: config.batch]))
        first = first_loops(config.loops, batch, task.stage_axis)
        update(run.model, optimisers, batch, loops, FACTOR, config, run.arithmetic, step, seed, None, None, first)
    run.model.eval()
