"""Circuits of the one-hot model, against one full forward pass for each perturbation and each patch.

The baseline is what the method costs when nothing is shared: passes one at a time, without the hooks and book-keeping
that a real one-at-a-time version needs on top. Recording every site of a forward pass is measured beside it.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode

from algoprobe.core.machine import keep_freed_memory, machine_class
from algoprobe.probes.circuits import Layout, Settings, Stack, explain, measure
from algoprobe.probes.edit import edit
from algoprobe.probes.record import record
from algoprobe.tasks.task import Cell
from algoprobe.training.load import load_run

MODEL = "zoo:search-onehot"
LOOKAHEADS = (2, 4)
"""One input of each; a baseline takes about half a minute an input."""
TIMES, FEWER, RECORDING = 5.0, 2.5, 1.3


def cpu_seconds(work: Callable[[], object]) -> float:
    """Processor time of one call."""
    began = time.process_time()
    work()
    return time.process_time() - began


def flops_of(work: Callable[[], object]) -> int:
    """Floating-point operations of the matrix products of one call."""
    with FlopCounterMode(display=False) as counter:
        work()
    return counter.get_total_flops()


def passes(stack: Stack, layout: Layout) -> int:
    """Forward passes of the plain version: two for each weight of each step, and one for each feature."""
    weights = stack.steps * stack.heads * layout.columns**2
    return 2 * weights + len(layout.features(Settings(), positions=True))


def recording_ratio(run, rows: int = 128) -> float:
    """Processor time of a forward pass that records every site, over that of a plain one; medians of ten."""
    batch = run.task.test(run.task.cells()[-1], rows)
    tokens, lengths = torch.from_numpy(batch.tokens.astype(np.int64)), torch.from_numpy(batch.lengths.astype(np.int64))
    sites = [name for name, module in run.model.named_modules() if type(module).__name__ == "Tap"]

    def plain() -> None:
        run.model(tokens, lengths)

    def recording() -> None:
        with record(run.model, sites):
            run.model(tokens, lengths)

    with torch.inference_mode():
        plain(), recording()
        pairs = [(cpu_seconds(plain), cpu_seconds(recording)) for _ in range(10)]
    return statistics.median(r for _, r in pairs) / statistics.median(p for p, _ in pairs)


def bits_kept(run) -> bool:
    """Whether replacing a site by its own value changes no bit of the logits."""
    batch = run.task.test(run.task.cells()[0], 16)
    tokens, lengths = torch.from_numpy(batch.tokens.astype(np.int64)), torch.from_numpy(batch.lengths.astype(np.int64))
    with torch.inference_mode():
        before = run.model(tokens, lengths)
        with record(run.model, ["blocks.2.resid_post"]) as kept:
            run.model(tokens, lengths)
        with edit(run.model, {("blocks.2.resid_post", 0): lambda x: kept["blocks.2.resid_post", 0]}):
            after = run.model(tokens, lengths)
    return bool(torch.equal(before, after))


def run() -> list[dict]:
    """The promises `circuits-time`, `circuits-flops`, `circuits-input`, `record-every-site` and `patch-own-value`."""
    torch.set_num_threads(1)
    keep_freed_memory()  # as every command does
    trained = load_run(MODEL, device="cpu")
    stack, task = Stack(trained.model.float(), trained.loops), trained.task
    ours, plain, work, plain_work = 0.0, 0.0, 0, 0
    for lookahead in LOOKAHEADS:
        graphs = task.test(Cell("lookahead", lookahead, "balanced"), 100).source
        row = int(np.flatnonzero(graphs.vertex_count < graphs.vertices)[0])
        layout = Layout.of(graphs, row, task.config.encoding)
        tokens, lengths = torch.from_numpy(layout.tokens)[None], torch.tensor([layout.columns])
        count = passes(stack, layout)

        def one_at_a_time(tokens=tokens, lengths=lengths, count=count) -> None:
            with torch.inference_mode():
                for _ in range(count):
                    trained.model(tokens, lengths)

        def one_pass(tokens=tokens, lengths=lengths) -> None:
            trained.model(tokens, lengths)

        def batched(layout=layout) -> None:
            explain(measure(stack, layout, Settings()))

        batched()
        ours += cpu_seconds(batched)
        plain += cpu_seconds(one_at_a_time)
        work += flops_of(batched)
        plain_work += count * flops_of(one_pass)
    here, found = machine_class(), []

    def promise(name: str, value: float, unit: str, baseline: float, ratio: float, target: float, holds: bool) -> None:
        found.append(
            {
                "name": name,
                "value": value,
                "unit": unit,
                "baseline": baseline,
                "ratio": ratio,
                "target": target,
                "holds": holds,
                "machine": here,
            }
        )

    n = len(LOOKAHEADS)
    promise("circuits-time", ours / n, "CPU s/input", plain / n, plain / ours, TIMES, plain / ours >= TIMES)
    fewer = plain_work / work
    promise("circuits-flops", work / n / 1e9, "GFLOP/input", plain_work / n / 1e9, fewer, FEWER, fewer >= FEWER)
    share = recording_ratio(trained)
    promise("record-every-site", share, "plain forward", 1.0, share, RECORDING, share <= RECORDING)
    kept = bits_kept(trained)
    promise("patch-own-value", float(not kept), "bits changed", 0.0, float(not kept), 0.0, kept)
    return found
