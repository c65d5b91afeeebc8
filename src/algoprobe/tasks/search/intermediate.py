"""Intermediate targets: what a search must know on its way, one number a column."""

from __future__ import annotations

from typing import Literal

import numpy as np
from jaxtyping import Int16
from numba import njit

from algoprobe.tasks.batch import FAR, IGNORE

from .bits import ONE, ZERO, clear, lowest, put, words_for
from .graphs import Graphs


@njit(cache=True)
def _steps_to_goal(edges, edge_count, goal, words, packed, steps):
    W, columns = len(words), steps.shape[1]
    each, rest = (1, 1) if packed else (3, 5)
    parents = np.zeros(64 * W * W, np.uint64)
    # Three sets: reached so far, reached in the last level, reached in the next.
    sets = np.zeros(3 * W, np.uint64)
    away = np.empty(64 * W, np.int16)
    for row in range(len(edges)):
        E = np.int64(edge_count[row])
        parents[:] = ZERO
        for e in range(E):
            put(parents, np.int64(edges[row, e, 1]), words, np.int64(edges[row, e, 0]))
        clear(sets, 0, words)
        clear(sets, 1, words)
        put(sets, 0, words, np.int64(goal[row]))
        put(sets, 1, words, np.int64(goal[row]))
        away[:] = FAR
        level, busy = 0, True
        while busy:
            busy = False
            clear(sets, 2, words)
            for w in range(W):
                frontier = sets[W + w]
                while frontier != ZERO:
                    v = w * 64 + lowest(frontier)
                    frontier &= frontier - ONE
                    away[v] = level
                    for x in range(W):
                        sets[2 * W + x] |= parents[v * W + x]
            for x in range(W):
                new = sets[2 * W + x] & ~sets[x]
                sets[x] |= new
                sets[W + x] = new
                busy |= new != ZERO
            level += 1
        line = steps[row]
        line[:] = IGNORE
        first = columns - rest - each * E
        for e in range(E):
            u, v = np.int64(edges[row, e, 0]), np.int64(edges[row, e, 1])
            if packed:
                line[first + e] = away[v]
            else:
                line[first + 3 * e + 1] = away[u]
                line[first + 3 * e + 2] = away[v]


def steps_to_goal(
    graphs: Graphs, encoding: Literal["triples", "packed"], columns: int
) -> Int16[np.ndarray, "batch columns"]:
    """Edges on a shortest path to the goal from the vertex that stands in each of the last `columns` columns.

    `triples`: at both vertices of every edge. `packed`: at every edge, of its target. 0 at the goal itself, `FAR` where
    no path leads there, `IGNORE` at padding, markers and the query.
    """
    steps = np.empty((len(graphs), columns), np.int16)
    words = (0,) * words_for(graphs.vertices)
    _steps_to_goal(graphs.edges, graphs.edge_count, graphs.goal, words, encoding == "packed", steps)
    return steps
