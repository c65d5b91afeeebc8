"""A run folder as data. Only `config.json` has to be there; a run that still trains lacks the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from algoprobe.core.errors import AlgoprobeError, UsageError
from algoprobe.core.files import read_json, read_json_lines

FILES = {
    "record.json": "the record (versions, machine, task card, leak report)",
    "metrics.jsonl": "the training curves",
    "evaluation.json": "the test accuracies",
    "examples.json": "the worked examples",
}
"""What each file of a run folder gives a report, in words."""


@dataclass(frozen=True)
class RunData:
    """What one run folder holds."""

    folder: Path
    """Where it was read from."""
    preset: str
    """Name of the preset the run was started from."""
    digest: str
    """16 hexadecimal digits that name the resolved config."""
    experiment: dict[str, Any]
    """The resolved config: task, model, train, seeds."""
    record: dict[str, Any] = field(default_factory=dict)
    """`record.json`."""
    training: tuple[dict[str, Any], ...] = ()
    """One dict a logged step: step, examples, loss, accuracy, stage, loops, …"""
    validation: tuple[dict[str, Any], ...] = ()
    """One dict a step and cell: step, examples, axis, value, distribution, accuracy, rows."""
    cells: tuple[dict[str, Any], ...] = ()
    """Test cells at the run's own number of loops: accuracy, low, high, chance, shortcut, rows, seeds, …"""
    sweep: tuple[dict[str, Any], ...] = ()
    """Test cells at other numbers of loops."""
    examples: tuple[dict[str, Any], ...] = ()
    """Worked examples: rows of the task with the model's answer."""
    missing: tuple[str, ...] = ()
    """Files of `FILES` that are not there."""
    scale: str | None = None
    """`laptop` or `paper` where the config says so."""

    @property
    def name(self) -> str:
        """`preset/digest`: where the folder stands below `runs/`."""
        return f"{self.preset}/{self.digest}"

    @property
    def status(self) -> str:
        """`finished`, `interrupted`, `running` as the record says, or `unknown`."""
        return str(self.record.get("status", "unknown"))

    @property
    def task(self) -> dict[str, Any]:
        """The task's part of the config."""
        task = self.experiment.get("task")
        return task if isinstance(task, dict) else {}


def load(folder: str | Path) -> RunData:
    """The run in `folder`.

    Raises `AlgoprobeError`, naming the file, when `config.json` is missing or a file is not what it should be. A torn
    last line of `metrics.jsonl` (a run killed while writing) is skipped. A step that was logged twice, before and
    after a resume, counts once: the later line.
    """
    folder = Path(folder)
    if not (folder / "config.json").exists():
        raise AlgoprobeError(f"{folder / 'config.json'}: no such file, so this is not a run folder.")
    config = _object(folder / "config.json")
    experiment = _part(folder / "config.json", config, "experiment", dict)
    evaluation = _object(folder / "evaluation.json")
    training, validation = _metrics(folder / "metrics.jsonl")
    return RunData(
        folder=folder,
        preset=str(config.get("preset", folder.parent.name)),
        digest=str(config.get("digest", folder.name)),
        experiment=experiment,
        record=_object(folder / "record.json"),
        training=training,
        validation=validation,
        cells=_cells(folder / "evaluation.json", evaluation, "cells"),
        sweep=_cells(folder / "evaluation.json", evaluation, "sweep"),
        examples=_objects(folder / "examples.json"),
        missing=tuple(name for name in FILES if not (folder / name).exists()),
        scale=config.get("scale") or experiment.get("scale"),
    )


def _object(path: Path) -> dict[str, Any]:
    value = read_json(path) if path.exists() else {}
    if not isinstance(value, dict):
        raise AlgoprobeError(f"{path} is damaged: a JSON object is wanted.")
    return value


def _objects(path: Path) -> tuple[dict[str, Any], ...]:
    value = read_json(path) if path.exists() else []
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise AlgoprobeError(f"{path} is damaged: a list of JSON objects is wanted.")
    return tuple(value)


def _part(path: Path, values: dict[str, Any], name: str, kind: type) -> Any:
    part = values.get(name) or kind()
    if not isinstance(part, kind):
        raise AlgoprobeError(f"{path} is damaged: {name} is {part!r}.")
    return part


def _cells(path: Path, values: dict[str, Any], name: str) -> tuple[dict[str, Any], ...]:
    cells = _part(path, values, name, list)
    for cell in cells:
        if not isinstance(cell, dict) or not {"axis", "distribution", "accuracy"} <= cell.keys():
            raise AlgoprobeError(f"{path} is damaged: each of {name} needs axis, distribution and accuracy.")
    return tuple(cells)


def _metrics(path: Path) -> tuple[tuple[dict[str, Any], ...], tuple[dict[str, Any], ...]]:
    training: dict[Any, dict[str, Any]] = {}
    validation: dict[Any, list[dict[str, Any]]] = {}
    for number, line in enumerate(read_json_lines(path), 1):
        if not isinstance(line, dict) or "step" not in line:
            raise AlgoprobeError(f"{path} is damaged: line {number} is not an object with a step.")
        if "validation" in line:
            place = {"step": line["step"], "examples": line.get("examples")}
            validation[line["step"]] = [place | cell for cell in line["validation"]]
        elif "loss" in line:
            training[line["step"]] = line
    steps = sorted(validation)
    return tuple(training[step] for step in sorted(training)), tuple(cell for s in steps for cell in validation[s])


def flatten(values: dict[str, Any], path: str = "") -> dict[str, Any]:
    """`{"task.n": 65, …}`: the leaves of nested dicts under their dotted names."""
    leaves: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, dict) and value:
            leaves |= flatten(value, f"{path}{name}.")
        else:
            leaves[f"{path}{name}"] = value
    return leaves


def differences(runs: Sequence[RunData]) -> dict[str, list[Any]]:
    """The config fields in which `runs` differ, each with its value in every run (None where it has no such field)."""
    flat = [flatten(run.experiment) for run in runs]
    names = list(dict.fromkeys(name for fields in flat for name in fields))
    rows = {name: [fields.get(name) for fields in flat] for name in names}
    return {name: row for name, row in rows.items() if any(value != row[0] for value in row)}


def by_label(runs: Sequence[RunData]) -> dict[str, RunData]:
    """`runs` under short names that say what differs: `trained on balanced, seed 1`.

    One run is named by its preset. So are several whose configs differ in more than three things, if the presets
    tell them apart. Where two names would be equal the digest is added.
    """
    differing = differences(runs)
    parts: list[list[str]] = [[] for _ in runs]
    seeds = [name for name in differing if name.startswith("seeds.")]
    together = len(seeds) > 1 and all(len({differing[name][i] for name in seeds}) == 1 for i in range(len(runs)))
    for name, values in differing.items():
        if together and name in seeds[1:]:
            continue
        for part, value in zip(parts, values):
            part.append(_phrase(name, value, together))
    presets = [run.preset for run in runs]
    short = all(1 <= len(part) <= 3 for part in parts)
    names = [", ".join(part) for part in parts] if short else presets
    labels = [n if names.count(n) == 1 else f"{n} ({run.digest[:6]})" for n, run in zip(names, runs)]
    if len(set(labels)) < len(labels):
        raise UsageError(f"runs: the same run is named twice: {', '.join(run.name for run in runs)}.")
    return dict(zip(labels, runs))


def _phrase(name: str, value: Any, together: bool) -> str:
    if name in ("task.distribution", "task.setting"):
        return f"trained on {value}"
    group, _, leaf = name.rpartition(".")
    if group == "seeds":
        return f"seed {value}" if together else f"{leaf} seed {value}"
    return f"{leaf.replace('_', ' ')} {'none' if value is None else value}"
