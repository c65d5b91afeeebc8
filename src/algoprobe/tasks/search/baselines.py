"""Shortcuts that need no search, as the probability that each answers a row right (ties: the expectation).

`chance`: a uniformly random child of the start. `goal_if_adjacent`: the goal if it is a child, else a random child.
`most_children`: the child with most children. `deepest_subtree`: the child from which the longest path leaves.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from numba import njit

from .bits import ZERO, bit
from .graphs import Graphs

NAMES = ("chance", "goal_if_adjacent", "most_children", "deepest_subtree")


@njit(cache=True)
def _baselines(edges, edge_count, start, goal, right, out):
    most = 64 * right.shape[1]
    degree, depth = np.zeros(most, np.int64), np.zeros(most, np.int64)
    for row in range(len(edges)):
        E, s = edge_count[row], start[row]
        degree[:] = 0
        depth[:] = 0
        for e in range(E):
            degree[edges[row, e, 0]] += 1
        for _ in range(most):
            changed = False
            for e in range(E):
                u, v = edges[row, e, 0], edges[row, e, 1]
                if depth[u] < depth[v] + 1:
                    depth[u] = depth[v] + 1
                    changed = True
            if not changed:
                break
        adjacent = False
        # For each score: its best value so far, how many children attain it, how many of these are right.
        all_right = 0
        best_degree, degree_ties, degree_right = -1, 0, 0
        best_depth, depth_ties, depth_right = -1, 0, 0
        for e in range(E):
            if edges[row, e, 0] != s:
                continue
            v = edges[row, e, 1]
            good = np.int64((right[row, v >> 6] & bit(v)) != ZERO)
            all_right += good
            adjacent |= v == goal[row]
            if degree[v] > best_degree:
                best_degree, degree_ties, degree_right = degree[v], 0, 0
            if degree[v] == best_degree:
                degree_ties += 1
                degree_right += good
            if depth[v] > best_depth:
                best_depth, depth_ties, depth_right = depth[v], 0, 0
            if depth[v] == best_depth:
                depth_ties += 1
                depth_right += good
        if degree[s] == 0:
            out[:, row] = 0.0
            continue
        out[0, row] = all_right / degree[s]
        out[1, row] = 1.0 if adjacent else out[0, row]
        out[2, row] = degree_right / degree_ties
        out[3, row] = depth_right / depth_ties


def baselines(graphs: Graphs) -> dict[str, Float[np.ndarray, "batch"]]:
    """Probability of a right answer, for each shortcut and row."""
    out = np.zeros((len(NAMES), len(graphs)))
    _baselines(graphs.edges, graphs.edge_count, graphs.start, graphs.goal, graphs.right, out)
    return dict(zip(NAMES, out))
