"""Halting on the deep hops model: wall-clock of stopping row by row, against the best fixed number of loops.

Both answer the same rows, a mix of 2 to 20 hops, 128 rows at a time; the baseline knows the one number of loops that is
best for the mix and pays for no read-out on the way.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np

from algoprobe.core.machine import machine_class
from algoprobe.probes.halting import Halted, answer_adaptively
from algoprobe.probes.halting_settings import Halting
from algoprobe.probes.inputs import Inputs
from algoprobe.studies.halting import best_fixed
from algoprobe.training.evaluation import evaluate, open_run
from algoprobe.training.forward import Arithmetic, answers

MODEL, HOPS, ROWS, MOST = "zoo:hops-deep", range(2, 21), 100, 32
RULES = (Halting("kl-entropy", entropy=0.5), Halting("confidence"))
SAVED, WITHIN = 0.35, 0.005
"""Share of loops that a rule saves at least, and the accuracy that it may lose."""


def seconds(work: Callable[[], object]) -> float:
    """Median wall time of three calls after one to warm up."""
    work()
    found = []
    for _ in range(3):
        began = time.perf_counter()
        work()
        found.append(time.perf_counter() - began)
    return statistics.median(found)


def run() -> list[dict]:
    """The promises: loops saved at equal accuracy, and wall-clock."""
    opened = open_run(MODEL)
    task, arithmetic = opened.task, Arithmetic(opened.arithmetic.device, "float32", opened.arithmetic.attention)
    cells = [cell for cell in task.cells() if cell.axis == "hops" and cell.value in HOPS]
    loops, accuracy = best_fixed(evaluate(opened.model, task, cells, ROWS, arithmetic, range(1, MOST + 1)))
    batches = [task.test(cell, ROWS) for cell in cells]
    inputs, here, found = [Inputs.of(batch, opened.model) for batch in batches], machine_class(), []

    def at_fixed() -> None:
        for batch in batches:
            answers(opened.model, batch, arithmetic, loops)

    def adaptively(halting: Halting) -> list[Halted]:
        return [answer_adaptively(opened.model, of_cell, halting, MOST) for of_cell in inputs]

    fixed = seconds(at_fixed)

    def promise(name: str, value: float, unit: str, baseline: float, ratio: float, target: float, holds: bool) -> None:
        found.append(
            {"name": name, "value": value, "unit": unit, "baseline": baseline, "ratio": ratio, "target": target}
            | {"holds": holds, "machine": here}
        )

    for halting in RULES:
        given = adaptively(halting)
        right = float(np.mean([task.grade(b, g.answers).mean() for b, g in zip(batches, given)]))
        taken = float(np.mean([g.loops.mean() for g in given]))
        saved, took = 1 - taken / loops, seconds(lambda h=halting: adaptively(h))
        holds = saved >= SAVED and right >= accuracy - WITHIN
        promise(f"halting-loops-{halting.rule}", taken, "loops/row", loops, saved, SAVED, holds)
        promise(f"halting-time-{halting.rule}", took, "s", fixed, fixed / took, 1.0, took < fixed)
    return found
