"""Graph search: `SearchConfig` says what to draw, `SearchTask` draws it. Importing this loads no numba and no torch.

from algoprobe.tasks.search import SearchConfig, SearchTask
batches = SearchTask(SearchConfig(n=128)).batches(1024)
"""

from __future__ import annotations

from typing import Any

from .config import SearchConfig

__all__ = ["SearchConfig", "SearchTask"]


def __getattr__(name: str) -> Any:
    if name == "SearchTask":
        from .task import SearchTask

        return SearchTask
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
