"""Graphs as tokens, and back. Rows are right-aligned; the answer is read from the last column.

`triples` (the paper's layout), one id a column, vertices named by 1..V (or 1..`SearchConfig.ids`, then for V):

    PAD … PAD | EDGE u v | EDGE u v | … | QUERY s g PATH s

with PATH = V+1, EDGE = V+2, PAD = V+3, QUERY = V+4. `packed`, two ids a column:

    (0, 0) … (0, 0) | (u, v) | (u, v) | … | (V+s, V+g)
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from jaxtyping import Int
from numba import njit

from algoprobe.core.errors import UsageError, unknown
from algoprobe.core.sizes import Sizes
from algoprobe.tasks.batch import Batch

from .bits import words_for
from .graphs import Graphs
from .solver import solve

ENCODINGS = ("triples", "packed")


def sizes(encoding: str, vertices: int, n: int) -> Sizes:
    """The shapes a model needs, where vertices are named by 1..`vertices` and rows have up to (n-5)//3 edges."""
    if encoding == "triples":
        return Sizes(vocabulary=vertices + 5, length=n, outputs=vertices + 5, fields=1)
    if encoding == "packed":
        return Sizes(2 * vertices + 1, length=(n - 5) // 3 + 1, outputs=vertices + 1, fields=2, names=vertices)
    raise unknown("task.encoding", encoding, ENCODINGS)


@njit(cache=True)
def _triples(edges, edge_count, start, goal, V, tokens):
    T = tokens.shape[1]
    for row in range(len(edges)):
        E = np.int64(edge_count[row])
        first = T - 5 - 3 * E
        line = tokens[row]
        for t in range(first):
            line[t, 0] = V + 3
        for e in range(E):
            line[first + 3 * e, 0] = V + 2
            line[first + 3 * e + 1, 0] = edges[row, e, 0]
            line[first + 3 * e + 2, 0] = edges[row, e, 1]
        line[T - 5, 0] = V + 4
        line[T - 4, 0] = start[row]
        line[T - 3, 0] = goal[row]
        line[T - 2, 0] = V + 1
        line[T - 1, 0] = start[row]


@njit(cache=True)
def _packed(edges, edge_count, start, goal, V, tokens):
    T = tokens.shape[1]
    for row in range(len(edges)):
        E = np.int64(edge_count[row])
        first = T - 1 - E
        line = tokens[row]
        for t in range(first):
            line[t, 0] = 0
            line[t, 1] = 0
        for e in range(E):
            line[first + e, 0] = edges[row, e, 0]
            line[first + e, 1] = edges[row, e, 1]
        line[T - 1, 0] = V + start[row]
        line[T - 1, 1] = V + goal[row]


@njit(cache=True)
def _accepted(right, accepted):
    last = accepted.shape[2] - 1
    for row in range(len(right)):
        for w in range(right.shape[1]):
            word = right[row, w]
            # Most words hold one id; shifting out the low zeros first keeps this short.
            v = w * 64
            while word != np.uint64(0) and v <= last:
                if word & np.uint64(1):
                    accepted[row, 0, v] = True
                word >>= np.uint64(1)
                v += 1


def encode(graphs: Graphs, encoding: Literal["triples", "packed"], index: Int[np.ndarray, "batch"]) -> Batch:
    """The rows as a `Batch`, as long as its longest row; `index` is handed through."""
    V = graphs.vertices
    shape = sizes(encoding, V, 3 * V + 5)
    each, rest = (3, 5) if encoding == "triples" else (1, 1)
    lengths = each * graphs.edge_count + rest
    width = int(lengths.max()) if len(graphs) else rest
    tokens = np.empty((len(graphs), width, shape.fields), np.int16)
    kernel = _triples if encoding == "triples" else _packed
    kernel(graphs.edges, graphs.edge_count, graphs.start, graphs.goal, V, tokens)
    accepted = np.zeros((len(graphs), 1, shape.outputs), np.bool_)
    _accepted(graphs.right, accepted)
    axes = {
        "lookahead": graphs.lookahead,
        "path_length": graphs.path_length,
        "edges": graphs.edge_count,
        "vertices": graphs.vertex_count,
    }
    return Batch(tokens, lengths, graphs.label[:, None].astype(np.int64), accepted, axes, index, source=graphs)


@njit(cache=True)
def _parse(tokens, packed, V, edges, edge_count, start, goal):
    """Fill the graphs; return -1, or the first row that does not follow the layout."""
    T = tokens.shape[1]
    query = T - 1 if packed else T - 5
    step = 1 if packed else 3
    for row in range(len(tokens)):
        line = tokens[row]
        if query < 0:
            return row
        if packed:
            s, g = line[query, 0] - V, line[query, 1] - V
        else:
            s, g = line[T - 4, 0], line[T - 3, 0]
            if line[query, 0] != V + 4 or line[T - 2, 0] != V + 1 or line[T - 1, 0] != s:
                return row
        if not (1 <= s <= V and 1 <= g <= V):
            return row
        count, t = 0, query - step
        while t >= 0 and (line[t, 0] != 0 if packed else line[t, 0] == V + 2):
            count += 1
            t -= step
        if count > V:
            return row
        first = query - step * count
        for t in range(first):
            if packed and (line[t, 0] != 0 or line[t, 1] != 0):
                return row
            if not packed and line[t, 0] != V + 3:
                return row
        for e in range(count):
            at = first + step * e
            u = line[at, 0] if packed else line[at + 1, 0]
            v = line[at, 1] if packed else line[at + 2, 0]
            if not (1 <= u <= V and 1 <= v <= V):
                return row
            edges[row, e, 0] = u
            edges[row, e, 1] = v
        edge_count[row], start[row], goal[row] = count, s, g
    return -1


def decode(
    tokens: Int[np.ndarray, "batch length fields"], encoding: Literal["triples", "packed"], vertices: int
) -> Graphs:
    """The graphs that rows of tokens describe, solved; the inverse of `encode`, and the way in for your own rows.

    `vertices` is the largest id and the most edges a row can have.
    `label` is the smallest right answer (0 if the goal cannot be reached), `attempts` and `reserved_hits` are 0.
    Raises `UsageError` on a row that does not follow the layout.
    """
    if encoding not in ENCODINGS:
        raise unknown("task.encoding", encoding, ENCODINGS)
    rows, W = len(tokens), words_for(vertices)
    edges = np.zeros((rows, vertices, 2), np.int16)
    edge_count, start, goal = (np.zeros(rows, np.int32) for _ in range(3))
    wrong = _parse(tokens.astype(np.int64), encoding == "packed", vertices, edges, edge_count, start, goal)
    if wrong >= 0:
        raise UsageError(
            f"tokens: row {wrong} does not follow the {encoding!r} layout for {vertices} vertices; allowed: edges of "
            f"ids 1 to {vertices}, at most {vertices} of them, then the query, padding only on the left."
        )
    found = solve(edges, edge_count, start, goal, vertices)
    label = np.zeros(rows, np.int32)
    for w in range(W - 1, -1, -1):
        word = found.right[:, w]
        low = word & (~word + np.uint64(1))
        position = 64 * w + np.log2(np.maximum(low, np.uint64(1)).astype(np.float64)).astype(np.int32)
        label = np.where(word != 0, position, label).astype(np.int32)
    nothing = np.zeros(rows, np.int32)
    return Graphs(
        edges, edge_count, start, goal, label, found.right, found.lookahead, found.vertex_count, found.path_length,
        nothing, nothing.copy(), vertices,
    )  # fmt: skip
