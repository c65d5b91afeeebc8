"""Activation patching: give a corrupted run the clean value of one site and see how much of the answer comes back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from algoprobe.core.errors import UsageError, unknown
from algoprobe.core.statistics import mean_interval

from .edit import Change, edit
from .inputs import Inputs, answer_logits, check_columns
from .patterns import attention_for
from .record import record
from .sites import find_sites


def logit_difference(
    logits: Float[Tensor, "batch read outputs"], clean: Inputs, corrupted: Inputs
) -> Float[Tensor, "batch"]:
    """logit[clean target] - logit[corrupted target], mean over the read columns where the two differ."""
    counted = clean.counted & corrupted.counted & (clean.targets != corrupted.targets)
    if not bool(counted.any(1).all()):
        raise UsageError("corrupted: a row has the same targets as its clean partner; its logits have no difference")
    ours, theirs = (logits.gather(2, side.targets.clamp_min(0)[..., None])[..., 0] for side in (clean, corrupted))
    return ((ours - theirs) * counted).sum(1) / counted.sum(1)


def probability(
    logits: Float[Tensor, "batch read outputs"], clean: Inputs, corrupted: Inputs
) -> Float[Tensor, "batch"]:
    """Probability of the clean row's accepted answers, mean over its read columns that have a target."""
    found = (logits.softmax(-1) * clean.accepted).sum(-1) * clean.counted
    return found.sum(1) / clean.counted.sum(1).clamp_min(1)


METRICS: dict[str, Callable] = {"logit_difference": logit_difference, "probability": probability}


def metric_named(name: str) -> Callable:
    """The metric `name`. Raises `UsageError` with the nearest spelling when there is none."""
    if name not in METRICS:
        raise unknown("metric", name, METRICS)
    return METRICS[name]


def check_pair(clean: Inputs, corrupted: Inputs) -> None:
    """Raise `UsageError` unless the two have equal shapes and each row the length of its partner."""
    if clean.tokens.shape != corrupted.tokens.shape or not torch.equal(clean.lengths, corrupted.lengths):
        raise UsageError(
            f"corrupted: rows of shape {list(corrupted.tokens.shape)} cannot stand for {list(clean.tokens.shape)}; "
            "allowed: equal shapes and lengths, row by row"
        )


def shares(
    value: Float[Tensor, "batch"], bottom: Float[Tensor, "batch"], top: Float[Tensor, "batch"]
) -> Float[Tensor, "batch"]:
    """(value - bottom) / mean(top - bottom), whose mean is the effect.

    Raises `UsageError` when top and bottom have the same mean: there is nothing to bring back.
    """
    span = (top - bottom).mean()
    if not bool(span.abs() > 1e-9):
        raise UsageError("corrupted: the clean and the corrupted run score the same, so no share of it can come back")
    return (value - bottom) / span


def put_clean(clean: Tensor, columns: Bool[Tensor, "batch columns"], head: int | None) -> Change:
    """A change that hands on `clean` at some columns, of one head or (None) of all, and leaves the rest."""

    def change(x: Tensor) -> Tensor:
        mask = columns
        if x.dim() == 4:  # [batch, heads, columns, …]
            mask = columns[:, None].expand(-1, x.shape[1], -1)
            if head is not None:
                mask = mask & (torch.arange(x.shape[1], device=x.device) == head)[None, :, None]
        return torch.where(mask[..., None], clean, x)

    return change


def each_column(inputs: Inputs, align: str) -> dict[int, Bool[Tensor, "batch columns"]]:
    """Every column on its own, as groups for `activation_patching`: keys count from the aligned end (-1: the last)."""
    real = inputs.real(align)
    groups = {}
    for place, name in enumerate(inputs.names(align)):
        groups[name] = torch.zeros_like(real)
        groups[name][:, place] = real[:, place]
    return groups


@torch.no_grad()
def activation_patching(
    model: nn.Module,
    clean: Inputs,
    corrupted: Inputs,
    sites: Iterable[str],
    loops: int | None = None,
    columns: Mapping[Any, Bool[Tensor, "batch columns"]] | None = None,
    metric: str = "logit_difference",
) -> list[dict[str, Any]]:
    """For each site, loop, group of columns (and head, where a site has heads) the share of the metric that returns.

    effect = mean(patched - corrupted) / mean(clean - corrupted): 0 as corrupted, 1 as clean; below 0 or above 1 can be.
    `sites` are names or patterns; `columns` names groups (None: one group of all columns). Source: Meng et al. 2022
    ("causal tracing"); Zhang & Nanda 2024 on metrics. Attention takes the explicit path where a site needs it. Raises
    `UsageError` on pairs of unequal shape and on a site without a value for each row and column.
    """
    check_pair(clean, corrupted)
    measure = metric_named(metric)
    if columns is None:
        columns = {"all": torch.ones_like(clean.tokens[..., 0], dtype=torch.bool)}
    names = [name for found in find_sites(model, sites).values() for name in found]
    with attention_for(model, names):
        with record(model, names) as seen:
            top = measure(answer_logits(model, clean, loops), clean, corrupted)
            kept = {address: seen[address] for address in seen}
        for (site, _), value in kept.items():
            check_columns(site, value, clean)
        bottom = measure(answer_logits(model, corrupted, loops), clean, corrupted)
        rows = []
        for (site, loop), value in sorted(kept.items(), key=lambda item: (names.index(item[0][0]), item[0][1])):
            heads = range(value.shape[1]) if value.dim() == 4 else [None]
            for head in heads:
                for name, mask in columns.items():
                    with edit(model, {(site, loop): put_clean(value, mask, head)}):
                        patched = measure(answer_logits(model, corrupted, loops), clean, corrupted)
                    place = {"site": site, "loop": loop, "head": head, "columns": name}
                    rows.append(place | effect_of(patched, bottom, top, metric))
    return rows


def effect_of(
    value: Float[Tensor, "batch"], bottom: Float[Tensor, "batch"], top: Float[Tensor, "batch"], metric: str
) -> dict[str, Any]:
    """A row's effect with its 95 % interval over the batch, and the means that it was made from."""
    each = shares(value, bottom, top)
    _, low, high = mean_interval(each.double().tolist())
    # A quotient of means and not the mean of `each`: where value = top, it is 1 without rounding.
    effect = float((value - bottom).mean() / (top - bottom).mean())
    means = {"value": float(value.mean()), "bottom": float(bottom.mean()), "top": float(top.mean())}
    return {"effect": effect, "low": low, "high": high, "metric": metric, "rows": len(value)} | means


def matrix(
    rows: Sequence[Mapping[str, Any]], down: str, across: str, value: str = "effect"
) -> tuple[list[Any], list[Any], list[list[float | None]]]:
    """`rows` as (labels down, labels across, values), labels in order of appearance, None where there is no row.

    Raises `UsageError` when two rows fall into one place: a third field tells them apart and must be picked first.
    """
    labels = [list(dict.fromkeys(row[key] for row in rows)) for key in (down, across)]
    placed: dict[tuple[Any, Any], float] = {}
    for row in rows:
        place = (row[down], row[across])
        if place in placed:
            raise UsageError(f"rows: two have {down} {place[0]!r} and {across} {place[1]!r}; pick between them first")
        placed[place] = row[value]
    return *labels, [[placed.get((d, a)) for a in labels[1]] for d in labels[0]]
