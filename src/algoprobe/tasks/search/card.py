"""Task card: what a config's training rows look like, counted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from algoprobe.core.config import to_dict

from .baselines import baselines
from .graphs import Graphs
from .solver import unpack

if TYPE_CHECKING:
    from .task import SearchTask


def degrees(graphs: Graphs, side: int) -> np.ndarray:
    """Number of edges of each vertex id: `side` 0 counts those that leave it, 1 those that enter. [batch, ids + 1]"""
    used = np.arange(graphs.edges.shape[1]) < graphs.edge_count[:, None]
    row = np.broadcast_to(np.arange(len(graphs))[:, None], used.shape)[used]
    flat = row * (graphs.vertices + 1) + graphs.edges[..., side][used]
    return np.bincount(flat, minlength=len(graphs) * (graphs.vertices + 1)).reshape(len(graphs), -1)


def _histogram(values: np.ndarray) -> dict[str, int]:
    found, counts = np.unique(values, return_counts=True)
    return {str(int(value)): int(count) for value, count in zip(found, counts)}


def card(task: SearchTask, seed: int, rows: int) -> dict[str, Any]:
    """Config, digests, histograms, means and baselines of `rows` rows of the card stream, as JSON values."""
    config = task.config
    graphs = task.graphs("card", seed, np.arange(rows))
    entering, leaving = degrees(graphs, 1), degrees(graphs, 0)
    present = entering + leaving > 0
    at = np.arange(len(graphs))
    counts = {
        "edges": graphs.edge_count,
        "vertices": graphs.vertex_count,
        "in_degree": entering[present],
        "out_degree": leaving[present],
        "children_of_start": leaving[at, graphs.start],
        "parents_of_start": entering[at, graphs.start],
        "path_length": graphs.path_length,
        "lookahead": graphs.lookahead,
        "right_answers": unpack(graphs.right, graphs.vertices).sum(1),
        "attempts": graphs.attempts,
    }
    return {
        "task": task.name,
        "config": to_dict(config),
        "vertices": config.vertices,
        "lookahead_limit": config.lookahead_limit,
        "lookahead_max": config.lookahead_max,
        "train_digest": config.train_digest,
        "test_digest": config.test_digest,
        "seed": seed,
        "rows": rows,
        "draws_dropped_as_test_rows": int(graphs.reserved_hits.sum()),
        "means": {name: float(np.mean(values)) for name, values in counts.items()},
        "histograms": {name: _histogram(values) for name, values in counts.items()},
        "baselines": {name: float(values.mean()) for name, values in baselines(graphs).items()},
    }
