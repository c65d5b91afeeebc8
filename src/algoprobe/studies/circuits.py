"""Circuits of many inputs: models by name, rows that can be patched, one record for each input, several processes."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import sha256
from typing import Any, Literal

import numpy as np
import torch

from algoprobe.core.config import digest, to_dict
from algoprobe.core.errors import AlgoprobeError, UsageError, nearest
from algoprobe.core.run import find_run
from algoprobe.models.transformer import Transformer
from algoprobe.probes import handmade
from algoprobe.probes.circuits import Circuit, Layout, Settings, Stack, explain, measure
from algoprobe.tasks.search import SearchConfig, SearchTask
from algoprobe.tasks.task import Cell
from algoprobe.training.load import load_run, read_experiment
from algoprobe.training.pool import stop_with_parent

HANDMADE = {
    "path-merger": handmade.path_merger,
    "most-children": handmade.most_children,
    "deepest-subtree": handmade.deepest_subtree,
}
LARGEST = 2**31
"""Bytes that one input's effects may take."""
LONGEST = 60.0
"""Minutes of one core that an input may be estimated to take."""
RATE = 5e10
"""Floating-point operations a second that the estimate reckons with."""


@dataclass(frozen=True)
class Subject:
    """A model to open, by name, so that every process can load it for itself."""

    label: str
    name: str
    kind: Literal["trained", "untrained", "handmade"] = "trained"
    loops: int | None = None

    @property
    def identity(self) -> str:
        """Changes when the model does."""
        if self.kind == "handmade":
            return digest([self.name, self.kind])
        folder = find_run(self.name)
        weights = "" if self.kind == "untrained" else sha256(folder.file("model.safetensors").read_bytes()).hexdigest()
        return digest([to_dict(read_experiment(folder)), weights, self.kind, self.loops])


def subject_for(name: str, loops: int | None) -> Subject:
    """The model of a run folder, `zoo:NAME` or `handmade:NAME`. Raises `UsageError` where it cannot be explained."""
    if name.startswith("handmade:"):
        if name.removeprefix("handmade:") not in HANDMADE:
            allowed = [f"handmade:{known}" for known in HANDMADE]
            raise UsageError(f"run: {name!r} is not known; allowed: {', '.join(allowed)}.{nearest(name, allowed)}")
        if loops is not None:
            raise UsageError(f"loops: {name} has no loops; allowed: none, or only trained runs")
        return Subject(name.removeprefix("handmade:"), name, "handmade")
    folder = find_run(name)
    experiment = read_experiment(folder)
    if experiment.task.kind != "search":
        raise UsageError(f"run: {name} is trained on {experiment.task.kind!r}; allowed: runs of the search task")
    if not folder.has("model.safetensors"):
        raise UsageError(f"run: {name} has no weights yet; allowed: runs that have trained")
    # Of runs/PRESET/DIGEST the preset's name says more.
    path = folder.path.resolve()
    label = path.parent.name if path.name == digest(experiment) else path.name
    # A file name may hold bytes that are no text; what is printed and saved may not.
    return Subject(label.encode("utf-8", "replace").decode(), name, loops=loops)


@lru_cache(maxsize=4)
def opened(subject: Subject) -> tuple[SearchTask, Stack]:
    """The task and the stack of a subject, in float32 on one thread."""
    torch.set_num_threads(1)
    if subject.kind == "handmade":
        task = SearchTask(SearchConfig(n=41))
        build = HANDMADE[subject.name.removeprefix("handmade:")]
        return task, Stack(build("triples", task.config.vertices), 1)
    if subject.kind == "untrained":
        folder = find_run(subject.name)
        experiment = read_experiment(folder)
        task = experiment.task.build()
        # With zero-initialised outputs an untrained model is the identity, and no control at all.
        config = replace(experiment.model, zero_init=False)
        model: Transformer = config.build(task.sizes, experiment.seeds.init)
        return task, Stack(model.eval(), subject.loops or folder.record.get("loops", config.loops))
    run = load_run(subject.name, device="cpu")
    return run.task, Stack(run.model.float(), subject.loops or run.loops)


def rows_for(task: SearchTask, cell: Cell, wanted: int, settings: Settings) -> tuple[list[int], int]:
    """The first test rows whose vertices leave an id to patch with, and how many rows before the last were skipped."""
    graphs = task.test(cell, task.config.test_rows).source
    if settings.replacement == "zero":
        return list(range(min(wanted, len(graphs)))), 0
    free = np.flatnonzero(graphs.vertex_count < graphs.vertices)[:wanted].tolist()
    return free, (free[-1] + 1 - len(free) if free else len(graphs))


def refuse_too_large(stack: Stack, columns: int, name: str) -> None:
    """Raise `UsageError` where the effects of one input would not fit in memory, or take very long."""
    H, T, n, d = stack.heads, stack.steps, columns, stack.width
    size, advice = 8 * 2 * 2 * T * H * H * n**3, "fewer --loops, or a smaller model"
    if size > LARGEST:
        raise UsageError(
            f"run: the effects of one input of {name} ({n} columns, {H} heads, {T} steps) take {size / 2**30:,.0f} "
            f"GiB; allowed: up to {LARGEST / 2**30:.0f} ({advice})"
        )
    # Two perturbations of every weight of every step, each followed by half of the other steps.
    minutes = 2 * H * n**2 * T * (T / 2) * 24 * n * d**2 / RATE / 60
    if minutes > LONGEST:
        raise UsageError(
            f"run: one input of {name} ({n} columns, {H} heads, {T} steps) takes about {minutes:,.0f} minutes of a "
            f"core; allowed: up to {LONGEST:.0f} ({advice})"
        )


def variants(settings: Settings) -> dict[str, Settings]:
    """Other thresholds and readings, one changed at a time, and all the paper's readings together."""
    found = {}
    for name, factors in (("alpha", (0.25, 0.5, 2, 4)), ("kappa1", (0.25, 0.5, 2, 4)), ("kappa2", (0.25, 0.5, 2, 4))):
        for factor in factors:
            value = getattr(settings, name) * factor
            found[f"{name} {value:g}"] = replace(settings, **{name: value})
    paper = {"maxing": "row", "bound": "log-weight", "freeze_relu": True}
    for name, value in (*paper.items(), ("lists", "smaller-filled"), ("replacement", "zero")):
        found[f"{name} {str(value).lower()}"] = replace(settings, **{name: value})
    return found | {"maxing, bound and freeze_relu as in the paper": replace(settings, **paper)}


def explain_row(
    subject: Subject, cell: Cell, row: int, settings: Settings, sensitivity: bool
) -> tuple[dict[str, Any], Circuit]:
    """One input: a record of JSON values, and the circuit itself."""
    task, stack = opened(subject)
    graphs = task.test(cell, task.config.test_rows).source
    layout = Layout.of(graphs, row, task.config.encoding)
    measured = {(settings.maxing, settings.bound): measure(stack, layout, settings)}
    circuit = explain(measured[settings.maxing, settings.bound])
    others = {}
    for name, other in variants(settings).items() if sensitivity else ():
        reading = (other.maxing, other.bound)
        if reading not in measured:
            measured[reading] = measure(stack, layout, other)
        others[name] = explain(measured[reading], other).explained
    record = {
        "label": subject.label,
        "distribution": cell.distribution,
        "axis": cell.axis,
        "value": cell.value,
        "row": row,
        "answer": circuit.answer,
        "correct": circuit.answer in graphs.fields_of(row)["accepted"],
        "explained": circuit.explained,
        "operations": len(circuit.operations),
        "kept": sum(e.kept for e in circuit.operations),
        "merges": circuit.merges,
        "not_maximal": circuit.not_maximal,
        "directions": directions(circuit),
    }
    return record | ({"sensitivity": others} if sensitivity else {}), circuit


def directions(circuit: Circuit) -> list[list[Any]]:
    """[step, direction, distance from the start, distance to the goal] of every merge outside the answer's column.

    Distances are those of the vertex that something is merged into (an edge's source, in `packed`); only vertices on a
    way from start to goal have both.
    """
    layout, found = circuit.layout, []
    from_start = layout.distances(layout.start)
    for e in circuit.operations:
        op = e.operation
        vertex = layout.slot_vertex[layout.slots_per_column * op.destination]
        if e.kept and op.destination != layout.last and vertex:
            before, after = from_start.get(vertex), layout.distances(vertex).get(layout.goal)
            if before is not None and after is not None:
                found.append([op.step, e.direction, before, after])
    return found


@dataclass(frozen=True)
class Work:
    """One input of one model."""

    subject: Subject
    cell: Cell
    row: int
    drawn: bool
    """Whether its circuit is wanted, beside its record."""
    settings: Settings
    sensitivity: bool


def do(work: Work) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """The record of the input, and the circuit as JSON values where it is to be drawn."""
    record, circuit = explain_row(work.subject, work.cell, work.row, work.settings, work.sensitivity)
    return record, circuit.to_dict() if work.drawn else None


def begin_worker(parent: int) -> None:
    """A worker ends with its parent and leaves all signals to it."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    stop_with_parent(signal.SIGKILL)
    if os.getppid() != parent:  # it ended while this process was starting, so that no signal will come
        os._exit(1)


def do_all(works: Sequence[Work], workers: int, stopped: Callable[[], bool]) -> Iterator[tuple[Work, tuple]]:
    """Each work with its result, as they come, until all are done or `stopped()`.

    Raises `AlgoprobeError` when a worker was killed.
    """
    if workers == 1 or len(works) < 2:
        for work in works:
            if stopped():
                return
            yield work, do(work)
        return
    context = multiprocessing.get_context("spawn")
    waiting, running = list(works), {}
    try:
        with ProcessPoolExecutor(min(workers, len(works)), context, begin_worker, (os.getpid(),)) as pool:
            while (waiting and not stopped()) or running:
                while waiting and len(running) < workers and not stopped():
                    work = waiting.pop(0)
                    running[pool.submit(do, work)] = work
                finished: set[Future] = wait(running, timeout=1.0, return_when=FIRST_COMPLETED).done
                for future in finished:
                    yield running.pop(future), future.result()
    except BrokenProcessPool as error:
        if not stopped():
            reason = "a worker process was ended, perhaps for want of memory"
            raise AlgoprobeError(f"{reason}; what was done is saved, and the same command goes on") from error
    except KeyboardInterrupt:
        # The second one: do not wait for what is under way.
        for process in multiprocessing.active_children():
            process.kill()
        raise
