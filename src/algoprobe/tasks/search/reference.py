"""The distributions and the solver once more, in plain Python, straight from their description.

Slow and obvious. Tests compare the kernels with it; nothing else uses it. Graphs here are lists of edges on vertices
0, 1, 2, …; random choices come from a `random.Random`.
"""

from __future__ import annotations

import itertools
import random

Edges = list[tuple[int, int]]


def children_of(edges: Edges) -> dict[int, list[int]]:
    """Children of every vertex."""
    found: dict[int, list[int]] = {v: [] for edge in edges for v in edge}
    for u, v in edges:
        found[u].append(v)
    return found


def descendants(children: dict[int, list[int]], v: int) -> set[int]:
    """Everything that can be reached from v by one edge or more."""
    found: set[int] = set()
    stack = list(children.get(v, ()))
    while stack:
        u = stack.pop()
        if u not in found:
            found.add(u)
            stack.extend(children.get(u, ()))
    return found


def right_answers(edges: Edges, start: int, goal: int) -> set[int]:
    """Children of the start that are the goal or lead to it."""
    children = children_of(edges)
    return {c for c in children.get(start, ()) if c == goal or goal in descendants(children, c)}


def shortest_paths(edges: Edges, start: int, goal: int) -> list[list[int]]:
    """All shortest paths, as lists of vertices."""
    children, paths = children_of(edges), [[start]]
    while paths and start != goal:
        paths = [[*path, c] for path in paths for c in children.get(path[-1], ())]
        arrived = [path for path in paths if path[-1] == goal]
        if arrived:
            return arrived
    return []


def path_count(edges: Edges, start: int, goal: int) -> int:
    """Number of all paths."""
    children = children_of(edges)
    known: dict[int, int] = {goal: 1}

    def count(v: int) -> int:
        if v not in known:
            known[v] = sum(count(c) for c in children.get(v, ()))
        return known[v]

    return count(start)


def lookahead_for(edges: Edges, start: int, goal: int, wanted: int) -> int:
    """Levels of breadth-first search until only the branch `wanted` is left or the goal is seen."""
    children = children_of(edges)
    frontier = [(c, c) for c in children[start]]
    seen = set(children[start])
    k = 0
    while frontier:
        if all(branch == wanted for _, branch in frontier):
            return k
        k += 1
        following: list[tuple[int, int]] = []
        for v, branch in frontier:
            if v == goal:
                return k
            for c in children[v]:
                if c not in seen:
                    seen.add(c)
                    following.append((c, branch))
                elif branch == wanted:
                    following = [(x, wanted if x == c else b) for x, b in following]
        frontier = following
    return k


def lookahead(edges: Edges, start: int, goal: int) -> int:
    """The smallest lookahead over the first steps of shortest paths."""
    firsts = {path[1] for path in shortest_paths(edges, start, goal)}
    return min(lookahead_for(edges, start, goal, first) for first in firsts)


def naive(rng: random.Random, V: int, in_degree: int = 3, test: bool = False) -> tuple[Edges, int, int]:
    """A naive graph with start and goal, drawn until accepted."""
    while True:
        N = rng.randint(3, V - 1)
        edges: Edges = []
        for i in range(1, N):
            count = 1 if rng.random() < 0.5 else rng.randint(1, in_degree)
            edges += [(p, i) for p in rng.sample(range(i), min(count, i))]
        candidates = list(range(N if test else N - 1))
        start, goal = rng.sample(candidates, 2)
        if len(edges) <= V and goal in descendants(children_of(edges), start):
            paths = shortest_paths(edges, start, goal)
            if len(paths) <= 64 and (not test or _is_test_row(edges, start, goal, 2)):
                return edges, start, goal


def balanced(
    rng: random.Random, V: int, L: int | None, largest: int, chain: bool = True, test: bool = False
) -> tuple[Edges, int, int]:
    """A balanced graph whose lookahead is L; with L None a fresh L in 0..largest for every draw."""
    while True:
        asked = rng.randint(0, largest) if L is None else L
        edges, start, goal = _balanced_draw(rng, V, asked, chain)
        if len(edges) > V or len(shortest_paths(edges, start, goal)) > 64:
            continue
        found = lookahead(edges, start, goal)
        if (found > largest) if L is None else (found != L):
            continue
        if not test or _is_test_row(edges, start, goal, min(asked, 2)):
            return edges, start, goal


def _balanced_draw(rng: random.Random, V: int, L: int, chain: bool) -> tuple[Edges, int, int]:
    B = rng.randint(1, 2) if L == 0 else rng.randint(2, (V - 1) // L)
    N = max(min(L * B + 1 + rng.randint(0, 5), V), 2, 1 + B * L)
    first = max(1, L)
    edges: Edges = [(v, v + 1) for v in range(first)]
    used = first + 1
    for remaining in range(B - 1, 0, -1):
        spare = N - used - remaining * L
        length = L + (rng.randint(0, 1) if spare > 0 else 0)
        path = [0, *range(used, used + length)]
        edges += list(itertools.pairwise(path))
        used += length
    if chain:
        length = rng.randint(0, N - used)
        path = [*range(used, used + length), 0]
        edges += list(itertools.pairwise(path))
        used += length
    entering = {v: sum(b == v for _, b in edges) for v in range(used)}
    leaving = {v: sum(a == v for a, _ in edges) for v in range(used)}
    for w in range(used, N):
        count = rng.randint(0, 3)
        kids = _weighted(rng, {v: 0.5 + entering[v] for v in range(w)}, count)
        edges += [(w, v) for v in kids]
        below = descendants(children_of(edges), w)
        count = rng.randint(0, 3) if kids else rng.randint(1, 3)
        folks = _weighted(rng, {v: 0.5 + leaving[v] for v in range(w) if v not in below}, count)
        edges += [(v, w) for v in folks]
        for v in kids:
            entering[v] += 1
        for v in folks:
            leaving[v] += 1
        entering[w] = leaving[w] = 0
    return edges, 0, first


def _weighted(rng: random.Random, weights: dict[int, float], count: int) -> list[int]:
    """Up to `count` draws without replacement."""
    left, chosen = dict(weights), []
    while left and len(chosen) < count:
        v = rng.choices(list(left), list(left.values()))[0]
        chosen.append(v)
        del left[v]
    return chosen


def star(rng: random.Random, V: int, largest: int) -> tuple[Edges, int, int]:
    """A star: (arms, length) uniform over all that fit."""
    pairs = [(k, l) for l in range(1, largest + 1) for k in range(1, (V - 1) // l + 1)]
    k, l = rng.choice(pairs)
    edges: Edges = []
    for arm in range(k):
        path = [0, *range(1 + arm * l, 1 + (arm + 1) * l)]
        edges += list(itertools.pairwise(path))
    return edges, 0, l


def _is_test_row(edges: Edges, start: int, goal: int, longer_than: int) -> bool:
    """The filters of test rows."""
    paths = shortest_paths(edges, start, goal)
    return (
        len(children_of(edges)[start]) >= 2
        and len({path[1] for path in paths}) == 1
        and len(right_answers(edges, start, goal)) == 1
        and len(paths[0]) > longer_than
        and path_count(edges, start, goal) <= 64
    )
