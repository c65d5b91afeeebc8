"""A batch of search graphs as arrays."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Int, Int16, UInt64


@dataclass(frozen=True)
class Graphs:
    """Directed acyclic graphs, each with a start, a goal and everything known about it."""

    edges: Int16[np.ndarray, "batch V 2"]
    """Source and target of each edge in row order; only the first `edge_count` count, the rest is zero."""
    edge_count: Int[np.ndarray, "batch"]
    start: Int[np.ndarray, "batch"]
    goal: Int[np.ndarray, "batch"]
    label: Int[np.ndarray, "batch"]
    """The next vertex that a loss trains on: uniform among the right answers."""
    right: UInt64[np.ndarray, "batch words"]
    """Every right answer: bit v of the row is set when child v of the start leads to the goal."""
    lookahead: Int[np.ndarray, "batch"]
    """Levels of search that a right answer needs (see `solver`)."""
    vertex_count: Int[np.ndarray, "batch"]
    path_length: Int[np.ndarray, "batch"]
    """Edges on a shortest path from start to goal."""
    attempts: Int[np.ndarray, "batch"]
    """Draws that the row took, the last one included."""
    reserved_hits: Int[np.ndarray, "batch"]
    """Draws dropped because they were a test row in some edge order."""
    vertices: int
    """Vertices are named by distinct ids from 1..`vertices`: V of them, or `SearchConfig.ids`."""

    def __len__(self) -> int:
        return len(self.edges)

    def __getitem__(self, rows: slice | np.ndarray) -> Graphs:
        """The graphs of some rows."""
        columns = {name: value[rows] for name, value in vars(self).items() if isinstance(value, np.ndarray)}
        return replace(self, **columns)

    def fields_of(self, row: int) -> dict[str, object]:
        """One row as JSON values: edges, start, goal, accepted (every right answer), lookahead, path_length."""
        words = [int(word) for word in self.right[row]]
        return {
            "edges": self.edges[row, : int(self.edge_count[row])].tolist(),
            "start": int(self.start[row]),
            "goal": int(self.goal[row]),
            "accepted": [v for v in range(self.vertices + 1) if words[v >> 6] >> (v & 63) & 1],
            "lookahead": int(self.lookahead[row]),
            "path_length": int(self.path_length[row]),
        }
