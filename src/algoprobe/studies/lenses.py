"""The general lenses on one run: take rows, apply a lens, table and heat map."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from algoprobe.core.errors import UsageError, outside, unknown
from algoprobe.core.files import write_json, write_text
from algoprobe.options import LensOptions
from algoprobe.probes.ablation import ablation
from algoprobe.probes.attribution import logit_attribution, strongest_wrong
from algoprobe.probes.inputs import Inputs, answer_logits
from algoprobe.probes.lens import logit_lens
from algoprobe.probes.linear_probe import FEWEST, linear_probe
from algoprobe.probes.patching import activation_patching, matrix
from algoprobe.probes.path_patching import RECEIVERS, SENDERS, Node, path_patching, time_of
from algoprobe.probes.patterns import column_rows, pattern_rows
from algoprobe.report.figures import save_all
from algoprobe.report.lenses import heat_map, matrix_table, rows_table
from algoprobe.report.tables import Table
from algoprobe.tasks.batch import Batch
from algoprobe.tasks.openable import Openable, Pair
from algoprobe.tasks.task import Cell, Task
from algoprobe.training.evaluation import open_run

PRINTED = 8
"""Columns of numbers that a terminal holds beside their names."""
STRONGEST = 20
"""Rows of a table that stands for a matrix too wide to print."""
MOST_SAMPLED = 100_000


@dataclass(frozen=True)
class View:
    """How the rows of a lens are shown."""

    title: str
    note: str
    down: str
    across: str
    value: str
    columns: tuple[str, ...] = ()
    """Fields of a table of rows; empty: a matrix is the table."""
    signed: bool = False
    table: tuple[str, str] | None = None
    """(down, across) of the table's matrix where it is not the heat map's."""


@dataclass(frozen=True)
class Subject:
    """A model and the rows it is opened on."""

    model: nn.Module
    task: Task
    batch: Batch
    inputs: Inputs
    loops: int
    options: LensOptions

    def split_option(self, name: str, default: str) -> list[str]:
        """A comma-separated option as a list, or its default."""
        return [part.strip() for part in (getattr(self.options, name) or default).split(",") if part.strip()]

    def paired(self) -> tuple[Inputs, Inputs, Pair]:
        """Clean and corrupted rows. Raises `UsageError` when the task has no partners to offer."""
        if not isinstance(self.task, Openable):
            raise UsageError(
                f"kind: {self.options.kind!r} needs corrupted partners, which {self.task.name} has none of"
            )
        pair = self.task.pair(self.batch)
        return Inputs.of(pair.clean, self.model), Inputs.of(pair.corrupted, self.model), pair


Found = tuple[list[dict[str, Any]], View]


def logit(subject: Subject) -> Found:
    """What each residual stream would answer."""
    sites = subject.split_option("sites", "embed,blocks.*.resid_mid,blocks.*.resid_post")
    rows = logit_lens(subject.model, subject.inputs, sites, subject.loops)
    note = "Accuracy when the stack ends here: the site's residual stream through the final norm and the output."
    columns = ("site", "loop", "accuracy", "95 %", "log_probability", "agreement")
    return rows, View("Logit lens", note, "site", "loop", "accuracy", columns)


def attribution(subject: Subject) -> Found:
    """What each component adds to the target's logit over that of the strongest wrong class."""
    model, inputs = subject.model, subject.inputs
    if not bool(inputs.counted[:, -1].all()):
        raise UsageError("rows: one of them has no target at its last column, so there is no logit to take apart")
    against = strongest_wrong(answer_logits(model, inputs, subject.loops), inputs)
    rows = logit_attribution(model, inputs, inputs.targets[:, -1], against, loops=subject.loops)
    order = list(dict.fromkeys(row["component"] for row in rows))
    rows.sort(key=lambda row: (order.index(row["component"]), row["loop"]))
    total = rows[0]["logit"]
    note = f"The terms of logit[target] - logit[strongest wrong class], on average {total:.2f}: all cells sum to it."
    return rows, View("Direct logit attribution", note, "component", "loop", "contribution", signed=True)


def patch(subject: Subject) -> Found:
    """How much of the clean answer one site's clean value brings back."""
    clean, corrupted, pair = subject.paired()
    groups = {name: torch.from_numpy(mask).to(clean.tokens.device) for name, mask in pair.columns.items()}
    groups = {name: mask for name, mask in groups.items() if bool(mask.any())}
    sites, metric = subject.split_option("sites", "blocks.*.resid_post"), subject.options.metric or "logit_difference"
    rows = activation_patching(subject.model, clean, corrupted, sites, subject.loops, groups, metric)
    several = len({row["site"] for row in rows}) > 1
    for row in rows:
        head = "" if row["head"] is None else f"head {row['head']}, "
        row["patched"] = (f"{row['site']}, " if several else "") + head + row["columns"]
    name = metric.replace("_", " ").capitalize()
    note = f"{name}: 0 as in the corrupted run, 1 as in the clean run; {len(clean)} pairs."
    where = "several sites" if several else rows[0]["site"]
    return rows, View(f"Activation patching at {where}", note, "patched", "loop", "effect")


def path(subject: Subject) -> Found:
    """How much is lost along single paths between components."""
    clean, corrupted, _ = subject.paired()
    metric = subject.options.metric or "logit_difference"
    ends = [
        nodes(subject, name, parts, alone, default)
        for name, parts, alone, default in (
            ("senders", SENDERS, "embed", "embed,blocks.*.attn_out,blocks.*.mlp_out"),
            ("receivers", RECEIVERS, "final", "blocks.*.attn_in,blocks.*.mlp_in,final"),
        )
    ]
    rows = path_patching(subject.model, clean, corrupted, *ends, subject.loops, metric)
    if not rows:
        raise UsageError("receivers: none of them computes after a sender")
    for row in rows:
        for end in ("sender", "receiver"):
            alone = row[end] in ("embed", "final")
            row[f"{end}_at"] = row[end] if alone else f"{row[end]} @{row[f'{end}_loop']}"
    note = (
        f"Share of the {metric.replace('_', ' ')} lost when this path alone is corrupted; @ loop; {len(clean)} pairs."
    )
    return rows, View("Path patching", note, "sender_at", "receiver_at", "effect")


def nodes(subject: Subject, option: str, parts: Sequence[str], alone: str, default: str) -> list[Node]:
    """The ends of paths that an option's names or patterns stand for, in every loop and of every head."""
    layers = len(subject.model.blocks)
    allowed = [f"blocks.{block}.{part}" for block in range(layers) for part in parts]
    found = []
    for pattern in subject.split_option(option, default):
        matching = fnmatch.filter([*allowed, alone], pattern)
        if not matching:
            raise unknown(option, pattern, [*allowed, alone])
        found += matching
    made = [
        Node(site, loop, head)
        for loop in range(subject.loops)
        for site in dict.fromkeys(found)
        if site != alone or loop == 0
        for head in (range(subject.model.config.heads) if site.rsplit(".", 1)[-1] in "zqkv" else [None])
    ]
    return sorted(made, key=lambda node: time_of(node, layers, subject.loops))


def pattern(subject: Subject) -> Found:
    """Where heads look from one kind of column, or in one row."""
    model, inputs, options = subject.model, subject.inputs, subject.options
    if options.row is not None:
        if options.looking:
            raise UsageError("looking: --row shows the answer's column; leave one of the two out")
        last = max(inputs.names(model.sizes.align))
        rows = [row for row in column_rows(model, inputs, options.row, subject.loops) if row["query"] == last]
        for row in rows:
            row["head_at"] = f"{row['site'].removesuffix('.attn.pattern')} head {row['head']} @{row['loop']}"
        note = f"From column {last} of row {options.row} to each of its columns; @ loop."
        return rows, View("Attention in one row", note, "head_at", "key", "share")
    kinds = None
    if isinstance(subject.task, Openable):
        kinds = {name: torch.from_numpy(mask) for name, mask in subject.task.column_kinds(subject.batch).items()}
        kinds = {name: mask.to(inputs.tokens.device) for name, mask in kinds.items()}
    rows = pattern_rows(model, inputs, kinds, subject.loops)
    known = list(dict.fromkeys(row["query"] for row in rows))
    # Unless told otherwise, from where the answer is read.
    looking = options.looking or next((k for k in known if kinds and bool(kinds[k][0, -1])), known[0])
    if looking not in known:
        raise unknown("looking", looking, known)
    for row in rows:
        row["head_at"] = f"{row['site'].removesuffix('.attn.pattern')} head {row['head']}"
        row["attention"] = f"{row['head_at']} → {row['key']}"
        row["head_loop"] = f"{row['head_at']} @{row['loop']}"
    shown = [row for row in rows if row["query"] == looking]
    shown.sort(key=lambda row: (row["site"], row["head"], known.index(row["key"]), row["loop"]))
    if kinds is None:
        note = "Entropy of the attention pattern in nats, mean over all columns that are not padding."
        return shown, View("Attention entropy", note, "head_at", "loop", "entropy", signed=True)
    note = f"Mean share of attention from {looking!r} columns to each kind of column."
    return shown, View("Attention by kind of column", note, "attention", "loop", "share", table=("head_loop", "key"))


def ablate(subject: Subject) -> Found:
    """Accuracy without each part."""
    method = subject.options.method or "mean"
    rows = ablation(subject.model, subject.inputs, method, subject.loops)
    note = (
        f"{method.capitalize()} ablation of each part in one loop and in all; {rows[0]['before']:.3f} with everything."
    )
    return rows, View("Accuracy without a part", note, "part", "loop", "accuracy")


def probe(subject: Subject) -> Found:
    """What can be read off linearly."""
    targets, device = targets_of(subject), subject.inputs.tokens.device
    names = []
    for pattern in subject.split_option("target", "answer"):
        matching = fnmatch.filter(targets, pattern)
        if not matching:
            raise unknown("target", pattern, targets)
        names += matching
    for name in names:
        values = targets[name][1]
        there = int((~values.isnan()).any(1).sum()) if values.dim() == 2 else len(values)
        if there < FEWEST:
            raise UsageError(f"target: {there} of these rows have a value of {name!r}; at least {FEWEST} must have one")
    sites, rows = subject.split_option("sites", "blocks.*.resid_post"), []
    for name in dict.fromkeys(names):
        kind, values = targets[name]
        found = linear_probe(subject.model, subject.inputs, sites, values.to(device), kind, loops=subject.loops)
        rows += [{"target": name} | row for row in found]
    several = len({row["site"] for row in rows}) > 1
    for row in rows:
        row["probed"] = f"{row['site']}, {row['target']}" if several else row["target"]
    measures = " or ".join(dict.fromkeys(row["measure"] for row in rows))
    at = "several sites" if several else rows[0]["site"]
    note = f"Held-out {measures} of linear probes at {at}; controls beside it in the table."
    columns = ("probed", "loop", "score", "95 %", "shuffled", "untrained", "chance", "rows")
    return rows, View("Linear probes", note, "probed", "loop", "score", columns)


def targets_of(subject: Subject) -> dict[str, tuple[str, Tensor]]:
    """What a probe can look for: (kind, values) by name. Axes are regressed on, answers and facts are classes."""
    found = {"answer": ("classification", subject.inputs.targets[:, -1])}
    for name, values in subject.batch.axes.items():
        found[name] = ("regression", torch.from_numpy(np.asarray(values, np.float64)))
    if isinstance(subject.task, Openable):
        for name, values in subject.task.column_targets(subject.batch).items():
            found[name] = ("classification", torch.from_numpy(values))
    return found


KINDS: dict[str, tuple[Callable[[Subject], Found], int]] = {
    "logit": (logit, 500),
    "attribution": (attribution, 200),
    "patch": (patch, 100),
    "path": (path, 50),
    "pattern": (pattern, 200),
    "ablate": (ablate, 200),
    "probe": (probe, 1000),
}
"""Each lens with the number of rows that it takes unless told otherwise: seconds to a minute of one core."""

READERS = {
    "sites": ("logit", "patch", "probe"),
    "senders": ("path",),
    "receivers": ("path",),
    "metric": ("patch", "path"),
    "looking": ("pattern",),
    "row": ("pattern",),
    "method": ("ablate",),
    "target": ("probe",),
}
"""Which lenses read an option that not all do."""


def check(options: LensOptions) -> None:
    """Raise `UsageError` on an unknown lens or on an option that this lens would not read."""
    if options.kind not in KINDS:
        raise unknown("kind", options.kind, KINDS)
    for name, kinds in READERS.items():
        if getattr(options, name) not in ("", None) and options.kind not in kinds:
            raise UsageError(f"{name}: {options.kind!r} does not read it; allowed with: {', '.join(kinds)}")


def rows_of(task: Task, options: LensOptions, seed: int) -> tuple[Batch, str]:
    """The rows to open the model on and their name: of a test cell, or for a probe of the validation stream."""
    rows = KINDS[options.kind][1] if options.rows is None else options.rows
    if options.kind == "probe" and not options.on and options.at is None:
        if not 1 <= rows <= MOST_SAMPLED:
            raise outside("rows", rows, f"1 to {MOST_SAMPLED}")
        return task.sample("validation", seed, np.arange(rows)), "validation rows"
    cell = cell_of(task, options)
    reserved = task.config.test_rows
    if not 1 <= rows <= reserved and options.rows is not None:
        raise outside("rows", rows, f"1 to {reserved}, the reserved test rows of a cell")
    return task.test(cell, min(rows, reserved)), cell.name


def cell_of(task: Task, options: LensOptions) -> Cell:
    """The test cell that `on` and `at` name; by default the hardest of the first distribution."""
    cells = task.cells((options.on,) if options.on else ())
    cells = [cell for cell in cells if cell.distribution == cells[0].distribution]
    if options.at is None:
        return max(cells, key=lambda cell: cell.value or 0)
    found = [cell for cell in cells if cell.value == options.at]
    if not found:
        raise unknown("at", options.at, [cell.value for cell in cells if cell.value is not None])
    return found[0]


def table_of(found: dict[str, Any], view: View) -> Table:
    """The table of a lens: its fields, its matrix whichever way fits, or where none does its strongest rows."""
    title, rows = f"{view.title}, {found['rows_of']}", found["rows"]
    if view.columns:
        return rows_table(rows, view.columns, title)
    across, down = view.table[::-1] if view.table else (view.across, view.down)
    for one, other in ((down, across), (across, down)):
        if len({row[other] for row in rows}) <= PRINTED:
            return matrix_table(*matrix(rows, one, other, view.value), f"{title}: {view.value} by {view.across}", one)
    strongest = sorted(rows, key=lambda row: -abs(row[view.value]))[:STRONGEST]
    return rows_table(strongest, (view.down, view.across, view.value), f"{title}: the {len(strongest)} strongest")


def look(options: LensOptions) -> tuple[dict[str, Any], Table]:
    """The `lens --json` object of a run, and its table; with `out` also results.json, table.md and the heat map.

    Lenses compute in float32 without autocast, so that sums and shares hold to its rounding.
    """
    check(options)
    if options.loops is not None and not 1 <= options.loops <= 1000:
        raise outside("loops", options.loops, "1 to 1000")
    run = open_run(options.run)
    batch, name = rows_of(run.task, options, run.experiment.seeds.data)
    loops = run.loops if options.loops is None else options.loops
    subject = Subject(run.model, run.task, batch, Inputs.of(batch, run.model), loops, options)
    rows, view = KINDS[options.kind][0](subject)
    found = {"kind": options.kind, "model": options.run, "rows_of": name, "loops": loops, "taken": len(batch)}
    found |= {"title": view.title, "note": view.note, "down": view.down, "across": view.across, "value": view.value}
    found["rows"] = rows
    table = table_of(found, view)
    if options.out is not None:
        save(found, view, table, options.out)
    return found, table


def save(found: dict[str, Any], view: View, table: Table, out: Path) -> None:
    """results.json, table.md and the heat map in a folder."""
    subtitle = f"{found['model']}, {found['rows_of']}. {view.note}"
    chart = heat_map(found["rows"], view.down, view.across, view.value, view.title, subtitle, view.signed)
    save_all({f"lens-{found['kind']}": chart}, out, (".png", ".svg", ".html"))
    write_text(out / "table.md", table.markdown())
    write_json(out / "results.json", found)
