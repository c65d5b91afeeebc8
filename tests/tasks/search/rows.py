"""Graphs as plain lists, for tests."""

from __future__ import annotations

import numpy as np

from algoprobe.tasks.search.graphs import Graphs


def edges_of(graphs: Graphs, row: int) -> list[tuple[int, int]]:
    """The edges of one row."""
    return [tuple(edge) for edge in graphs.edges[row, : int(graphs.edge_count[row])].tolist()]


def graphs_from(rows: list[tuple[list[tuple[int, int]], int, int]], vertices: int) -> Graphs:
    """Solved graphs from (edges, start, goal) on the ids 1..vertices."""
    from algoprobe.tasks.search.encoding import decode

    width = 1 + max(len(edges) for edges, _, _ in rows)
    tokens = np.zeros((len(rows), width, 2), np.int64)
    for row, (edges, start, goal) in enumerate(rows):
        for e, edge in enumerate(edges):
            tokens[row, width - 1 - len(edges) + e] = edge
        tokens[row, -1] = vertices + start, vertices + goal
    return decode(tokens, "packed", vertices)


def equal(one: Graphs, other: Graphs) -> bool:
    """Whether all fields agree."""
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in Graphs.__annotations__)
