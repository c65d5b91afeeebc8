"""Is this machine fit? Versions, devices, dtypes, and a tiny model checked against float64."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch

from algoprobe.core.machine import machine, resolve_precision, versions
from algoprobe.models.config import TransformerConfig
from algoprobe.tasks.search.config import SearchConfig

from .config import TrainConfig
from .forward import Arithmetic
from .step import gradients

# Largest difference of the loss, and of the gradient relative to its norm, that rounding explains.
TOLERANCE = {"float32": 1e-5, "bfloat16": 3e-2}


def loss_and_gradient(device: str, dtype: str, attention: str, *, double: bool = False) -> tuple[float, np.ndarray]:
    """Loss and whole gradient of a small looped model on fixed rows."""
    task = SearchConfig(n=32, encoding="packed", test_rows=1).build()
    config = TransformerConfig(layers=1, heads=2, width=32, inject=True, outer_norm=True, loops=3)
    model = config.build(task.sizes, seed=0)
    model = model.double() if double else model
    arithmetic = Arithmetic(torch.device(device), dtype, attention)
    batch = task.sample("example", 0, np.arange(64))
    loss, _, _ = gradients(arithmetic.place(model), batch, 3, replace(TrainConfig(), chunks=1), arithmetic)
    gradient = np.concatenate([p.grad.double().cpu().numpy().ravel() for p in model.parameters()])
    return float(loss), gradient


def examine() -> dict[str, Any]:
    """`{"checks": [{"name", "ok", "detail"}], "machine", "versions", "precision"}`."""
    here, found = machine(), versions()
    checks = [
        {"name": "versions", "ok": True, "detail": ", ".join(f"{k} {v}" for k, v in found.items())},
        {"name": "processor", "ok": True, "detail": f"{here['class']}, {here['cores']} cores"},
    ]
    exact_loss, exact = loss_and_gradient("cpu", "float32", "explicit", double=True)
    devices = ["cpu"] + [d for d, there in (("cuda", torch.cuda.is_available()), ("mps", mps())) if there]
    chosen = {}
    for device in devices:
        dtype, attention = resolve_precision("auto", "auto", torch.device(device))
        chosen[device] = {"dtype": dtype, "attention": attention}
        for dtype in TOLERANCE:
            for attention in ("fused", "explicit"):
                checks.append(compare(device, dtype, attention, exact_loss, exact))
    auto = ", ".join(f"{device}: {c['dtype']}, {c['attention']} attention" for device, c in chosen.items())
    checks.append({"name": "auto precision", "ok": True, "detail": auto})
    return {"checks": checks, "machine": here, "versions": found, "precision": chosen}


def mps() -> bool:
    """Whether Apple's accelerator is there."""
    return torch.backends.mps.is_available()


def compare(device: str, dtype: str, attention: str, exact_loss: float, exact: np.ndarray) -> dict[str, Any]:
    """One dtype and path on one device beside float64."""
    name = f"{device} {dtype} {attention}"
    try:
        loss, gradient = loss_and_gradient(device, dtype, attention)
    except (RuntimeError, NotImplementedError) as error:
        return {"name": name, "ok": False, "detail": str(error).split("\n")[0]}
    off = float(np.linalg.norm(gradient - exact) / np.linalg.norm(exact))
    ok = abs(loss - exact_loss) <= TOLERANCE[dtype] * exact_loss and off <= TOLERANCE[dtype]
    return {
        "name": name,
        "ok": ok,
        "detail": f"loss off by {abs(loss - exact_loss):.1e}, gradient by {off:.1e} of its norm",
    }
