"""Hops along facts: `HopsConfig` says what to draw, `HopsTask` draws it. Importing this loads no numba and no torch.

from algoprobe.tasks.hops import HopsConfig, HopsTask
batch = HopsTask(HopsConfig()).sample("train", 0, np.arange(512))
"""

from __future__ import annotations

from typing import Any

from .config import HopsConfig

__all__ = ["HopsConfig", "HopsTask"]


def __getattr__(name: str) -> Any:
    if name == "HopsTask":
        from .task import HopsTask

        return HopsTask
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
