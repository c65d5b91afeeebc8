"""Several goals for one graph, and goals moved onto the way: rows that differ in what they ask.

`SearchConfig.goals` = k: row i asks question i mod k about graph i // k; start, edges, names and edge order stay. The
graph is row i // k of the plain stream and question 0 its own goal. The others are drawn uniformly and without
replacement among the other vertices that the start reaches, passing over those whose lookahead is more than the stage's
largest and those that would be a reserved test row. Where a graph has fewer than k goals, each question left over is
a row of its own: the own goal of a fresh graph, row i of a second stream. Samples in which each graph appears with
several goals: Frydenlund 2024 (arXiv 2410.13779).

`SearchConfig.along_path` = p: with probability p a goal d edges from the start gives way to a vertex of its shortest
path: a position uniform in 1..d (d is the goal itself), then a vertex uniform among those that stand there on a
shortest path. The goal stays where the other one would have too large a lookahead, would be a reserved test row, or is
the goal of an earlier question of the graph; so all goals of a graph are distinct. Goals from anywhere on the way:
Frydenlund 2025 (ACL, arXiv 2503.10542).

Rows remain pure functions of (stream key, index): the questions about a graph are drawn one after the other by a
generator that begins at the graph's number.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np
from jaxtyping import Int, UInt64
from numba import njit

from algoprobe.core.generator import begin, below, mix, uniform

from .bits import ONE, ZERO, clear, holds, lowest, ones, put, words_for
from .graphs import Graphs
from .sampling import EMPTY, Plan, draw_graphs, edge_hash, place, row_hash
from .solver import solve_one

QUESTIONS, ALONE = np.uint64(0x5851F42D4C957F2D), np.uint64(0x2545F4914F6CDD1D)
"""Turn the key of a stream into those of its questions and of its rows left over."""
RIGHT, TAKEN, REACHED = 5, 6, 7
"""Sets beyond the solver's own: right answers, goals asked for so far, vertices that the start reaches."""
START, OWN, LEFT, GOAL, LABEL, LOOKAHEAD, DISTANCE, DRAWS, HITS = range(9)
"""Facts about the open graph: its start, its own goal, goals not yet drawn; then about the question asked last."""


class Open(NamedTuple):
    """The graph that questions are drawn about, as tables of sets (see `bits`) over its ids."""

    children: np.ndarray
    parents: np.ndarray
    sets: np.ndarray
    """uint64[8 * W]: the solver's five, then `RIGHT`, `TAKEN` and `REACHED`."""
    candidates: np.ndarray
    """int64[64 * W]: goals not yet drawn."""
    facts: np.ndarray
    """int64[9]."""


@njit
def _spread(table, sets, words, slot):
    """Add to set `slot` all that `table` (children or parents) leads to from its vertices; set 1 is scratch."""
    W = len(words)
    for w in range(W):
        sets[W + w] = sets[slot * W + w]
    busy = True
    while busy:
        busy = False
        for w in range(W):
            while sets[W + w] != ZERO:
                v = w * 64 + lowest(sets[W + w])
                sets[W + w] &= sets[W + w] - ONE
                for x in range(W):
                    new = table[v * W + x] & ~sets[slot * W + x]
                    sets[slot * W + x] |= new
                    sets[W + x] |= new
                    # What joins a word already passed waits for another round.
                    busy |= new != ZERO


@njit
def _walk(table, sets, words, slot, steps):
    """Replace set `slot` by the ends of all walks of `steps` edges of `table` from its vertices; set 2 is scratch."""
    W = len(words)
    for _ in range(steps):
        clear(sets, 2, words)
        for w in range(W):
            rest = sets[slot * W + w]
            while rest != ZERO:
                v = w * 64 + lowest(rest)
                rest &= rest - ONE
                for x in range(W):
                    sets[2 * W + x] |= table[v * W + x]
        for w in range(W):
            sets[slot * W + w] = sets[2 * W + w]


@njit
def _pick(state, sets, slot, words):
    """A uniform member of set `slot`, which is not empty."""
    W, count = len(words), 0
    for w in range(W):
        count += ones(sets[slot * W + w])
    chosen = below(state, count) if count > 1 else 0
    for w in range(W):
        rest = sets[slot * W + w]
        while rest != ZERO:
            if chosen == 0:
                return w * 64 + lowest(rest)
            chosen -= 1
            rest &= rest - ONE
    return -1


@njit
def _judge(graph, words, goal):
    """Put the right answers for `goal` into their set, and its lookahead and distance among the facts."""
    W, sets = len(words), graph.sets
    clear(sets, 0, words)
    put(sets, 0, words, goal)
    _spread(graph.parents, sets, words, 0)
    s = graph.facts[START]
    for w in range(W):
        sets[RIGHT * W + w] = sets[w] & graph.children[s * W + w]
    ahead, distance = solve_one(graph.children, sets[RIGHT * W :], words, s, goal, sets)
    graph.facts[GOAL], graph.facts[LOOKAHEAD], graph.facts[DISTANCE] = goal, ahead, distance


@njit
def _allowed(graph, table, edge_sum, lookahead_max):
    """Whether the goal judged last may be asked for; a reserved test row is counted as dropped."""
    value = row_hash(edge_sum, graph.facts[START], graph.facts[GOAL])
    reserved = table[place(table, value)] == value
    graph.facts[HITS] += reserved
    return not reserved and graph.facts[LOOKAHEAD] <= lookahead_max


@njit
def _open(graph, words, edges, E):
    """Fill the tables of the graph, nothing being asked yet; the sum of its edges' hashes."""
    for e in range(E):
        for side in range(2):
            v = np.int64(edges[e, side])
            clear(graph.children, v, words)
            clear(graph.parents, v, words)
    total = ZERO
    for e in range(E):
        u, v = np.int64(edges[e, 0]), np.int64(edges[e, 1])
        put(graph.children, u, words, v)
        put(graph.parents, v, words, u)
        total += edge_hash(u, v)
    clear(graph.sets, TAKEN, words)
    graph.facts[LEFT] = -1
    return total


@njit
def _find_candidates(graph, words):
    """All that the start reaches, but the graph's own goal."""
    W, sets, facts = len(words), graph.sets, graph.facts
    clear(sets, REACHED, words)
    put(sets, REACHED, words, facts[START])
    _spread(graph.children, sets, words, REACHED)
    facts[LEFT] = 0
    for w in range(W):
        rest = sets[REACHED * W + w]
        while rest != ZERO:
            v = w * 64 + lowest(rest)
            rest &= rest - ONE
            if v != facts[START] and v != facts[OWN]:
                graph.candidates[facts[LEFT]] = v
                facts[LEFT] += 1


@njit
def _next_goal(state, graph, words, table, edge_sum, lookahead_max):
    """Draw and judge the next goal; whether there was one."""
    facts = graph.facts
    if facts[LEFT] < 0:
        _find_candidates(graph, words)
    facts[DRAWS], facts[HITS] = 0, 0
    while facts[LEFT] > 0:
        j = below(state, facts[LEFT])
        v = graph.candidates[j]
        facts[LEFT] -= 1
        graph.candidates[j] = graph.candidates[facts[LEFT]]
        if not holds(graph.sets, TAKEN, words, v):
            facts[DRAWS] += 1
            _judge(graph, words, v)
            if _allowed(graph, table, edge_sum, lookahead_max):
                return True
    return False


@njit
def _move(state, graph, words, table, edge_sum, lookahead_max):
    """Put a vertex of its shortest path in the goal's place, if that may be asked for."""
    W, sets, facts = len(words), graph.sets, graph.facts
    goal, distance = facts[GOAL], facts[DISTANCE]
    k = 1 + below(state, distance)
    if k == distance:
        return
    clear(sets, 0, words)
    clear(sets, 1, words)
    put(sets, 0, words, facts[START])
    put(sets, 1, words, goal)
    # Walks of k edges from the start and of distance - k edges on to the goal join to shortest paths.
    _walk(graph.children, sets, words, 0, k)
    _walk(graph.parents, sets, words, 1, distance - k)
    for w in range(W):
        sets[w] &= sets[W + w]
    vertex = _pick(state, sets, 0, words)
    if not holds(sets, TAKEN, words, vertex):
        _judge(graph, words, vertex)
        if not _allowed(graph, table, edge_sum, lookahead_max):
            _judge(graph, words, goal)


@njit(cache=True)
def _ask(
    key, order, indices, goals, along_path, lookahead_max, words, table, edges, edge_count, start, goal, label, right,
    lookahead, path_length, attempts, reserved_hits, alone,
):  # fmt: skip
    """Put into every row, which holds its graph's own goal, what it asks; mark in `alone` those with nothing left.

    `order` sorts the rows by index, so that the questions about a graph come one after the other.
    """
    W, state = len(words), np.zeros(2, np.uint64)
    graph = Open(
        np.zeros(64 * W * W, np.uint64),
        np.zeros(64 * W * W, np.uint64),
        np.zeros(8 * W, np.uint64),
        np.zeros(64 * W, np.int64),
        np.zeros(9, np.int64),
    )
    facts, number, asked, edge_sum = graph.facts, np.int64(-1), -1, ZERO
    for row in order:
        question = indices[row] % goals
        if indices[row] // goals != number:
            number, asked = indices[row] // goals, -1
            begin(state, mix(key ^ QUESTIONS), number)
            edge_sum = _open(graph, words, edges[row], edge_count[row])
            facts[START], facts[OWN], facts[GOAL], facts[LABEL] = start[row], goal[row], goal[row], label[row]
            facts[LOOKAHEAD], facts[DISTANCE] = lookahead[row], path_length[row]
            facts[DRAWS], facts[HITS] = attempts[row], reserved_hits[row]
            for w in range(W):
                graph.sets[RIGHT * W + w] = right[row, w]
        while asked < question:
            if asked >= 0 and not _next_goal(state, graph, words, table, edge_sum, lookahead_max):
                break
            asked += 1
            if along_path > 0.0 and uniform(state) < along_path:
                _move(state, graph, words, table, edge_sum, lookahead_max)
            if asked > 0 or facts[GOAL] != facts[OWN]:
                facts[LABEL] = _pick(state, graph.sets, RIGHT, words)
            put(graph.sets, TAKEN, words, facts[GOAL])
        alone[row] = asked < question
        goal[row], label[row] = facts[GOAL], facts[LABEL]
        lookahead[row], path_length[row] = facts[LOOKAHEAD], facts[DISTANCE]
        attempts[row], reserved_hits[row] = facts[DRAWS], facts[HITS]
        for w in range(W):
            right[row, w] = graph.sets[RIGHT * W + w]


def draw_questions(
    plan: Plan,
    key: int,
    indices: Int[np.ndarray, "batch"],
    table: UInt64[np.ndarray, "slots"] = EMPTY,
    naive_share: float = 0.0,
    goals: int = 1,
    along_path: float = 0.0,
) -> tuple[Graphs, int]:
    """As `sampling.draw_graphs`, with up to `goals` questions a graph, moved along their paths now and then.

    `attempts` of a question after a graph's first are the goals looked at.
    """
    numbers, which = np.unique(indices // goals, return_inverse=True)
    drawn, stuck = draw_graphs(plan, key, numbers, table, naive_share)
    if stuck >= 0:
        return drawn, int(np.argmax(which == stuck))
    rows, alone = drawn[which], np.zeros(len(indices), np.bool_)
    _ask(
        np.uint64(key), np.argsort(indices, kind="stable"), np.ascontiguousarray(indices, np.int64), goals,
        float(along_path), plan.lookahead_max, (0,) * words_for(plan.ids), table, rows.edges, rows.edge_count,
        rows.start, rows.goal, rows.label, rows.right, rows.lookahead, rows.path_length, rows.attempts,
        rows.reserved_hits, alone,
    )  # fmt: skip
    if alone.any():
        at = np.flatnonzero(alone)
        fresh, stuck = draw_questions(plan, int(np.uint64(key) ^ ALONE), indices[at], table, naive_share, 1, along_path)
        if stuck >= 0:
            return rows, int(at[stuck])
        for field in dataclasses.fields(Graphs):
            if field.name != "vertices":
                getattr(rows, field.name)[at] = getattr(fresh, field.name)
    return rows, -1
