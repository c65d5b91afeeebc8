"""Ablation: what accuracy is left when a part of the model says nothing, or always its mean."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from algoprobe.core.errors import unknown

from .edit import Change, edit
from .inputs import Inputs, accuracy_of, answer_logits, loops_of, right
from .record import record

METHODS = ("zero", "mean")
PARTS = ("head", "attention", "mlp", "block")


def aligned_mean(x: Tensor, real: Bool[Tensor, "batch columns"]) -> Tensor:
    """Mean of `x` (`[batch, columns, …]` or `[batch, heads, columns, …]`) over the rows in which a column is real.

    Each column has a mean of its own, so that the last one (the query) does not become an average of others.
    """
    mask = (real[:, None] if x.dim() == 4 else real)[..., None]
    return torch.where(mask, x, 0).sum(0, keepdim=True) / mask.sum(0, keepdim=True).clamp_min(1)


def silence(value: Tensor | None, head: int | None) -> Change:
    """A change that hands on `value` (None: zeros) for one head or (None) for everything."""

    def change(x: Tensor) -> Tensor:
        new = torch.zeros_like(x) if value is None else value.expand_as(x)
        if head is None:
            return new.clone()
        x = x.clone()
        x[:, head] = new[:, head]
        return x

    return change


def parts_of(model: nn.Module, parts: Iterable[str] = PARTS) -> list[tuple[str, tuple[str, ...], int | None]]:
    """(name, sites, head) of everything to ablate, block by block. Raises `UsageError` on an unknown kind of part."""
    wanted = list(parts)
    for part in wanted:
        if part not in PARTS:
            raise unknown("part", part, PARTS)
    found = []
    for index, block in enumerate(model.blocks):
        at = f"blocks.{index}"
        if "head" in wanted:
            found += [(f"{at} head {head}", (f"{at}.attn.z",), head) for head in range(block.attn.heads)]
        both = {"attention": (f"{at}.attn_out",), "mlp": (f"{at}.mlp_out",)}
        both["block"] = (*both["attention"], *both["mlp"])
        found += [(f"{at} {part}", both[part], None) for part in PARTS[1:] if part in wanted]
    return found


@torch.no_grad()
def ablation(
    model: nn.Module,
    inputs: Inputs,
    method: str = "mean",
    loops: int | None = None,
    parts: Iterable[str] = PARTS,
) -> list[dict[str, Any]]:
    """Accuracy without each head, attention, MLP and block, in one loop and in all (`loop` None), beside that with it.

    `zero` removes what the part adds to the residual stream (a head's output bias stays); `mean` replaces it by its
    mean over the rows, for each column and loop: the part then says nothing about the row at hand. `drop` is the
    accuracy lost. Raises `UsageError` on an unknown method or kind of part.
    """
    if method not in METHODS:
        raise unknown("method", method, METHODS)
    count, chosen = loops_of(model, loops), parts_of(model, parts)
    sites = dict.fromkeys(site for _, used, _ in chosen for site in used)
    real = inputs.real(model.sizes.align)
    with record(model, sites) as seen:
        before = accuracy_of(right(answer_logits(model, inputs, count), inputs))
        means: dict[tuple[str, int], Float[Tensor, "1 ..."]] = {}
        if method == "mean":
            means = {address: aligned_mean(seen[address], real) for address in seen}
    rows = []
    for name, used, head in chosen:
        for loop in [None, *range(count)] if count > 1 else [None]:
            at = range(count) if loop is None else [loop]
            changes = {(site, r): silence(means.get((site, r)), head) for site in used for r in at}
            with edit(model, changes):
                after = accuracy_of(right(answer_logits(model, inputs, count), inputs))
            drop = {"before": before["accuracy"], "drop": before["accuracy"] - after["accuracy"]}
            rows.append({"part": name, "loop": loop, "method": method} | after | drop)
    return rows
