"""Whole batches of graphs: draw until a row is accepted, name its vertices, shuffle its edges.

Row i is a pure function of (stream key, i): its generator begins at i, and a refused draw goes on with the same
generator. Source: *Transformers Struggle to Learn to Search* (ICLR 2025), §3.1.1 and A.1.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Int, UInt64
from numba import njit

from algoprobe.core.generator import begin, below, mix, uniform

from .bits import ONE, ZERO, bit, lowest, ones, size, words_for
from .distributions import (
    EDGES,
    GOAL,
    RIGHT,
    START,
    VERTICES,
    draw_balanced,
    draw_naive,
    draw_star,
    make_sketch,
)
from .graphs import Graphs
from .solver import count_paths, solve_one

NAIVE, STAR, BALANCED = 0, 1, 2
KINDS = {"naive": NAIVE, "star": STAR, "balanced": BALANCED}

MOST_PATHS = 64
"""Graphs with more shortest paths (test rows: more paths of any length) are refused."""


class Plan(NamedTuple):
    """What a kernel is to draw, as numbers."""

    vertices: int
    """V: the most vertices and edges of a graph."""
    ids: int
    """Vertices are named by distinct numbers from 1..ids."""
    kind: int
    """NAIVE, STAR or BALANCED."""
    lookahead_max: int
    wanted: int
    """Test cells: the one lookahead to draw; -1: every lookahead up to `lookahead_max`."""
    paper_mix: int
    in_degree: int
    chain: int
    test: int
    """1: the filters of test rows apply, and rows are kept distinct by entering them into the table."""
    grouped: int
    """1: edges are grouped by source."""
    limit: int
    """Draws after which a row is given up."""


@njit(inline="always")
def edge_hash(u, v):
    """A hash of one edge."""
    return mix(np.uint64(u) * np.uint64(1024) + np.uint64(v))


@njit(inline="always")
def row_hash(edge_sum, start, goal):
    """A hash of a row that no edge order changes: the sum over its edges, combined with start and goal. Never 0."""
    return mix(edge_sum ^ mix(np.uint64(start) * np.uint64(1024) + np.uint64(goal) + (ONE << np.uint64(32)))) | ONE


@njit(inline="always")
def place(table, value):
    """Slot of `value` in an open-addressing table of 2^k words, or the empty slot where it belongs."""
    cover = np.uint64(len(table) - 1)
    slot = (value >> np.uint64(20)) & cover
    while table[slot] != ZERO and table[slot] != value:
        slot = (slot + ONE) & cover
    return slot


@njit(cache=True)
def _sketch(state, sketch, words, plan, kind, L):
    """One draw; whether it passes everything that can be judged without names, and its (lookahead, distance)."""
    V = plan.vertices
    if kind == NAIVE:
        good = draw_naive(state, sketch, words, V, plan.in_degree, plan.test)
    elif kind == STAR:
        length = L
        if plan.wanted > 0:
            arms = 2 + below(state, (V - 1) // length - 1)
        else:
            pairs = 0
            for l in range(1, plan.lookahead_max + 1):
                pairs += (V - 1) // l
            arms, length = below(state, pairs), 1
            while arms >= (V - 1) // length:
                arms -= (V - 1) // length
                length += 1
            arms += 1
        good = draw_star(state, sketch, words, V, arms, length)
    else:
        good = draw_balanced(state, sketch, words, V, L, plan.chain)
    if not good:
        return False, 0, 0
    W = len(words)
    s, g = sketch.facts[START], sketch.facts[GOAL]
    answers = size(sketch.sets, RIGHT, words)
    if plan.test and (answers != 1 or size(sketch.children, s, words) < 2):
        return False, 0, 0
    lookahead, distance = solve_one(sketch.children, sketch.sets[RIGHT * W :], words, s, g, sketch.sets)
    if kind == BALANCED and plan.paper_mix == 0 and lookahead != L:
        return False, 0, 0
    if kind == BALANCED and lookahead > plan.lookahead_max:
        return False, 0, 0
    if plan.test and kind == NAIVE and distance < 2:
        return False, 0, 0
    if plan.test and kind == BALANCED and distance + 1 <= min(L, 2):
        return False, 0, 0
    return _few_paths(sketch, distance, plan.test), lookahead, distance


@njit(inline="always")
def _few_paths(sketch, distance, every):
    """Whether there are at most 64 shortest paths (`every`: paths of any length)."""
    N, E = sketch.facts[VERTICES], sketch.facts[EDGES]
    # At most the product of the in-degrees, and that at most 2 to the edges beyond a tree: counting is rarely needed.
    if E - (N - 1) <= 6:
        return True
    s, g = sketch.facts[START], sketch.facts[GOAL]
    steps = -1 if every else distance
    now, following = sketch.weight_in, sketch.weight_out
    return count_paths(sketch.source, sketch.target, E, N, s, g, steps, now, following) <= MOST_PATHS


@njit(cache=True)
def fill(
    key, indices, words, id_words, plan, naive_share, table, edges, edge_count, start, goal, label, right,
    lookahead, vertex_count, path_length, attempts, reserved_hits,
):  # fmt: skip
    """Fill the arrays of `Graphs` for the rows `indices`; return -1, or the first position that had to be given up."""
    V, W, most = plan.vertices, len(words), plan.ids
    sketch = make_sketch(V, words)
    state = np.zeros(2, np.uint64)
    ids = np.zeros(most, np.int64)
    order = np.zeros(V, np.int32)
    for row in range(len(indices)):
        begin(state, key, indices[row])
        kind = plan.kind
        if naive_share > 0.0 and uniform(state) < naive_share:
            kind = NAIVE
        L = plan.wanted
        if L < 0 and kind == BALANCED and plan.paper_mix == 0:
            L = below(state, plan.lookahead_max + 1)
        tries, hits = 0, 0
        while True:
            tries += 1
            if tries > plan.limit:
                return row
            if kind == BALANCED and plan.paper_mix == 1:
                L = below(state, plan.lookahead_max + 1)
            good, ahead, distance = _sketch(state, sketch, words, plan, kind, L)
            if not good:
                continue
            N, E = sketch.facts[VERTICES], sketch.facts[EDGES]
            for i in range(most):
                ids[i] = i + 1
            for i in range(N):
                j = i + below(state, most - i)
                ids[i], ids[j] = ids[j], ids[i]
            s, g = ids[sketch.facts[START]], ids[sketch.facts[GOAL]]
            total = ZERO
            for e in range(E):
                total += edge_hash(ids[sketch.source[e]], ids[sketch.target[e]])
            value = row_hash(total, s, g)
            slot = place(table, value)
            if table[slot] == value:
                hits += 1
                continue
            if plan.test:
                table[slot] = value
            break
        # Both 16-bit ids of an edge move as one 32-bit word; the shuffle builds the list from the inside out.
        for e in range(E):
            word = np.int32(ids[sketch.source[e]] | (ids[sketch.target[e]] << 16))
            j = below(state, e + 1)
            edges[row, e] = edges[row, j]
            edges[row, j] = word
        for e in range(E, V):
            edges[row, e] = 0
        if plan.grouped:
            _group(state, edges[row], E, most, order)
        for w in range(len(id_words)):
            right[row, w] = ZERO
        answers = 0
        for w in range(W):
            rest = sketch.sets[RIGHT * W + w]
            answers += ones(rest)
            while rest != ZERO:
                v = ids[w * 64 + lowest(rest)]
                rest &= rest - ONE
                right[row, v >> 6] |= bit(v)
        chosen = below(state, answers) if answers > 1 else 0
        for w in range(len(id_words)):
            rest = right[row, w]
            count = ones(rest)
            if chosen >= 0 and chosen < count:
                for _ in range(chosen):
                    rest &= rest - ONE
                label[row] = w * 64 + lowest(rest)
            chosen -= count
        edge_count[row] = E
        start[row] = s
        goal[row] = g
        lookahead[row] = ahead
        vertex_count[row] = N
        path_length[row] = distance
        attempts[row] = tries
        reserved_hits[row] = hits
    return -1


@njit
def _group(state, row, E, most, order):
    """Put the edges of each source next to each other, the sources in random order."""
    sources = np.arange(1, most + 1)
    for i in range(most - 1, 0, -1):
        j = below(state, i + 1)
        sources[i], sources[j] = sources[j], sources[i]
    k = 0
    for i in range(most):
        for e in range(E):
            if (row[e] & 0xFFFF) == sources[i]:
                order[k] = row[e]
                k += 1
    for e in range(E):
        row[e] = order[e]


EMPTY = np.zeros(2, np.uint64)
"""A table that reserves nothing."""


def make_table(values: UInt64[np.ndarray, "rows"]) -> UInt64[np.ndarray, "slots"]:
    """An open-addressing table of row hashes, at most a quarter full."""
    table = np.zeros(1 << max(4, int(4 * len(values) + 1).bit_length()), np.uint64)
    _enter(table, values)
    return table


@njit(cache=True)
def _enter(table, values):
    for value in values:
        table[place(table, value)] = value


@njit(cache=True)
def _hashes(edges, edge_count, start, goal, out):
    for row in range(len(edges)):
        total = ZERO
        for e in range(edge_count[row]):
            total += edge_hash(edges[row, e, 0], edges[row, e, 1])
        out[row] = row_hash(total, start[row], goal[row])


def row_hashes(graphs: Graphs) -> UInt64[np.ndarray, "batch"]:
    """The hash of every row that no edge order changes."""
    out = np.zeros(len(graphs), np.uint64)
    _hashes(graphs.edges, graphs.edge_count, graphs.start, graphs.goal, out)
    return out


def draw_graphs(
    plan: Plan,
    key: int,
    indices: Int[np.ndarray, "batch"],
    table: UInt64[np.ndarray, "slots"] = EMPTY,
    naive_share: float = 0.0,
) -> tuple[Graphs, int]:
    """The graphs of rows `indices` of stream `key`, none of which is in `table`; and -1, or the first row given up."""
    rows, V = len(indices), plan.vertices
    words, id_words = (0,) * words_for(V), (0,) * words_for(plan.ids)
    edges = np.empty((rows, V), np.int32)
    columns = [np.zeros(rows, np.int32) for _ in range(9)]
    edge_count, start, goal, label, lookahead, vertex_count, path_length, attempts, hits = columns
    right = np.zeros((rows, len(id_words)), np.uint64)
    stuck = fill(
        np.uint64(key), np.ascontiguousarray(indices, np.int64), words, id_words, plan, float(naive_share), table,
        edges, edge_count, start, goal, label, right, lookahead, vertex_count, path_length, attempts, hits,
    )  # fmt: skip
    pairs = edges.view(np.int16).reshape(rows, V, 2)
    graphs = Graphs(
        pairs, edge_count, start, goal, label, right, lookahead, vertex_count, path_length, attempts, hits, plan.ids
    )
    return graphs, stuck
