"""One row as an SVG drawing: a layered layout from left to right, start and goal marked, the model's answer judged.

Layer of a vertex: edges on the longest path that ends in it (sources without parents are then moved next to their
children). Order within a layer: barycentre sweeps (Sugiyama, Tagawa & Toda, 1981). Colours come from CSS variables with
a dark variant, so the drawing suits a light and a dark page; shapes say the same as colours.
"""

from __future__ import annotations

from collections import deque
from html import escape
from typing import Any

from algoprobe.tasks.style import STYLE

STEP_X, STEP_Y, MARGIN, RADIUS = 58, 34, 24, 12
NARROW, MANY_LAYERS = 40, 12
LEGEND = 24
MINIMUM_WIDTH = 470
SWEEPS = 8


def draw(row: dict[str, Any]) -> str:
    """The SVG of a row given as `edges` (pairs), `start`, `goal`, `accepted` (right answers) and perhaps `answer`.

    The edges of all shortest paths from start to goal are emphasised. An `answer` that is no vertex of the graph is
    only named in the legend.
    """
    edges = [(int(u), int(v)) for u, v in row["edges"]]
    start, goal, answer = int(row["start"]), int(row["goal"]), row.get("answer")
    accepted = {int(v) for v in row["accepted"]}
    place, bends = _layout(edges, start, goal)
    width = max(MINIMUM_WIDTH, 2 * MARGIN + max(x for x, _ in place.values()))
    height = 2 * MARGIN + max(y for _, y in place.values()) + LEGEND
    on_path = _shortest_path_edges(edges, start, goal)
    vertices_on_path = {v for edge in on_path for v in edge}
    said = "" if answer is None else f" The model answered {answer}."
    title = f"Graph of {len(place)} vertices and {len(edges)} edges; find the way from {start} to {goal}.{said}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="ap" viewBox="0 0 {width:g} {height:g}" width="{width:g}" '
        f'height="{height:g}" style="max-width:100%;height:auto" role="img">',
        f"<title>{escape(title)}</title><style>{STYLE}</style>",
    ]
    for edge in sorted(edges, key=lambda edge: edge in on_path):
        parts.append(_edge([place[edge[0]], *bends[edge], place[edge[1]]], edge in on_path))
    for v, (x, y) in sorted(place.items()):
        parts.append(_vertex(v, x, y, start, goal, v in vertices_on_path))
        if answer is not None and v == int(answer):
            verdict = "right" if v in accepted else "wrong"
            parts.append(f'<circle class="ring {verdict}" cx="{x:g}" cy="{y:g}" r="{RADIUS + 5}"/>')
    parts.append(_legend(height - LEGEND / 2, answer, accepted))
    parts.append("</svg>")
    return "".join(parts)


Point = tuple[float, float]


def _layout(
    edges: list[tuple[int, int]], start: int, goal: int
) -> tuple[dict[int, Point], dict[tuple[int, int], list[Point]]]:
    """Where each vertex stands, and through which points each edge passes on its way."""
    vertices = sorted({v for edge in edges for v in edge} | {start, goal})
    children: dict[int, list[int]] = {v: [] for v in vertices}
    parents: dict[int, list[int]] = {v: [] for v in vertices}
    for u, v in edges:
        children[u].append(v)
        parents[v].append(u)
    layer = {v: 0 for v in vertices}
    waiting = {v: len(parents[v]) for v in vertices}
    ready = deque(v for v in vertices if not waiting[v])
    while ready:
        u = ready.popleft()
        for v in children[u]:
            layer[v] = max(layer[v], layer[u] + 1)
            waiting[v] -= 1
            if not waiting[v]:
                ready.append(v)
    for v in vertices:
        # A source has no reason to stand far left of everything it points at.
        if not parents[v] and children[v]:
            layer[v] = min(layer[c] for c in children[v]) - 1
    # Where an edge crosses a layer, a dummy keeps its place in the order, so that long edges bend around vertices.
    columns: list[list[Any]] = [[] for _ in range(max(layer.values()) + 1)]
    for v in vertices:
        columns[layer[v]].append(v)
    before: dict[Any, list[Any]] = {v: [] for v in vertices}
    after: dict[Any, list[Any]] = {v: [] for v in vertices}
    for u, v in edges:
        last: Any = u
        for k in range(layer[u] + 1, layer[v]):
            dummy = (u, v, k)
            columns[k].append(dummy)
            before[dummy], after[dummy] = [last], []
            after[last].append(dummy)
            last = dummy
        after[last].append(v)
        before[v].append(last)
    height = _order(columns, before, after)
    step = STEP_X if len(columns) <= MANY_LAYERS else NARROW

    def at(v: Any, column: int) -> Point:
        return MARGIN + column * step, MARGIN + height[v] * STEP_Y

    bends = {(u, v): [at((u, v, k), k) for k in range(layer[u] + 1, layer[v])] for u, v in edges}
    return {v: at(v, layer[v]) for v in vertices}, bends


def _order(columns: list[list[Any]], before: dict, after: dict) -> dict[Any, float]:
    """Height of everything in its column: barycentre sweeps to and fro, then a pull towards the neighbours."""
    height = {v: float(i) for column in columns for i, v in enumerate(column)}
    for sweep in range(SWEEPS):
        forward = sweep % 2 == 0
        for column in columns if forward else reversed(columns):
            towards = before if forward else after
            goal = {v: _mean([height[x] for x in towards[v]], height[v]) for v in column}
            column.sort(key=lambda v: goal[v])
            for i, v in enumerate(column):
                height[v] = float(i)
    tallest = max(len(column) for column in columns)
    for column in columns:
        for i, v in enumerate(column):
            height[v] = i + (tallest - len(column)) / 2
    for sweep in range(SWEEPS):
        for column in columns if sweep % 2 == 0 else reversed(columns):
            wish = [_mean([height[x] for x in before[v] + after[v]], height[v]) for v in column]
            for v, y in zip(column, _spread(wish)):
                height[v] = y
    low = min(height.values())
    return {v: y - low for v, y in height.items()}


def _spread(wish: list[float]) -> list[float]:
    """The heights nearest to `wish` (least squares) that keep the order and a distance of 1."""
    groups: list[list[float]] = []
    for i, y in enumerate(wish):
        groups.append([y - i, 1.0])
        while len(groups) > 1 and groups[-2][0] > groups[-1][0]:
            (a, n), (b, m) = groups[-2], groups[-1]
            groups[-2:] = [[(a * n + b * m) / (n + m), n + m]]
    flat = [y for y, n in groups for _ in range(int(n))]
    return [y + i for i, y in enumerate(flat)]


def _mean(values: list[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise


def _shortest_path_edges(edges: list[tuple[int, int]], start: int, goal: int) -> set[tuple[int, int]]:
    def distances(origin: int, pairs: list[tuple[int, int]]) -> dict[int, int]:
        found, queue = {origin: 0}, deque([origin])
        while queue:
            u = queue.popleft()
            for a, b in pairs:
                if a == u and b not in found:
                    found[b] = found[u] + 1
                    queue.append(b)
        return found

    ahead, back = distances(start, edges), distances(goal, [(v, u) for u, v in edges])
    if goal not in ahead:
        return set()
    return {(u, v) for u, v in edges if u in ahead and v in back and ahead[u] + 1 + back[v] == ahead[goal]}


def _edge(points: list[Point], path: bool) -> str:
    """A curve through `points`, level at each of them, with an arrow tip."""
    tip = 8 if path else 6
    kind = " path" if path else ""
    x, y = points[0][0] + RADIUS, points[0][1]
    end_x, end_y = points[-1][0] - RADIUS - 1, points[-1][1]
    curve = f"M{x:.1f} {y:.1f}"
    for to_x, to_y in [*points[1:-1], (end_x - tip, end_y)]:
        bend = (to_x - x) * 0.5
        curve += f"C{x + bend:.1f} {y:.1f} {to_x - bend:.1f} {to_y:.1f} {to_x:.1f} {to_y:.1f}"
        x, y = to_x, to_y
    arrow = f"M{end_x:.1f} {end_y:.1f}l{-tip} {-tip / 2}v{tip}z"
    return f'<path class="edge{kind}" d="{curve}"/><path class="tip{kind}" d="{arrow}"/>'


def _vertex(v: int, x: float, y: float, start: int, goal: int, path: bool) -> str:
    r = RADIUS
    if v == start:
        shape = f'<rect class="node start" x="{x - r:g}" y="{y - r:g}" width="{2 * r}" height="{2 * r}" rx="2"/>'
    elif v == goal:
        d = r + 3
        shape = f'<path class="node goal" d="M{x - d:g} {y:g}L{x:g} {y - d:g}L{x + d:g} {y:g}L{x:g} {y + d:g}z"/>'
    else:
        shape = f'<circle class="node{" path" if path else ""}" cx="{x:g}" cy="{y:g}" r="{r}"/>'
    ink = ' class="on"' if v in (start, goal) else ""
    return f'{shape}<text{ink} x="{x:g}" y="{y:g}">{v}</text>'


def _legend(y: float, answer: Any, accepted: set[int]) -> str:
    x = 16
    parts = [
        f'<rect class="node start" x="{x - 6}" y="{y - 6:g}" width="12" height="12" rx="2"/>',
        f'<text class="word" x="{x + 12}" y="{y:g}">start</text>',
        f'<path class="node goal" d="M{x + 56} {y:g}l8 -8l8 8l-8 8z"/>',
        f'<text class="word" x="{x + 78}" y="{y:g}">goal</text>',
        f'<path class="edge path" d="M{x + 116} {y:g}h24"/>',
        f'<text class="word" x="{x + 146}" y="{y:g}">shortest path</text>',
    ]
    if answer is not None:
        right = int(answer) in accepted
        kind, word = ("right", "right") if right else ("wrong", "wrong")
        parts.append(f'<circle class="ring {kind}" cx="{x + 250}" cy="{y:g}" r="8"/>')
        words = f"answer {int(answer)}: {'✓' if right else '✗'} {word}"
        parts.append(f'<text class="word {kind}-word" x="{x + 264}" y="{y:g}">{words}</text>')
    return "".join(parts)
