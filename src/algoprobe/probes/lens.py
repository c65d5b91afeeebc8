"""The logit lens (nostalgebraist 2020): what the model would answer if the stack ended here."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from jaxtyping import Float
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
