"""The lenses: each takes a model with its rows and gives plain rows, and how they are shown."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from algoprobe.core.errors import AlgoprobeError, UsageError, nearest, unknown
from algoprobe.options import LensOptions
from algoprobe.probes.ablation import ablation
from algoprobe.probes.attribution import logit_attribution, strongest_wrong
from algoprobe.probes.dynamics import loop_dynamics
from algoprobe.probes.inputs import Inputs, answer_logits
from algoprobe.probes.lens import logit_lens
from algoprobe.probes.linear_probe import FEWEST, linear_probe
from algoprobe.probes.patching import activation_patching
from algoprobe.probes.path_patching import RECEIVERS, SENDERS, Node, path_patching, time_of
from algoprobe.probes.patterns import column_rows, pattern_rows
from algoprobe.tasks.batch import Batch
from algoprobe.tasks.openable import Numbered, Openable, Pair
from algoprobe.tasks.task import Task


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
        """A comma-separated option as a list, or its default. Raises `UsageError` when it names nothing."""
        given = getattr(self.options, name) or default
        found = [part.strip() for part in given.split(",") if part.strip()]
        if not found:
            raise UsageError(f"{name}: {given!r} names nothing; allowed: names or patterns, separated by commas")
        return found

    def paired(self) -> tuple[Inputs, Inputs, Pair]:
        """Clean and corrupted rows. Raises `UsageError` when the task has no partners to offer."""
        if not isinstance(self.task, Openable):
            raise UsageError(
                f"kind: {self.options.kind!r} needs corrupted partners, which {self.task.name} has none of"
            )
        pair = self.task.pair(self.batch)
        clean, corrupted = Inputs.of(pair.clean, self.model), Inputs.of(pair.corrupted, self.model)
        for inputs in (clean, corrupted):
            check_finite(self.model, inputs, self.loops)
        return clean, corrupted, pair


def check_finite(model: nn.Module, inputs: Inputs, loops: int) -> None:
    """Raise `AlgoprobeError` when the model's answers are no numbers: no lens could say anything about them."""
    if not bool(answer_logits(model, inputs, loops).isfinite().all()):
        raise AlgoprobeError("the model's logits are not finite, so there is nothing to look at")


Found = tuple[list[dict[str, Any]], View]


def logit(subject: Subject) -> Found:
    """What each residual stream would answer."""
    sites = subject.split_option("sites", "embed,blocks.*.resid_mid,blocks.*.resid_post")
    rows = logit_lens(subject.model, subject.inputs, sites, subject.loops)
    note = "Accuracy when the stack ends here: the site's residual stream through the final norm and the output."
    if len(subject.model.coda):
        note += " The blocks of the coda, which the model's own answer passes, are left out."
    columns = ("site", "loop", "accuracy", "95 %", "log_probability", "agreement")
    return rows, View("Logit lens", note, "site", "loop", "accuracy", columns)


def dynamics(subject: Subject) -> Found:
    """What each loop does to the answer and to the state."""
    rows, first = loop_dynamics(subject.model, subject.inputs, subject.loops)
    rows = [row | {"read": "answer"} for row in rows]
    found = first[first > 0]
    mean = f", on average first after loop {float(found.double().mean()):.1f}" if len(found) else ""
    note = (
        f"{len(found)} of {len(first)} rows are right after some loop{mean}. Margin: logit of the answer less that of "
        "the strongest wrong class; entropy and KL to the loop before in nats; change: how far the state still moves, "
        "relative to its size."
    )
    columns = ("loop", "accuracy", "95 %", "margin", "entropy", "kl", "change", "rows")
    return rows, View("Loop by loop", note, "read", "loop", "accuracy", columns)


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
    across = across_of(subject, several)
    for row in rows:
        head = "" if row["head"] is None else f"head {row['head']}, "
        row["patched"] = (f"{row['site']}, " if several and across == "loop" else "") + head + row["columns"]
    name = metric.replace("_", " ").capitalize()
    note = f"{name}: 0 as in the corrupted run, 1 as in the clean run; {len(clean)} pairs."
    where = "several sites" if several else rows[0]["site"]
    return rows, View(f"Activation patching at {where}", note, "patched", across, "effect")


def across_of(subject: Subject, several: bool) -> str:
    """What a heat map has across: the loops, or the sites where a model has no loops and several were asked for."""
    return "site" if several and subject.loops == 1 else "loop"


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
        # Quoted, since kinds of columns have commas in their names.
        listed = ", ".join(map(repr, known))
        raise UsageError(f"looking: {looking!r} is unknown; allowed: {listed}.{nearest(looking, known)}")
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
    places = ("head_loop", "key") if subject.loops == 1 else ("attention", "loop")
    return shown, View("Attention by kind of column", note, *places, "share", table=("head_loop", "key"))


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
    across = across_of(subject, several)
    for row in rows:
        row["probed"] = f"{row['site']}, {row['target']}" if several and across == "loop" else row["target"]
    measures = " or ".join(dict.fromkeys(row["measure"] for row in rows))
    at = "several sites" if several else rows[0]["site"]
    note = f"Held-out {measures} of linear probes at {at}; controls beside it in the table."
    regressed = ("error", "constant") if all(row["error"] is not None for row in rows) else ()
    if regressed:
        note += " Error: mean absolute error, beside that of the best constant, in the target's units."
    columns = ("probed", across, "score", "95 %", "shuffled", "untrained", *(regressed or ("chance",)), "rows")
    return rows, View("Linear probes", note, "probed", across, "score", columns)


def targets_of(subject: Subject) -> dict[str, tuple[str, Tensor]]:
    """What a probe can look for: (kind, values) by name. Axes are regressed on, answers and facts are classes."""
    inputs = subject.inputs
    answer = torch.full(inputs.tokens.shape[:2], torch.nan)
    answer[:, -inputs.read :] = torch.where(inputs.counted, inputs.targets, torch.nan).cpu()
    found = {"answer": ("classification", answer)}
    for name, values in subject.batch.axes.items():
        found[name] = ("regression", torch.from_numpy(np.asarray(values, np.float64)))
    if isinstance(subject.task, Openable):
        for name, values in subject.task.column_targets(subject.batch).items():
            found[name] = ("classification", torch.from_numpy(values))
    if isinstance(subject.task, Numbered):
        for name, values in subject.task.column_numbers(subject.batch).items():
            found[name] = ("regression", torch.from_numpy(values))
    return found
