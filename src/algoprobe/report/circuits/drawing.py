"""A circuit as an SVG: input at the bottom, answer at the top, and how sets of vertices grow in between."""

from __future__ import annotations

import re
from html import escape
from typing import Any

from algoprobe.tasks.search.drawing import draw as draw_graph

from .layout import DOT, LINE, Places, Span, vertex_width
from .marks import ARROWS, STYLE, edge_token, legend, vertex
from .reading import Reading, about_node, about_operation, heading, kind


def draw(circuit: dict[str, Any]) -> str:
    """The SVG of a circuit with its title, the input graph and a legend; it stands alone."""
    reading = Reading(circuit)
    places = Places(reading)
    graph, graph_width, graph_height = _graph(reading)
    width = max(places.width, graph_width + 16, 600)
    beside = width - graph_width > 340
    title, y = _title(reading, width)
    key_left, key_top = (graph_width + 24, y + 14) if beside else (16.0, y + graph_height + 16)
    key, key_height = legend(reading, key_left, key_top, width)
    top = max(y + graph_height, key_top + key_height) + 12
    return (
        f"{_opening(reading, width, top + places.height)}{title}"
        f'<g transform="translate(8 {y:g})">{graph}</g>{key}'
        f'<g transform="translate({(width - places.width) / 2:g} {top:g})">{_body(reading, places)}</g></svg>'
    )


def draw_body(circuit: dict[str, Any]) -> str:
    """The SVG of a circuit alone: for a page that says the rest."""
    reading = Reading(circuit)
    places = Places(reading)
    return f"{_opening(reading, places.width, places.height)}{_body(reading, places)}</svg>"


def graph_row(reading: Reading) -> dict[str, Any]:
    """The circuit's graph as the task's drawing takes it."""
    accepted = reading.circuit.get("accepted") or ([reading.circuit["answer"]] if reading.right else [])
    return {**reading.circuit["graph"], "accepted": accepted, "answer": reading.circuit["answer"]}


def _opening(reading: Reading, width: float, height: float) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="cc" viewBox="0 0 {width:g} {height:g}" width="{width:g}" '
        f'height="{height:g}" role="group" aria-label="{escape("Circuit: " + "; ".join(heading(reading)))}">'
        f'<style>{STYLE}</style><rect class="ground" width="{width:g}" height="{height:g}"/>'
    )


def _title(reading: Reading, width: float) -> tuple[str, float]:
    """The title's lines and where they end."""
    lines, room = [""], (width - 32) / 8.3
    for piece in heading(reading):
        if lines[-1] and len(lines[-1]) + len(piece) + 3 > room:
            lines.append(piece)
        else:
            lines[-1] += (" · " if lines[-1] else "") + piece
    made = [f'<text class="left title" x="16" y="{20 + 19 * i}">{escape(line)}</text>' for i, line in enumerate(lines)]
    return "".join(made), 20.0 + 19 * len(lines)


def _graph(reading: Reading) -> tuple[str, float, float]:
    """The input graph's drawing and its size."""
    svg = draw_graph(graph_row(reading))
    width, height = (float(re.search(rf' {side}="([\d.]+)"', svg)[1]) for side in ("width", "height"))
    # Inside another SVG, `height: auto` would mean the height of the whole.
    return re.sub(r' style="[^"]*"', "", svg, count=1), width, height


def _body(reading: Reading, places: Places) -> str:
    right = places.spans[-1].right
    rows = [f'<path class="row" d="M{places.margin:g} {(a + b) / 2:g}H{right:g}"/>' for a, b in places.rows]
    order = sorted(range(len(reading.operations)), key=lambda i: _rank(reading, i))
    labels = [
        f'<text class="label {kind(reading.operations[i])}" data-label="{i}" x="{x:.1f}" y="{y:.1f}">'
        f"{ARROWS.get(kind(reading.operations[i]), '')}{escape(text)}</text>"
        for i, (x, y, text) in places.labels.items()
    ]
    return "".join(
        [
            *rows,
            *(_span(reading, places, span) for span in places.spans),
            *_residuals(reading, places),
            *(_operation(reading, places, i) for i in order),
            *(_node(reading, places, node) for node in reading.nodes),
            *labels,
            _answer(reading, places),
            _names(reading, places),
        ]
    )


def _rank(reading: Reading, i: int) -> tuple[int, int]:
    """Painting order: what matters most comes last."""
    op = reading.operations[i]
    return (i in reading.derivation[0]) + op["kept"] + op["accepted"], i


def _names(reading: Reading, places: Places) -> str:
    """The names of the steps, on a ground that hides what a page scrolls beneath them."""
    parts = [f'<rect class="ground" x="0" y="0" width="{places.margin - 6:g}" height="{places.height:g}"/>']
    for name, (top, bottom) in zip(["input", *reading.circuit["steps"]], places.rows):
        y = (top + bottom) / 2
        if name != "input":
            parts.append(f'<text class="left small quiet" x="10" y="{y - 8:g}">after</text>')
        parts.append(f'<text class="left quiet" x="10" y="{y + 4 * (name != "input"):g}">{escape(name)}</text>')
    return f'<g class="names">{"".join(parts)}</g>'


def _answer(reading: Reading, places: Places) -> str:
    mark, word = ("✓", "right") if reading.right else ("✗", "wrong")
    x, y = places.x[reading.last], places.edge(reading.root, True) - 15
    # Set from its end, since the answer's column stands at the right edge.
    return (
        f'<text class="title" style="text-anchor:end" x="{places.spans[-1].right:g}" y="{y:g}">answer '
        f'{reading.circuit["answer"]} <tspan class="{word}">{mark} {word}</tspan></text>'
        f'<path class="residual main" d="M{x:g} {y + 8:g}v6"/>'
    )


def _span(reading: Reading, places: Places, span: Span) -> str:
    """The tokens of a group below the input row."""
    y = places.rows[0][1] + 16
    if span.kind == "gap":
        x, words = (span.left + span.right) / 2, f"{span.count} edge{'s' * (span.count > 1)}"
        dots = f'<text class="quiet" x="{x:g}" y="{y - 3:g}">…</text>'
        return f'{dots}<text class="small quiet" x="{x:g}" y="{y + 15:g}">{words}</text>'
    size = f'width="{span.right - span.left:g}" height="{24 if span.kind == "edge" else 38}"'
    parts = [f'<rect class="group" x="{span.left:g}" y="{y - 12:g}" {size} rx="5"/>']
    for column in span.columns:
        x, vertices = places.x[column], reading.circuit["columns"][column]["vertices"]
        if reading.packed:
            parts.append(edge_token(vertices, x, y, reading))
        elif vertices[0]:
            parts.append(vertex(vertices[0], x, y, reading))
        else:
            parts.append(f'<text class="small quiet" x="{x:g}" y="{y:g}">{reading.token(column)}</text>')
        parts.append(f'<text class="small quiet" x="{x:g}" y="{y + 17:g}">{reading.role(column)}</text>')
    if span.kind == "edge" and not reading.packed:
        a, b = (places.x[column] for column in span.columns[-2:])
        parts.append(f'<text class="small quiet" x="{(a + b) / 2:g}" y="{y:g}">→</text>')
    return "".join(parts)


def _residuals(reading: Reading, places: Places) -> list[str]:
    """The residual stream between nodes of one column."""
    made = []
    for node, facts in reading.nodes.items():
        above = (node[0] + 1, node[1])
        if above in reading.nodes:
            main = {node, above} <= reading.derivation[1] and reading.derivation[0]
            kept = facts["kept"] and reading.nodes[above]["kept"]
            state = "main" if main else "kept" if kept else "outside"
            ends = f'data-from="{node[0]}.{node[1]}" data-to="{above[0]}.{above[1]}"'
            d = f"M{places.x[node[1]]:g} {places.edge(node, True):g}V{places.edge(above, False):g}"
            made.append(f'<path class="residual {state}" {ends} d="{d}"/>')
    return made


def _operation(reading: Reading, places: Places, i: int) -> str:
    op, curve = reading.operations[i], places.curves[i]
    state = "kept" if op["kept"] else "connected" if op["accepted"] else "rejected"
    classes = f"op {state}{' main' * (i in reading.derivation[0])} {kind(op)}{' negative' * (op['sign'] == -1)}"
    tip, d, words = (4 if op["kept"] else 2.5), curve.path(), escape("\n".join(about_operation(reading, op)))
    return (
        f'<g class="{classes}" data-operation="{i}" data-from="{op["step"]}.{op["source"]}" '
        f'data-to="{op["step"] + 1}.{op["destination"]}"><title>{words}</title>'
        f'<path class="reach" d="{d}"/><path class="line" d="{d}"/>'
        f'<path class="tip" d="M{curve.x[1]:.1f} {curve.y[3]:.1f}l{-tip} {2 * tip}h{2 * tip}z"/></g>'
    )


def _node(reading: Reading, places: Places, node: tuple[int, int]) -> str:
    facts, x = reading.nodes[node], places.x[node[1]]
    top, bottom = places.rows[node[0]]
    main = node in reading.derivation[1] and reading.derivation[0]
    state = "kept main" if facts["kept"] and main else "kept" if facts["kept"] else "outside"
    touched = any(
        op["accepted"] and node in ((op["step"], op["source"]), (op["step"] + 1, op["destination"]))
        for op in reading.operations
    )
    bare = "" if touched or facts["kept"] or node == reading.root else " bare"
    if node in places.boxes:
        shape = _box(reading, places, node)
    else:
        shape = f'<circle class="dot" cx="{x:g}" cy="{(top + bottom) / 2:g}" r="{DOT if facts["kept"] else 2.6}"/>'
    words = escape("\n".join(about_node(reading, node)))
    return f'<g class="node {state}{bare}" data-node="{node[0]}.{node[1]}"><title>{words}</title>{shape}</g>'


def _box(reading: Reading, places: Places, node: tuple[int, int]) -> str:
    """A set: its vertices, those on the path first, above a strip that says which part of the path it holds."""
    box, x, known = places.boxes[node], places.x[node[1]], reading.known(node)
    below = reading.known((node[0] - 1, node[1]))
    top, size = places.edge(node, True), f'width="{box.width:g}" height="{box.height:g}"'
    parts = [f'<rect class="box" x="{x - box.width / 2:g}" y="{top:g}" {size} rx="5"/>']
    for row, line in enumerate(box.lines):
        at = x - sum(map(vertex_width, line)) / 2
        for v in line:
            parts.append(vertex(v, at + vertex_width(v) / 2, top + 2 + LINE * (row + 0.5), reading, v not in below))
            at += vertex_width(v)
    left, y = x - 3 * len(reading.path), top + box.height - 9
    for i, v in enumerate(reading.path):
        held = " held" if v in known else ""
        parts.append(f'<rect class="cell{held}" x="{left + 6 * i + 0.5:g}" y="{y:g}" width="5" height="5"/>')
    return "".join(parts)
