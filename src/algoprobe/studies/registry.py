"""Presets and studies by name. Imports neither torch nor numba, so that listing and help stay instant."""

from __future__ import annotations

import importlib
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from algoprobe.core.config import to_dict
from algoprobe.core.errors import outside, unknown
from algoprobe.training.config import Experiment

MODULES = (
    "search_fig2",
    "search_fig5",
    "search_recipes",
    "search_larger",
    "hops_presets",
    "hops_two",
    "hops_lens",
    "hops_deep",
    "hops_cost",
    "hops_loops",
    "mult_presets",
    "mult_table1",
    "mult_open",
    "mult_tree",
    "mult_geometry",
    "mult_larger",
)

Scale = Literal["laptop", "paper"]


@dataclass(frozen=True)
class Preset:
    """A named experiment."""

    name: str
    scale: Scale
    summary: str
    make: Callable[[], Experiment]


@dataclass(frozen=True)
class StudyOptions:
    """Train what a figure needs (only what is missing), evaluate, draw, and give a verdict."""

    scale: Scale = "laptop"
    """Laptop runs take minutes; paper runs are the paper's own sizes and want a GPU and days."""
    seeds: int = 1
    """Number of seeds; means and intervals are over them."""
    models: tuple[str, ...] = ()
    """Which models to train; None: all of the figure."""
    workers: int = 2
    """Runs trained at once, one core each."""
    out: Path = Path("runs")
    """Folder of all runs."""
    json: bool = False
    """Print one JSON object on standard output and nothing else there."""

    def __post_init__(self) -> None:
        for name, most in (("seeds", 1000), ("workers", 1024)):
            if not 1 <= getattr(self, name) <= most:
                raise outside(name, getattr(self, name), f"1 to {most}")


@dataclass(frozen=True)
class Study:
    """A paper's figure: what to train, what to draw, what to expect."""

    name: str
    summary: str
    run: Callable[[StudyOptions], dict[str, Any]]
    """Trains what is missing, evaluates, writes figure and page, prints and returns the verdict."""


def command_for(preset: Preset, experiment: Experiment) -> str:
    """The command that trains `experiment`: the preset and a flag for every field that differs from it."""

    def flat(values: dict[str, Any], path: str = "") -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, value in values.items():
            found |= flat(value, f"{path}{name}.") if isinstance(value, dict) else {path + name: value}
        return found

    words, before = ["algoprobe", "train", preset.name], flat(to_dict(preset.make()))
    for name, value in flat(to_dict(experiment)).items():
        if value == before.get(name):
            continue
        parent, _, last = name.replace("_", "-").rpartition(".")
        if isinstance(value, bool):
            words.append(f"--{parent}.{'' if value else 'no-'}{last}")
        else:
            words += [f"--{parent}.{last}", *map(str, value if isinstance(value, list) else [value])]
    return shlex.join(words)


PRESETS: dict[str, Preset] = {}
STUDIES: dict[str, Study] = {}


def preset(name: str, scale: Scale) -> Callable:
    """Register the function below as the preset `name`; its docstring's first line is the summary."""

    def register(make: Callable[[], Experiment]) -> Callable[[], Experiment]:
        PRESETS[name] = Preset(name, scale, (make.__doc__ or "").strip().split("\n")[0], make)
        return make

    return register


def study(name: str) -> Callable:
    """Register the function below as the study `name`."""

    def register(run: Callable) -> Callable:
        STUDIES[name] = Study(name, (run.__doc__ or "").strip().split("\n")[0], run)
        return run

    return register


def load() -> None:
    """Import every study, which registers its presets."""
    for module in MODULES:
        importlib.import_module(f"algoprobe.studies.{module}")


def find_preset(name: str) -> Preset:
    """The preset called `name`."""
    load()
    if name not in PRESETS:
        raise unknown("preset", name, sorted(PRESETS))
    return PRESETS[name]


def find_study(name: str) -> Study:
    """The study called `name`."""
    load()
    if name not in STUDIES:
        raise unknown("study", name, sorted(STUDIES))
    return STUDIES[name]
