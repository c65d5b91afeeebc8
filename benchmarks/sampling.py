"""Rows a second of the search sampler at n = 128 on one core, tokens and right answers included.

The baselines are the original's C++ generators, measured on a shared two-core AMD EPYC with avx512_bf16, whose absolute
promise holds for that machine class only; elsewhere the numbers are printed and `holds` is None.
"""

from __future__ import annotations

import statistics
import time

import numpy as np

from algoprobe.core.machine import machine_class
from algoprobe.tasks.search import SearchConfig, SearchTask

BATCH, REPEATS = 4096, 25
PROMISES = (
    # name, distribution, target, baseline, in rows a second
    ("sampling-balanced", "balanced", 400_000.0, 110_000.0),
    ("sampling-naive", "naive", 250_000.0, 73_000.0),
)


def rows_a_second(distribution: str) -> float:
    """Median over batches of rows per second of processor time, after the kernels are compiled."""
    task = SearchTask(SearchConfig(n=128, distribution=distribution))
    rates = []
    for number in range(REPEATS + 1):
        indices = np.arange(BATCH) + number * BATCH
        began = time.process_time()
        task.sample("train", 0, indices)
        rates.append(BATCH / (time.process_time() - began))
    return statistics.median(rates[1:])


def run() -> list[dict]:
    """The promises `sampling-balanced` and `sampling-naive`."""
    here = machine_class()
    found = []
    for name, distribution, target, baseline in PROMISES:
        value = rows_a_second(distribution)
        # Two names of one processor family: virtual machines leave the model number out.
        promised = here.startswith("AMD EPYC") and here.endswith("with avx512_bf16")
        found.append(
            {
                "name": name,
                "value": value,
                "unit": "rows/s",
                "baseline": baseline,
                "ratio": value / baseline,
                "target": target,
                "holds": value >= target if promised else None,
                "machine": here,
            }
        )
    return found
