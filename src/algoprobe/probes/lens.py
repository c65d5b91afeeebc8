"""The logit lens (nostalgebraist 2020): what the model would answer if the stack ended here."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from algoprobe.core.errors import unknown

from .inputs import Inputs, accuracy_of, answer_logits, right, target_log_probability
from .record import record
from .sites import Address, find_sites

RESIDUAL = ("resid_pre", "resid_mid", "resid_post")


def residual_sites(model: nn.Module) -> list[str]:
    """Sites that hold the whole residual stream, in the order of computation."""
    blocks = [f"blocks.{index}.{name}" for index in range(len(model.blocks)) for name in RESIDUAL]
    return ["embed", *blocks, "loop_out"]


@torch.no_grad()
def lens_logits(
    model: nn.Module, inputs: Inputs, sites: Iterable[str] | None = None, loops: int | None = None
) -> dict[Address, Float[Tensor, "batch read outputs"]]:
    """For each (site, loop) output(norm(x)), x its residual stream at the read columns, in order of computation.

    `sites` are names or patterns of residual sites (None: all). Raises `UsageError` on a site that is none.
    """
    allowed = residual_sites(model)
    chosen = allowed if sites is None else [name for found in find_sites(model, sites).values() for name in found]
    for site in chosen:
        if site not in allowed:
            raise unknown("site", site, allowed)
    with record(model, chosen) as seen:
        answer_logits(model, inputs, loops)
    order = sorted(seen, key=lambda address: (address[1], allowed.index(address[0])))
    return {address: model.read_out(seen[address][:, -inputs.read :]) for address in order}


@torch.no_grad()
def logit_lens(
    model: nn.Module, inputs: Inputs, sites: Iterable[str] | None = None, loops: int | None = None
) -> list[dict[str, Any]]:
    """A row for each (site, loop): accuracy, mean log-probability of the target, agreement with the final answer.

    Agreement is the share of rows whose answers at all read columns are those of the whole model.
    """
    final = answer_logits(model, inputs, loops).argmax(-1)
    rows = []
    for (site, loop), logits in lens_logits(model, inputs, sites, loops).items():
        agrees = ((logits.argmax(-1) == final) | ~inputs.counted).all(1)
        rows.append(
            {"site": site, "loop": loop}
            | accuracy_of(right(logits, inputs))
            | {
                "log_probability": float(target_log_probability(logits, inputs).mean()),
                "agreement": float(agrees.double().mean()),
            }
        )
    return rows


@torch.no_grad()
def column_lens(
    model: nn.Module,
    inputs: Inputs,
    targets: dict[str, Int[Tensor, "batch columns"]],
    loops: int | None = None,
    sites: Iterable[str] = ("embed", "blocks.*.resid_post"),
) -> list[dict[str, Any]]:
    """What can be read where: a row for each (site, loop), target and column that is asked of some row.

    `targets` gives for each name the class wanted at each column, or -1 where nothing is asked; the lens is
    output(norm(x)) at that column, and `accuracy` the share of rows in which its largest logit is the class wanted.
    `depth` counts blocks: 0 is the embedding, loop · L + layer after block `layer`, from 1, of the loops of L blocks.
    """
    chosen = [name for found in find_sites(model, sites).values() for name in found]
    asked = {
        (name, column): inside
        for name, wanted in targets.items()
        for column in range(wanted.shape[1])
        if bool((inside := wanted[:, column] >= 0).any())
    }
    rows, layers = [], len(model.blocks)
    with record(model, chosen) as seen:
        model(inputs.tokens, inputs.lengths, loops=loops)
    depths = {
        (site, loop): 0 if site == "embed" else loop * layers + int(site.split(".")[1]) + 1 for site, loop in seen
    }
    for (site, loop), depth in sorted(depths.items(), key=lambda item: item[1]):
        answer = model.read_out(seen[site, loop]).argmax(-1)
        for (name, column), inside in asked.items():
            hit = (answer[:, column] == targets[name][:, column])[inside]
            rows.append(
                {"site": site, "loop": loop, "depth": depth, "target": name}
                | {"column": column - inputs.tokens.shape[1]}
                | accuracy_of(hit)
            )
    return rows
