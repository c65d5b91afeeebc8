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
    at: str = ""
    """Values of the axis (lookaheads): `4`, `1,3` or `2..5`; empty: every cell."""
    n: int | None = None
    """Input size of the test rows, up to where the model's vertex ids and positions end; None: that of training."""
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
class LensOptions:
    """Open a trained model: what it holds where, what depends on what, and where it looks."""

    kind: tyro.conf.Positional[str]
    """logit, loops, attribution, patch, path, pattern, ablate or probe; for multiplication also digits, swap, tree,
    geometry or fourier."""
    run: tyro.conf.Positional[str]
    """A run folder, or zoo:NAME."""
    on: str = ""
    """Distribution of the test rows; empty: the task's first standard one (probe: the validation rows)."""
    at: int | None = None
    """Which test cell, by its value on the task's axis (search: the lookahead); None: the hardest."""
    rows: int | None = None
    """Rows to take; None: what the lens does in seconds to a minute."""
    loops: int | None = None
    """Number of loops; None: the number in the run's record."""
    sites: str = ""
    """logit, patch, probe: sites or patterns, separated by commas, such as `blocks.*.attn.z`."""
    senders: str = ""
    """path: where paths begin: embed, blocks.i.attn_out, .attn.z or .mlp_out."""
    receivers: str = ""
    """path: where they end: blocks.i.attn_in, .attn.q, .attn.k, .attn.v, .mlp_in, or final."""
    metric: str = ""
    """patch, path: logit_difference (the default) or probability."""
    looking: str = ""
    """pattern: the kind of column that attends; empty: that of the answer."""
    row: int | None = None
    """pattern: show this row, from its last column, instead of means."""
    method: str = ""
    """ablate: mean (the default) or zero."""
    target: str = ""
    """probe: names or patterns of what to read off: answer (the default), axes of the task, facts about columns."""
    json: bool = False
    """Print one JSON object on standard output and nothing else there."""
    out: Path | None = None
    """Folder for results.json, table.md and the heat map as PNG, SVG and HTML."""


@dataclass(frozen=True)
class HaltOptions:
    """Stop looping row by row: accuracy and loops taken under a halting rule, beside the best fixed number of loops."""

    run: tyro.conf.Positional[str]
    """A run folder, or zoo:NAME."""
    on: str = ""
    """Distributions of the test rows, separated by commas; empty: the task's standard ones."""
    at: str = ""
    """Values of the axis (hops, lookaheads): `4`, `1,3` or `2..20`; empty: every cell."""
    n: int | None = None
    """Another input size than that of training, with test rows of its own."""
    rows: int | None = None
    """Test rows a cell; None: 200, or all reserved where they are fewer."""
    most: int | None = None
    """Loops after which a row stops in any case; None: four times the number in the run's record, and at least eight
    more than the largest value asked for."""
    json: bool = False
    """Print one JSON object on standard output and nothing else there."""

    def __post_init__(self) -> None:
        if self.most is not None and not 1 <= self.most <= 1000:
            raise outside("most", self.most, "1 to 1000")

    @property
    def values(self) -> list[int]:
        """`at` as numbers."""
        return parse_numbers("at", self.at, 0) if self.at else []


@dataclass(frozen=True)
class ExplainOptions:
    """Rebuild how a model answers, input by input: which attention matters, on what, and whether paths are merged."""

    runs: tyro.conf.Positional[tuple[str, ...]]
    """Run folders, zoo:NAME, or handmade:path-merger, handmade:most-children, handmade:deepest-subtree."""
    on: str = ""
    """Distributions to take inputs from, separated by commas; empty: the task's standard ones."""
    at: str = ""
    """Values of the axis (lookaheads): `4`, `1,3` or `2..5`; empty: every cell."""
    rows: int = 100
    """Inputs a cell: the first test rows that leave a vertex id to patch with."""
    row: int | None = None
    """Explain this one test row of a single cell and draw it; rows count from 0."""
    control: bool = False
    """Explain an untrained model of the first run's config as well."""
    sensitivity: bool = False
    """Repeat with other thresholds and readings, one changed at a time."""
    draw: int = 1
    """Inputs of each cell to draw."""
    loops: int | None = None
    """Number of loops; None: the number in the run's record."""
    workers: int = 2
    """Processes, one core each. The result does not depend on it."""
    out: Path | None = None
    """Folder of results and drawings; None: runs/explain/DIGEST. What is there already is not computed again."""
    json: bool = False
    """Print one JSON object on standard output and nothing else there."""

    def __post_init__(self) -> None:
        for name, low, high in (("rows", 1, 100_000), ("draw", 0, 1000), ("workers", 1, 1024)):
            if not low <= getattr(self, name) <= high:
                raise outside(name, getattr(self, name), f"{low} to {high}")
        if self.loops is not None and not 1 <= self.loops <= 1000:
            raise outside("loops", self.loops, "1 to 1000")
        if self.row is not None and self.row < 0:
            raise outside("row", self.row, "a number from 0")
        if self.out is not None and self.out == Path():
            raise outside("out", str(self.out), "a folder with a name")


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
    return parse_numbers("loops", text) if text else [default]


def parse_numbers(name: str, text: str, least: int = 1) -> list[int]:
    """`4,8,16..18` as [4, 8, 16, 17, 18], a number that is named twice once; `name` is the field, for errors."""
    found: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"(\d{1,5})(?:\.\.(\d{1,5}))?", part.strip())
        low, high = (int(match[1]), int(match[2] or match[1])) if match else (-1, -1)
        if not least <= low <= high <= MOST_LOOPS:
            raise UsageError(
                f"{name}: {text!r} is not possible; write 8, 4,8,16 or 4..20, with numbers {least} to {MOST_LOOPS}"
            )
        found.extend(range(low, high + 1))
    return list(dict.fromkeys(found))
