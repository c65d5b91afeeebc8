"""Multiplication of whole numbers: `MultiplicationConfig` says what to draw, `MultiplicationTask` draws it.

Importing this loads no numba and no torch.

from algoprobe.tasks.multiplication import MultiplicationConfig, MultiplicationTask
batch = MultiplicationTask(MultiplicationConfig()).sample("train", 0, np.arange(512))
"""

from __future__ import annotations

from typing import Any

from .config import MultiplicationConfig

__all__ = ["MultiplicationConfig", "MultiplicationTask"]


def __getattr__(name: str) -> Any:
    if name == "MultiplicationTask":
        from .task import MultiplicationTask

        return MultiplicationTask
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
