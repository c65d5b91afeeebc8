"""Exact answers for one graph or a batch: right answers, lookahead, distances, path counts.

Lookahead is the number of breadth-first levels after which the search need go no further: the goal is seen, or every
branch but the wanted one has died out. Source: *Transformers Struggle to Learn to Search* (ICLR 2025), A.1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Int, Shaped, UInt64
from numba import njit

from .bits import ONE, ZERO, bit, clear, holds, lowest, put, size, words_for

MANY = 1 << 40
"""Path counts stop growing here, so that they cannot overflow."""


@njit(cache=True)
def survey(children, words, start, goal, wanted, sets):
    """`(lookahead, distance, through)` of the search from `start` when `wanted` is taken for the answer.

    `distance` is the number of edges to the goal, -1 if it cannot be reached; `through` says whether `wanted` is the
    first step of a shortest path. `sets` is scratch of five sets: wanted branch, others, seen, and the next two.
    """
    W = len(words)
    clear(sets, 0, words)
    put(sets, 0, words, wanted)
    for w in range(W):
        first = children[start * W + w]
        sets[2 * W + w] = first
        sets[W + w] = first & ~sets[w]
    lookahead, level = -1, 0
    while True:
        alive, rivals = ZERO, ZERO
        for w in range(W):
            alive |= sets[w] | sets[W + w]
            rivals |= sets[W + w]
        if lookahead < 0 and rivals == ZERO:
            lookahead = level
        if alive == ZERO:
            return lookahead, -1, False
        level += 1
        through = holds(sets, 0, words, goal)
        if through or holds(sets, 1, words, goal):
            return (level if lookahead < 0 else lookahead), level, through
        for side in range(2):
            for w in range(W):
                sets[(3 + side) * W + w] = ZERO
            for w in range(W):
                rest = sets[side * W + w]
                while rest != ZERO:
                    v = w * 64 + lowest(rest)
                    rest &= rest - ONE
                    for x in range(W):
                        sets[(3 + side) * W + x] |= children[v * W + x]
        for w in range(W):
            # A vertex reached from both sides in one level counts as the wanted branch's.
            ours = sets[3 * W + w] & ~sets[2 * W + w]
            theirs = sets[4 * W + w] & ~sets[2 * W + w] & ~ours
            sets[w] = ours
            sets[W + w] = theirs
            sets[2 * W + w] |= ours | theirs


@njit(cache=True)
def solve_one(children, right, words, start, goal, sets):
    """`(lookahead, distance)` of a graph whose right answers are known.

    Where several first steps lie on shortest paths, the lookahead is the smallest of theirs: the least search that
    justifies a right answer. So it depends on the graph alone, neither on names nor on the label.
    """
    lookahead, distance = -1, -1
    for w in range(len(words)):
        rest = right[w]
        while rest != ZERO:
            v = w * 64 + lowest(rest)
            rest &= rest - ONE
            ahead, far, through = survey(children, words, start, goal, v, sets)
            distance = far
            if through and (lookahead < 0 or ahead < lookahead):
                lookahead = ahead
    return lookahead, distance


@njit(cache=True)
def count_paths(source, target, edges, vertices, start, goal, steps, now, following):
    """Number of walks from `start` to `goal` of exactly `steps` edges; of any length if `steps` is -1.

    In an acyclic graph walks are paths. `now` and `following` are int64 scratch, one entry a vertex.
    """
    now[:vertices] = 0
    now[start] = 1
    total = 0
    for step in range(1, vertices):
        following[:vertices] = 0
        alive = False
        for e in range(edges):
            count = now[source[e]]
            if count > 0:
                following[target[e]] = min(following[target[e]] + count, MANY)
                alive = True
        if step == steps:
            return following[goal]
        total = min(total + following[goal], MANY)
        if not alive:
            break
        now[:vertices] = following[:vertices]
    return total if steps < 0 else 0


@njit(cache=True)
def _solve(edges, edge_count, start, goal, words, right, lookahead, distance, vertices, shortest, paths):
    rows, capacity = edges.shape[0], edges.shape[1]
    W = len(words)
    most = 64 * W
    children = np.zeros(most * W, np.uint64)
    parents = np.zeros(most * W, np.uint64)
    sets = np.zeros(5 * W, np.uint64)
    source, target = np.zeros(capacity, np.int64), np.zeros(capacity, np.int64)
    now, following = np.zeros(most, np.int64), np.zeros(most, np.int64)
    for row in range(rows):
        children[:] = ZERO
        parents[:] = ZERO
        clear(sets, 0, words)
        s, g, E = np.int64(start[row]), np.int64(goal[row]), np.int64(edge_count[row])
        for e in range(E):
            u, v = np.int64(edges[row, e, 0]), np.int64(edges[row, e, 1])
            source[e], target[e] = u, v
            put(children, u, words, v)
            put(parents, v, words, u)
            put(sets, 0, words, u)
            put(sets, 0, words, v)
        vertices[row] = size(sets, 0, words)
        # Backward closure from the goal: sets[0] is done, sets[1] still to expand.
        clear(sets, 0, words)
        clear(sets, 1, words)
        put(sets, 0, words, g)
        put(sets, 1, words, g)
        busy = True
        while busy:
            busy = False
            for w in range(W):
                while sets[W + w] != ZERO:
                    busy = True
                    v = w * 64 + lowest(sets[W + w])
                    sets[W + w] &= ~bit(v)
                    for x in range(W):
                        new = parents[v * W + x] & ~sets[x]
                        sets[x] |= new
                        sets[W + x] |= new
        for w in range(W):
            right[row, w] = sets[w] & children[s * W + w]
        lookahead[row], distance[row] = solve_one(children, right[row], words, s, g, sets)
        if distance[row] >= 0:
            shortest[row] = count_paths(source, target, E, most, s, g, distance[row], now, following)
            paths[row] = count_paths(source, target, E, most, s, g, -1, now, following)


@dataclass(frozen=True)
class Solution:
    """What the solver finds for each row."""

    right: UInt64[np.ndarray, "batch words"]
    """Children of the start from which the goal can be reached, bit v for vertex id v."""
    lookahead: Int[np.ndarray, "batch"]
    """-1 where the goal cannot be reached."""
    path_length: Int[np.ndarray, "batch"]
    """Edges on a shortest path; -1 where there is none."""
    vertex_count: Int[np.ndarray, "batch"]
    """Vertices that have an edge."""
    shortest_paths: Int[np.ndarray, "batch"]
    """Number of shortest paths from start to goal."""
    paths: Int[np.ndarray, "batch"]
    """Number of all paths from start to goal."""


def solve(
    edges: Int[np.ndarray, "batch capacity 2"],
    edge_count: Int[np.ndarray, "batch"],
    start: Int[np.ndarray, "batch"],
    goal: Int[np.ndarray, "batch"],
    vertices: int,
) -> Solution:
    """Solve acyclic graphs on the ids 1..`vertices`, of which the first `edge_count` edges of each row count."""
    W, rows = words_for(vertices), len(edges)
    right = np.zeros((rows, W), np.uint64)
    lookahead, distance, present = (np.zeros(rows, np.int32) for _ in range(3))
    shortest, paths = np.zeros(rows, np.int64), np.zeros(rows, np.int64)
    _solve(edges, edge_count, start, goal, (0,) * W, right, lookahead, distance, present, shortest, paths)
    return Solution(right, lookahead, distance, present, shortest, paths)


def unpack(right: Shaped[np.ndarray, "batch words"], vertices: int) -> Shaped[np.ndarray, "batch ids"]:
    """Sets of vertex ids as a bool table `[batch, vertices + 1]`; column v is id v."""
    bits = np.unpackbits(np.ascontiguousarray(right).view(np.uint8), axis=1, bitorder="little")
    return bits[:, : vertices + 1].astype(bool)
