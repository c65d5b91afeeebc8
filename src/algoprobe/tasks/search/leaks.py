"""Leak report: do training rows stand among the reserved test rows?

Three answers, from strict to loose: equal rows, rows equal up to edge order (both are redrawn, so none may be left),
and rows equal up to edge order and renaming (left in: at small sizes most shapes must recur).
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from .canonical import certificates, isomorphic
from .config import DISTRIBUTIONS
from .graphs import Graphs
from .reserve import cell_graphs, cells_of

if TYPE_CHECKING:
    from .task import SearchTask

CONFIRM = 50
"""Certificate hits that are checked exactly."""


def leaks(task: SearchTask, seed: int, rows: int) -> dict[str, Any]:
    """The leak report of `rows` training rows, as JSON values."""
    config = task.config
    cells = [cell for name in DISTRIBUTIONS for cell in cells_of(name, config)]
    test = _join([cell_graphs(config, cell, config.test_rows) for cell in cells])
    train = task.graphs("train", seed, np.arange(rows))
    test_shapes = certificates(test)
    began = time.perf_counter()
    shapes = certificates(train)
    spent = time.perf_counter() - began
    # Training graphs may be smaller than test graphs (`most`); as items both are as wide as the larger.
    V = config.vertices
    exact = np.isin(_lists(train, V), _lists(test, V))
    same = np.isin(_sorted_lists(train, V), _sorted_lists(test, V))
    renamed = np.isin(shapes, test_shapes)
    return {
        "config": config.train_digest,
        "seed": seed,
        "training_rows": rows,
        "reserved_rows": len(test),
        "draws": int(train.attempts.sum()),
        "draws_dropped_as_test_rows": int(train.reserved_hits.sum()),
        "equal": int(exact.sum()),
        "equal_up_to_edge_order": int(same.sum()),
        "equal_up_to_renaming": int(renamed.sum()),
        "share_up_to_renaming": float(renamed.mean()),
        "renaming_by_vertices": _by_vertices(train, renamed),
        "renaming_confirmed": _confirm(train, test, shapes, test_shapes, renamed),
        "certificate_microseconds_per_row": round(1e6 * spent / rows, 3),
        "test_rows_by_cell": [_check(config, cell) for cell in cells],
    }


def _join(parts: list[Graphs]) -> Graphs:
    names = [name for name, value in vars(parts[0]).items() if isinstance(value, np.ndarray)]
    return replace(parts[0], **{name: np.concatenate([getattr(part, name) for part in parts]) for name in names})


def _codes(graphs: Graphs, most: int = 0) -> np.ndarray:
    """A number from 1 for each edge, in row order, then 0 to at least `most` columns."""
    codes = graphs.edges[..., 0].astype(np.int32) * (graphs.vertices + 1) + graphs.edges[..., 1]
    codes[np.arange(codes.shape[1]) >= graphs.edge_count[:, None]] = 0
    return np.pad(codes, ((0, 0), (0, max(0, most - codes.shape[1]))))


def _as_items(codes: np.ndarray, graphs: Graphs) -> np.ndarray:
    table = np.ascontiguousarray(np.column_stack([graphs.start, graphs.goal, codes]).astype(np.int32))
    return table.view(np.dtype((np.void, table.shape[1] * 4)))[:, 0]


def _lists(graphs: Graphs, most: int = 0) -> np.ndarray:
    """Each row as one comparable item: start, goal and edges in order. Uses none of the sampler's hashes."""
    return _as_items(_codes(graphs, most), graphs)


def _sorted_lists(graphs: Graphs, most: int = 0) -> np.ndarray:
    """The same with the edges sorted."""
    return _as_items(np.sort(_codes(graphs, most), axis=1), graphs)


def _by_vertices(graphs: Graphs, hit: np.ndarray) -> dict[str, list[int]]:
    """For each number of vertices: [rows, hits]."""
    rows = np.bincount(graphs.vertex_count)
    hits = np.bincount(graphs.vertex_count[hit], minlength=len(rows))
    return {str(n): [int(rows[n]), int(hits[n])] for n in range(len(rows)) if rows[n]}


def _confirm(train: Graphs, test: Graphs, shapes: np.ndarray, test_shapes: np.ndarray, hit: np.ndarray) -> dict:
    """How many of the first hits are isomorphic indeed, by an exact test."""
    order = np.argsort(test_shapes, kind="stable")
    chosen = np.flatnonzero(hit)[:CONFIRM]
    partner = order[np.searchsorted(test_shapes[order], shapes[chosen])]
    found = [isomorphic(train, test, int(i), int(j)) for i, j in zip(chosen, partner)]
    return {"checked": len(found), "isomorphic": int(sum(found))}


def _check(config: Any, cell: Any) -> dict[str, Any]:
    """Self-check of one cell: rows, distinct rows up to edge order, distinct shapes up to renaming."""
    graphs = cell_graphs(config, cell, config.test_rows)
    return {
        "cell": cell.name,
        "rows": len(graphs),
        "distinct_up_to_edge_order": len(np.unique(_sorted_lists(graphs))),
        "distinct_up_to_renaming": len(np.unique(certificates(graphs))),
    }
