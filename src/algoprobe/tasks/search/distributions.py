"""The three graph distributions, one draw at a time, as kernels.

Source: *Transformers Struggle to Learn to Search* (ICLR 2025), §3.1.1 and A.1; where the authors' code draws otherwise
than the paper says, the code counts and the option says so (`SearchConfig.in_degree`, `SearchConfig.mix`).

A draw fills a `Sketch`: a graph on raw vertices 0, 1, 2, …, not yet named. It returns False when it is to be thrown
away. Wherever a test can be made before the rest is drawn it is: what does not depend on later draws may be judged
early without changing the distribution of what is kept.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from algoprobe.core.generator import below

from .bits import ONE, ZERO, clear, highest, holds, lowest, put, size


class Sketch(NamedTuple):
    """Scratch of a kernel: the graph drawn last. Sets are rows of flat mask tables (see `bits`)."""

    source: np.ndarray
    """int64[V + 8]: where each edge starts."""
    target: np.ndarray
    """int64[V + 8]: where each edge ends."""
    children: np.ndarray
    """uint64[V * W]: the children of each vertex."""
    reach: np.ndarray
    """uint64[V * W]: each vertex and its descendants (balanced)."""
    sets: np.ndarray
    """uint64[8 * W]: right answers in set 5; the rest is working space."""
    weight_in: np.ndarray
    """int64[2 V + 16]: a vertex stands here once for each unit of in-degree that counts (balanced)."""
    weight_out: np.ndarray
    """int64[2 V + 16]: the same for out-degree."""
    parents: np.ndarray
    """int64[V + 8]: number of parents of each vertex (naive)."""
    facts: np.ndarray
    """int64[4]: vertices, edges, start, goal."""


RIGHT = 5
VERTICES, EDGES, START, GOAL = 0, 1, 2, 3


@njit
def make_sketch(V, words):
    """An empty sketch for graphs of up to V vertices and V edges."""
    W = len(words)
    return Sketch(
        np.zeros(V + 8, np.int64),
        np.zeros(V + 8, np.int64),
        np.zeros((V + 1) * W, np.uint64),
        np.zeros((V + 1) * W, np.uint64),
        np.zeros(8 * W, np.uint64),
        np.zeros(2 * V + 16, np.int64),
        np.zeros(2 * V + 16, np.int64),
        np.zeros(V + 8, np.int64),
        np.zeros(4, np.int64),
    )


@njit(inline="always")
def _edge(sketch, words, e, u, v):
    sketch.source[e] = u
    sketch.target[e] = v
    put(sketch.children, u, words, v)
    return e + 1


@njit
def draw_naive(state, sketch, words, V, in_degree, last_counts):
    """One naive draw. `last_counts`: start and goal may be the topologically last vertex (test rows).

    An unordered pair is drawn and put in topological order: the other order is always unreachable. Only ancestors of
    the goal get parents before the goal is known to be reachable.
    """
    W = len(words)
    N = 3 + below(state, V - 3)
    among = N if last_counts else N - 1
    a, b = below(state, among), below(state, among - 1)
    if b >= a:
        b += 1
    s, g = min(a, b), max(a, b)
    total = 0
    for v in range(1, N):
        # One draw decides both: half of the time one parent, else uniform in 1..in_degree.
        r = below(state, 2 * in_degree)
        count = min(v, 1 if r < in_degree else r - in_degree + 1)
        sketch.parents[v] = count
        total += count
        if total + N - 1 - v > V:
            return False
    for i in range(N * W):
        sketch.children[i] = ZERO
    clear(sketch.sets, 0, words)
    clear(sketch.sets, 1, words)
    put(sketch.sets, 0, words, g)
    E = 0
    # Set 0: ancestors of the goal (itself included). Set 1: vertices whose parents are drawn.
    v = g
    while v > s:
        E = _draw_parents(state, sketch, words, v, E, True)
        put(sketch.sets, 1, words, v)
        v = -1
        for w in range(W - 1, -1, -1):
            rest = sketch.sets[w] & ~sketch.sets[W + w]
            if rest != ZERO:
                v = w * 64 + highest(rest)
                break
    if not holds(sketch.sets, 0, words, s):
        return False
    for v in range(1, N):
        if not holds(sketch.sets, 1, words, v):
            E = _draw_parents(state, sketch, words, v, E, False)
    for w in range(W):
        sketch.sets[RIGHT * W + w] = sketch.sets[w] & sketch.children[s * W + w]
    sketch.facts[VERTICES] = N
    sketch.facts[EDGES] = E
    sketch.facts[START] = s
    sketch.facts[GOAL] = g
    return True


@njit(inline="always")
def _draw_parents(state, sketch, words, v, E, note):
    """Distinct parents of v, uniform among the vertices before it; set 0 gains them if `note`."""
    last = E + sketch.parents[v]
    while last > E:
        u = below(state, v)
        if not holds(sketch.children, u, words, v):
            E = _edge(sketch, words, E, u, v)
            if note:
                put(sketch.sets, 0, words, u)
    return E


@njit
def draw_star(state, sketch, words, V, arms, length):
    """A star: `arms` chains of `length` vertices leave the start; the goal ends the first."""
    N, E = 1 + arms * length, 0
    for i in range(N * len(words)):
        sketch.children[i] = ZERO
    for v in range(1, N):
        E = _edge(sketch, words, E, 0 if (v - 1) % length == 0 else v - 1, v)
    clear(sketch.sets, RIGHT, words)
    put(sketch.sets, RIGHT, words, 1)
    sketch.facts[VERTICES] = N
    sketch.facts[EDGES] = E
    sketch.facts[START] = 0
    sketch.facts[GOAL] = length
    return True


@njit
def draw_balanced(state, sketch, words, V, L, chain):
    """One balanced draw of wanted lookahead L."""
    W = len(words)
    B = 1 + below(state, 2) if L == 0 else 2 + below(state, (V - 1) // L - 1)
    N = max(min(L * B + 1 + below(state, 6), V), 2, 1 + B * L)
    for i in range(N * W):
        sketch.children[i] = ZERO
    clear(sketch.reach, 0, words)
    put(sketch.reach, 0, words, 0)
    E, used = 0, 1
    for branch in range(B):
        length = L
        if branch == 0:
            length = max(1, L)
        elif N - used - (B - branch) * L > 0:
            length += below(state, 2)
        E = _branch(sketch, words, E, used, length)
        used += length
    if chain:
        length = below(state, N - used + 1)
        E = _chain(sketch, words, E, used, length)
        used += length
    if used < N:
        for e in range(E):
            sketch.weight_in[e] = sketch.target[e]
            sketch.weight_out[e] = sketch.source[e]
        E = _extras(state, sketch, words, V, E, used, N)
        if E > V:
            return False
    g = max(1, L)
    clear(sketch.sets, RIGHT, words)
    for w in range(W):
        rest = sketch.children[w]
        while rest != ZERO:
            v = w * 64 + lowest(rest)
            rest &= rest - ONE
            if holds(sketch.reach, v, words, g):
                put(sketch.sets, RIGHT, words, v)
    sketch.facts[VERTICES] = N
    sketch.facts[EDGES] = E
    sketch.facts[START] = 0
    sketch.facts[GOAL] = g
    return True


@njit(inline="always")
def _branch(sketch, words, E, first, length):
    """A path of `length` new vertices that leaves the start."""
    W = len(words)
    for i in range(length):
        E = _edge(sketch, words, E, 0 if i == 0 else first + i - 1, first + i)
    for v in range(first + length - 1, first - 1, -1):
        for w in range(W):
            sketch.reach[v * W + w] = ZERO if v == first + length - 1 else sketch.reach[(v + 1) * W + w]
        put(sketch.reach, v, words, v)
        put(sketch.reach, 0, words, v)
    return E


@njit(inline="always")
def _chain(sketch, words, E, first, length):
    """A path of `length` new vertices whose last points at the start."""
    W = len(words)
    for v in range(first + length - 1, first - 1, -1):
        after = 0 if v == first + length - 1 else v + 1
        E = _edge(sketch, words, E, v, after)
        for w in range(W):
            sketch.reach[v * W + w] = sketch.reach[after * W + w]
        put(sketch.reach, v, words, v)
    return E


@njit(inline="always")
def _extras(state, sketch, words, V, E, first, N):
    """Vertices first..N-1, each with random children and parents among the earlier ones.

    Weight 0.5 + degree: one ticket for each vertex and two for each unit of degree. Drawing again whatever may not be
    taken gives the weighted draw without replacement.
    """
    W = len(words)
    heads, tails = E, E
    for x in range(first, N):
        clear(sketch.sets, 0, words)  # children
        clear(sketch.sets, 1, words)  # parents
        clear(sketch.sets, 2, words)  # descendants
        clear(sketch.children, x, words)
        wanted = min(below(state, 4), x)
        for _ in range(wanted):
            while True:
                ticket = below(state, x + 2 * heads)
                v = ticket if ticket < x else sketch.weight_in[(ticket - x) >> 1]
                if not holds(sketch.sets, 0, words, v):
                    break
            put(sketch.sets, 0, words, v)
            E = _edge(sketch, words, E, x, v)
            for w in range(W):
                sketch.sets[2 * W + w] |= sketch.reach[v * W + w]
        # Entered after the draws: whoever was drawn cannot be drawn again, so this does not matter here.
        for w in range(W):
            rest = sketch.sets[w]
            while rest != ZERO:
                sketch.weight_in[heads] = w * 64 + lowest(rest)
                rest &= rest - ONE
                heads += 1
        asked = below(state, 4) if wanted > 0 else 1 + below(state, 3)
        asked = min(asked, x - size(sketch.sets, 2, words))
        if E + asked > V:
            return V + 1
        for _ in range(asked):
            while True:
                ticket = below(state, x + 2 * tails)
                v = ticket if ticket < x else sketch.weight_out[(ticket - x) >> 1]
                if not holds(sketch.sets, 2, words, v) and not holds(sketch.sets, 1, words, v):
                    break
            put(sketch.sets, 1, words, v)
            E = _edge(sketch, words, E, v, x)
        for e in range(E - asked, E):
            sketch.weight_out[tails] = sketch.source[e]
            tails += 1
        put(sketch.sets, 2, words, x)
        for w in range(W):
            sketch.reach[x * W + w] = sketch.sets[2 * W + w]
        if asked > 0:
            for v in range(x):
                meets = ZERO
                for w in range(W):
                    meets |= sketch.reach[v * W + w] & sketch.sets[W + w]
                if meets != ZERO:
                    for w in range(W):
                        sketch.reach[v * W + w] |= sketch.sets[2 * W + w]
    return E
