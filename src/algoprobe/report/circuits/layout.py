"""Where everything of a circuit stands: tokens from left to right, steps from the input at the bottom upwards.

Sets stand in boxes, written only where they grew; columns without nodes shrink or give way to `…`. All lengths in px.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from .reading import Node, Reading, short

LINE, STRIP, DOT = 16, 9, 4
"""Height of a line of vertices, of the strip below them, and radius of a node without a box."""
BOX_WIDTH, BOX_MOST = 84, 126
"""Width at which a set wraps, and that of a set that would take more than two lines."""
TOP, BOTTOM, GROUP_GAP = 40, 46, 9
QUIET_GAP, GAP, GAP_PER_LABEL, GAP_MOST = 24, 40, 6, 92
"""Heights between rows: where no operation is kept, and with kept ones."""


@dataclass(frozen=True)
class Box:
    """A written set: its lines of vertices, path first, and its size."""

    lines: tuple[tuple[int, ...], ...]
    width: float
    height: float


@dataclass(frozen=True)
class Span:
    """A group of neighbouring columns on the input row; `gap` stands for `count` edges left out."""

    kind: str
    columns: tuple[int, ...]
    left: float
    right: float
    count: int = 1


@dataclass(frozen=True)
class Curve:
    """An operation's way: two upright ends and a bend in the space between its rows."""

    x: tuple[float, float]
    y: tuple[float, float, float, float]
    """Source, where the bend starts and ends, destination; from the bottom upwards."""
    bulge: float = 0.0
    tilt: float = 0.0
    """How much earlier (below 0: later) than half-way it crosses over, in parts of the bend's height."""

    def path(self) -> str:
        """The `d` of an SVG path."""
        (a, b), (y0, y1, y2, y3) = self.x, self.y
        c, d = self._handles
        return f"M{a:.1f} {y0:.1f}V{y1:.1f}C{c[0]:.1f} {c[1]:.1f} {d[0]:.1f} {d[1]:.1f} {b:.1f} {y2:.1f}V{y3:.1f}"

    def at(self, t: float) -> tuple[float, float]:
        """The point of the bend at `t` in [0, 1]."""
        points = ((self.x[0], self.y[1]), *self._handles, (self.x[1], self.y[2]))
        weights = ((1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t**3)
        return sum(w * p[0] for w, p in zip(weights, points)), sum(w * p[1] for w, p in zip(weights, points))

    @property
    def _handles(self) -> tuple[tuple[float, float], tuple[float, float]]:
        tall = self.y[1] - self.y[2]
        low, high = (0.6 - self.tilt) * tall, (0.6 + self.tilt) * tall
        return (self.x[0] + self.bulge, self.y[1] - low), (self.x[1] + self.bulge, self.y[2] + high)


def vertex_width(vertex: int) -> float:
    """Width of a written vertex."""
    return 7 * len(str(vertex)) + 7


@dataclass(frozen=True)
class Places:
    """The layout of one circuit."""

    reading: Reading

    @cached_property
    def boxes(self) -> dict[Node, Box]:
        """The sets to write: those of kept nodes that grew against the node below, and the root's."""
        found = {}
        for node, facts in self.reading.nodes.items():
            grew = node[0] > 0 and self.reading.known(node) > self.reading.known((node[0] - 1, node[1]))
            if node == self.reading.root or (facts["kept"] and grew):
                found[node] = self._box(facts["vertices"])
        return found

    def _box(self, vertices: list[int]) -> Box:
        on_path = {v: i for i, v in enumerate(self.reading.path)}
        lines, room = [[]], BOX_WIDTH if sum(map(vertex_width, vertices)) < 1.8 * BOX_WIDTH else BOX_MOST
        for v in sorted(vertices, key=lambda v: (on_path.get(v, len(on_path)), v)):
            if sum(map(vertex_width, lines[-1])) + vertex_width(v) > room:
                lines.append([])
            lines[-1].append(v)
        width = max(26, 6 * len(self.reading.path) + 8, 6 + max(sum(map(vertex_width, line)) for line in lines))
        return Box(tuple(map(tuple, lines)), width, LINE * len(lines) + STRIP + 4)

    @cached_property
    def spans(self) -> list[Span]:
        """The groups from left to right, runs of groups without nodes drawn together."""
        used = {column for _, column in self.reading.nodes}
        merged: list[tuple[str, tuple[int, ...], int]] = []
        for what, columns in self.reading.groups:
            if what == "query" or used.intersection(columns):
                shown = tuple(c for c in columns if c in used or what == "query" or self.reading.token(c) != "EDGE")
                merged.append((what, shown, 1))
            elif merged and merged[-1][0] == "gap":
                merged[-1] = ("gap", (), merged[-1][2] + 1)
            else:
                merged.append(("gap", (), 1))
        spans, x = [], float(self.margin)
        for what, columns, count in merged:
            width = 44 if what == "gap" else sum(map(self._column_width, columns)) + 4
            spans.append(Span(what, columns, x, x + width, count))
            x += width + GROUP_GAP
        return spans

    def _column_width(self, column: int) -> float:
        written = max((box.width + 8 for (_, c), box in self.boxes.items() if c == column), default=0)
        vertices = self.reading.circuit["columns"][column]["vertices"]
        token = sum(map(vertex_width, vertices)) + 18 * (len(vertices) - 1) if all(vertices) else 36
        return max(token + 14, written, 5.6 * len(self.reading.role(column)) + 10)

    @property
    def margin(self) -> float:
        """Room for the names of the steps at the left."""
        return 7 * max(map(len, ["input", *self.reading.circuit["steps"]])) + 20

    @cached_property
    def x(self) -> dict[int, float]:
        """The middle of each column that is shown."""
        found = {}
        for span in self.spans:
            x = span.left + 2
            for column in span.columns:
                found[column] = x + self._column_width(column) / 2
                x += self._column_width(column)
        return found

    @property
    def width(self) -> float:
        """Of the whole."""
        return self.spans[-1].right + 12

    @cached_property
    def rows(self) -> list[tuple[float, float]]:
        """Top and bottom of each step's row, the input first."""
        steps = self.reading.root[0]
        tall = [
            max((b.height for (t, _), b in self.boxes.items() if t == step), default=12) for step in range(steps + 1)
        ]
        places, y = [], float(TOP)
        for step in range(steps, -1, -1):
            places.append((y, y + tall[step]))
            labels = sum(op["kept"] for op in self.reading.operations if op["step"] == step - 1)
            some = any(op["step"] == step - 1 for op in self.reading.operations)
            gap = min(GAP + GAP_PER_LABEL * labels, GAP_MOST) if labels else GAP if some else QUIET_GAP
            y += tall[step] + gap
        return places[::-1]

    @property
    def height(self) -> float:
        """Of the whole."""
        return self.rows[0][1] + BOTTOM

    def edge(self, node: Node, above: bool) -> float:
        """The upper or lower edge of a node."""
        top, bottom = self.rows[node[0]]
        half = self.boxes[node].height / 2 if node in self.boxes else DOT
        return (top + bottom) / 2 + (-half if above else half)

    @cached_property
    def curves(self) -> list[Curve]:
        """The way of each operation, ends side by side where several meet."""
        ops = self.reading.operations
        leaving = self._offsets([((op["step"], op["source"]), op["destination"]) for op in ops])
        arriving = self._offsets([((op["step"] + 1, op["destination"]), op["source"]) for op in ops])
        found, tilts = [], self._tilts()
        for i, (op, out, into) in enumerate(zip(ops, leaving, arriving)):
            source, end = (op["step"], op["source"]), (op["step"] + 1, op["destination"])
            x = self.x[source[1]] + out, self.x[end[1]] + into
            y = self.edge(source, True), self.rows[source[0]][0], self.rows[end[0]][1], self.edge(end, False)
            found.append(Curve(x, y, 26 if source[1] == end[1] else 0, tilts[i]))
        return found

    def _tilts(self) -> list[float]:
        """Spreads the kept operations of a step over the height that they cross in."""
        ops = self.reading.operations
        tilts = [0.0] * len(ops)
        for step in {op["step"] for op in ops}:
            mine = [i for i, op in enumerate(ops) if op["kept"] and op["step"] == step]
            mine.sort(key=lambda i: self.x[ops[i]["source"]] + self.x[ops[i]["destination"]])
            for rank, i in enumerate(mine):
                tilts[i] = 0.36 * (rank / (len(mine) - 1) - 0.5) * 2 if len(mine) > 1 else 0.0
        return tilts

    def _offsets(self, ends: list[tuple[Node, int]]) -> list[float]:
        """How far from the middle of its node each operation ends: on the side it comes from, kept ones innermost."""
        found = [0.0] * len(ends)
        sides: dict[tuple[Node, bool], list[int]] = {}
        for i, (node, other) in enumerate(ends):
            sides.setdefault((node, other < node[1]), []).append(i)
        for (node, left), members in sides.items():
            room = self.boxes[node].width / 2 - 5 if node in self.boxes else 3
            step = min(7.0, room / len(members))
            # What comes from nearest arrives outermost, so that curves do not cross on their last stretch.
            members.sort(key=lambda i: (-abs(ends[i][1] - node[1]), i))
            for rank, i in enumerate(members, 1):
                found[i] = (-step if left else step) * rank
        return found

    @cached_property
    def labels(self) -> dict[int, tuple[float, float, str]]:
        """Where the labels of kept operations stand, the derivation's first; one without free room is left out."""
        ops, (first, _) = self.reading.operations, self.reading.derivation
        taken: list[tuple[float, float, float]] = []
        found = {}
        for i in sorted((i for i, op in enumerate(ops) if op["kept"]), key=lambda i: (i not in first, i)):
            text, curve = short(ops[i]), self.curves[i]
            half = 3.4 * len(text) + 3
            for t in (0.5, 0.4, 0.6, 0.3, 0.7, 0.22, 0.78, 0.15, 0.85):
                x, y = curve.at(t)
                if all(abs(x - a) > half + b or abs(y - c) > 12 for a, b, c in taken):
                    if text:
                        taken.append((x, half, y))
                        found[i] = (x, y, text)
                    break
        return found
