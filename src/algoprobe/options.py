"""What each command takes. Imports neither torch nor numba, so that help stays instant."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import tyro

from algoprobe.core.errors import UsageError, outside

MOST_LOOPS = 10_000
"""Largest number of loops to evaluate with."""


@dataclass(frozen=True)
class TrainOptions:
    """How a run is kept. None of these changes its result."""

    out: Path = Path("runs")
    """Folder of all runs; this one goes to OUT/PRESET/DIGEST."""
    run: Path | None = None
    """The run folder itself, instead of a place below OUT."""
    checkpoint_seconds: float = 60.0
    """Seconds between checkpoints."""
    evaluate: bool = True
    """At the end score the reserved test rows, sweep the number of loops, and leave worked examples."""

    def __post_init__(self) -> None:
        if not 0 <= self.checkpoint_seconds < float("inf"):
            raise outside("checkpoint_seconds", self.checkpoint_seconds, "a number from 0")
        if self.run is not None and self.run == Path():
            raise outside("run", str(self.run), "a folder with a name")


@dataclass(frozen=True)
class EvalOptions:
    """Accuracy on reserved test rows, beside chance and the best shortcut on the same rows."""

    run: tyro.conf.Positional[str]
    """A run folder, or zoo:NAME."""
    on: str = ""
    """Distributions to test on, separated by commas; empty: the task's standard ones."""
    rows: int | None = None
    """Test rows in a cell; None: all that are reserved."""
    loops: str = ""
    """Numbers of loops to sweep: `8`, `4,8,16` or `4..20`; empty: the number in the run's record."""
    device: str | None = None
    """Where to compute; None: as in training."""
    json: bool = False
    """Print one JSON object on standard output and nothing else there."""
    save: bool = False
    """Write the result into the run folder, where reports find it."""


@dataclass(frozen=True)
class ReportOptions:
    """A static page (no network) with curves, accuracies, task card, drawn examples and record."""

    runs: tyro.conf.Positional[tuple[str, ...]]
    """Run folders or zoo:NAME; several are shown side by side."""
    out: Path | None = None
    """Folder of the page; None: RUN/report, and below runs/ for several runs or a committed model."""


@dataclass(frozen=True)
class ExportOptions:
    """Copy what others need of a finished run to a folder of its own, small enough to commit."""

    run: tyro.conf.Positional[str]
    """A run folder."""
    target: tyro.conf.Positional[Path]
    """The new folder; zoo/NAME in a checkout makes it `zoo:NAME`."""
    json: bool = False
    """Print one JSON object."""


@dataclass(frozen=True)
class ListOptions:
    """Everything there is: presets, studies, committed models, runs."""

    json: bool = False
    """Print one JSON object."""


@dataclass(frozen=True)
class DoctorOptions:
    """Devices, dtypes, versions, and a tiny model checked against float64."""

    json: bool = False
    """Print one JSON object."""


@dataclass(frozen=True)
class BenchOptions:
    """Each speed promise, measured: a ratio against a baseline taken in the same run wherever one can be run."""

    names: tyro.conf.Positional[tuple[str, ...]] = ()
    """Benchmarks to run; None: all."""
    json: bool = False
    """Print one JSON object."""


def parse_loops(text: str, default: int) -> list[int]:
    """`4,8,16..18` as [4, 8, 16, 17, 18]; an empty text as [default]."""
    if not text:
        return [default]
    found: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"(\d{1,5})(?:\.\.(\d{1,5}))?", part.strip())
        low, high = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
        if not 1 <= low <= high <= MOST_LOOPS:
            raise UsageError(
                f"loops: {text!r} is not possible; write 8, 4,8,16 or 4..20, with numbers 1 to {MOST_LOOPS}"
            )
        found.extend(range(low, high + 1))
    return found
