"""Circuits of many inputs: models by name, rows that can be patched, one record for each input, several processes."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import sha256
from typing import Any, Literal

import numpy as np
import torch

from algoprobe.core.config import digest, to_dict
from algoprobe.core.errors import UsageError, nearest
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
AT_ONCE = 4
"""Inputs that a worker takes at a time."""
LARGEST = 2**31
"""Bytes that one input's effects may take."""


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
    return Subject(label, name, loops=loops)


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


def cells_for(task: SearchTask, on: tuple[str, ...], values: Sequence[int]) -> list[Cell]:
    """The test cells of some distributions, at some values of their axis (none given: all)."""
    cells = task.cells(on)
    if not values:
        return cells
    known = sorted({cell.value for cell in cells if cell.value is not None})
    for value in values:
        if value not in known:
            raise UsageError(f"at: {value} is not possible; allowed: {', '.join(map(str, known))}")
    return [cell for cell in cells if cell.value in values]


def rows_for(task: SearchTask, cell: Cell, wanted: int, settings: Settings) -> tuple[list[int], int]:
    """The first test rows whose vertices leave an id to patch with, and how many rows before the last were skipped."""
    graphs = task.test(cell, task.config.test_rows).source
    if settings.replacement == "zero":
        return list(range(min(wanted, len(graphs)))), 0
    free = np.flatnonzero(graphs.vertex_count < graphs.vertices)[:wanted].tolist()
    return free, (free[-1] + 1 - len(free) if free else len(graphs))


def refuse_too_large(stack: Stack, columns: int) -> None:
    """Raise `UsageError` where the effects of one input would not fit in memory."""
    H, T = stack.heads, stack.steps
    size = 8 * 2 * 2 * T * H * H * columns**3
    if size > LARGEST:
        raise UsageError(
            f"run: the effects of one input of {columns} columns, {H} heads and {T} steps take {size / 2**30:.0f} GiB; "
            f"allowed: up to {LARGEST / 2**30:.0f} GiB (fewer --loops, or a smaller model)"
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
    refuse_too_large(stack, layout.columns)
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
    """Some inputs of one subject and cell."""

    subject: Subject
    cell: Cell
    rows: tuple[int, ...]
    drawn: tuple[int, ...]
    settings: Settings
    sensitivity: bool


def do(work: Work) -> list[tuple[dict[str, Any], dict[str, Any] | None]]:
    """The record of each input, and the circuit as JSON values where it is to be drawn."""
    found = []
    for row in work.rows:
        record, circuit = explain_row(work.subject, work.cell, row, work.settings, work.sensitivity)
        found.append((record, circuit.to_dict() if row in work.drawn else None))
    return found


def begin_worker() -> None:
    """A worker lives no longer than its parent, and leaves Ctrl-C to it."""
    stop_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def do_all(works: Sequence[Work], workers: int, stopped: Callable[[], bool]) -> Iterator[tuple[Work, list]]:
    """Each work with its result, as they come, until all are done or `stopped()`."""
    if workers == 1 or len(works) < 2:
        for work in works:
            if stopped():
                return
            yield work, do(work)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(workers, len(works)), context, begin_worker) as pool:
        waiting, running = list(works), {}
        while (waiting and not stopped()) or running:
            while waiting and len(running) < workers and not stopped():
                work = waiting.pop(0)
                running[pool.submit(do, work)] = work
            finished: set[Future] = wait(running, timeout=1.0, return_when=FIRST_COMPLETED).done
            for future in finished:
                yield running.pop(future), future.result()
