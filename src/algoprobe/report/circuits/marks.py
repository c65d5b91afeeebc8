"""The marks of a drawing, their look, and the legend that explains them.

Colours come from CSS variables with a dark variant; arrows, dashes and shapes say the same as colours.
"""

from __future__ import annotations

from html import escape

from .layout import vertex_width
from .reading import Reading, kind

STYLE = """
.cc{--ink:#1b1f24;--mid:#57606a;--soft:#a3a9b2;--faint:#e6e8eb;--page:#ffffff;--path:#1f6fb2;--start:#d97a00;
--forward:#00805e;--backward:#9c3587;--both:#33373d;--copy:#b98700;--none:#8a6f5c;--right:#1a8754;--wrong:#c8322b}
@media (prefers-color-scheme:dark){.cc{--ink:#e4e6ea;--mid:#a5adb8;--soft:#6f7681;--faint:#32373f;--page:#1d2025;
--path:#63b3f5;--start:#f2a33a;--forward:#2ec79b;--backward:#e58ad2;--both:#dfe3e8;--copy:#e6c04a;--none:#b39a86;
--right:#4cc38a;--wrong:#ff7a70}}
.cc text{font:500 12px system-ui,"Liberation Sans",sans-serif;fill:var(--ink);text-anchor:middle;
dominant-baseline:central}
.cc .left{text-anchor:start}.cc .quiet{fill:var(--mid)}.cc .small{font-size:10px}
.cc .title{font-size:14px;font-weight:600}
.cc .on-path{fill:var(--path);font-weight:700}.cc .off-path{fill:var(--mid)}.cc .end{fill:var(--page);font-weight:700}
.cc .new{text-decoration:underline;text-underline-offset:2px}
.cc .start{fill:var(--start)}.cc .goal{fill:var(--path)}.cc .right{fill:var(--right)}.cc .wrong{fill:var(--wrong)}
.cc .ground{fill:var(--page)}.cc .row{stroke:var(--faint);stroke-width:1}
.cc .group{fill:none;stroke:var(--soft);stroke-width:1}
.cc .residual{stroke:var(--soft);stroke-width:1.2;fill:none}.cc .residual.outside{opacity:.45}
.cc .residual.main{stroke:var(--mid);stroke-width:2}
.cc .line{fill:none;stroke:var(--hue);stroke-width:1.7}.cc .tip{fill:var(--hue)}
.cc .op.kept{opacity:.6}.cc .op.main{opacity:1}.cc .main .line{stroke-width:3.2}
.cc .op.connected{opacity:.45}.cc .op.connected .line{stroke-width:1}
.cc .op.rejected{--hue:var(--soft);opacity:.55}.cc .rejected .line{stroke-width:1}
.cc .negative .line{stroke-dasharray:6 4}.cc .reach{fill:none;stroke:transparent;stroke-width:11;pointer-events:stroke}
.cc .forward{--hue:var(--forward)}.cc .backward{--hue:var(--backward)}.cc .both{--hue:var(--both)}
.cc .copy{--hue:var(--copy)}.cc .none{--hue:var(--none)}
.cc .label{font-size:11px;font-weight:600;fill:var(--hue);stroke:var(--page);stroke-width:5;
paint-order:stroke;pointer-events:none}
.cc .box{fill:var(--page);stroke:var(--mid);stroke-width:1.3}.cc .main .box{stroke-width:2;stroke:var(--ink)}
.cc .dot{fill:var(--mid)}.cc .main .dot{fill:var(--ink)}
.cc .outside .dot{fill:var(--page);stroke:var(--soft);stroke-width:1.2}
.cc .cell{fill:var(--faint);stroke:var(--soft);stroke-width:.5}.cc .cell.held{fill:var(--path);stroke:var(--path)}
"""
WORDS = {
    "forward": "→ forward: reads what it can reach",
    "backward": "← backward: reads what can reach it",
    "both": "↔ both: the same vertex, or either way",
    "copy": "copy of the goal, or of start and goal",
    "none": "neither way, or a column that is no vertex",
}
PITCH = 370
"""Width in px of a column of the legend."""
ARROWS = {"forward": "→", "backward": "←", "both": "↔"}


def vertex(v: int, x: float, y: float, reading: Reading, new: bool = False) -> str:
    """A vertex: start on a square, goal on a pointed shape, those on the path bold."""
    half = (vertex_width(v) - 1) / 2
    if v in (reading.start, reading.goal):
        if v == reading.start:
            shape = f'<rect class="start" x="{x - half:g}" y="{y - 7:g}" width="{2 * half:g}" height="14" rx="1"/>'
        else:
            flat = 2 * half - 8
            shape = f'<path class="goal" d="M{x - flat / 2:g} {y - 8:g}h{flat:g}l4.5 8l-4.5 8h{-flat:g}l-4.5 -8z"/>'
        classes = "end"
    else:
        shape, classes = "", "on-path" if v in reading.path else "off-path"
    return f'{shape}<text class="{classes}{" new" * new}" x="{x:g}" y="{y:g}">{v}</text>'


def edge_token(vertices: list[int], x: float, y: float, reading: Reading) -> str:
    """Two vertices with an arrow between them."""
    u, v = (vertex_width(w) for w in vertices)
    left = x - (u + v + 18) / 2
    arrow = f'<text class="small quiet" x="{left + u + 9:g}" y="{y:g}">→</text>'
    first, second = (
        vertex(vertices[0], left + u / 2, y, reading),
        vertex(vertices[1], left + u + 18 + v / 2, y, reading),
    )
    return f"{first}{arrow}{second}"


def legend_items(reading: Reading) -> list[tuple[str, str]]:
    """Pairs of a sample, as SVG around (0, 0) to (24, 0), and what it means."""

    def line(classes: str) -> str:
        return f'<g class="op {classes}"><path class="line" d="M0 0H24"/></g>'

    present = {kind(op) for op in reading.operations if op["accepted"]}
    items = [(line(f"kept main {k}"), words) for k, words in WORDS.items() if k in present]
    if reading.derivation[0]:
        whole = "one way in which the path comes together"
        words = whole if reading.circuit["explained"] else "where its part of the path comes from"
        items.append((line("kept main both"), f"thick: {words}"))
    if any(op["sign"] == -1 for op in reading.operations):
        items.append((line("kept both negative"), "dashed: sign negative (attention that must stay low)"))
    if any(op["accepted"] and not op["kept"] for op in reading.operations):
        items.append((line("connected both"), "thin: accepted, not connected to the answer"))
    if not all(op["accepted"] for op in reading.operations):
        items.append((line("rejected"), "grey: important, not accepted as a merge"))
    items.append(('<path class="residual main" d="M12 -8V8"/>', "residual stream"))
    cells = "".join(
        f'<rect class="cell{" held" * (i != 1)}" x="{6 * i}" y="-3" width="5" height="5"/>' for i in range(4)
    )
    return [
        *items,
        (cells, "the path from start (left) to goal; filled: known"),
        ('<text class="on-path new" x="12" y="0">7</text>', "vertex on the path; underlined: new"),
        ('<text class="label both" x="12" y="0">=6</text>', "matched on vertex 6; +1, −1: the column after, before"),
    ]


def legend(reading: Reading, left: float, top: float, width: float) -> tuple[str, float]:
    """Samples with words, in columns that fit between `left` and `width`; and their height."""
    items = legend_items(reading)
    columns = max(1, int((width - left) // PITCH))
    deep = -(-len(items) // columns)
    parts = []
    for i, (sample, words) in enumerate(items):
        x, y = left + PITCH * (i // deep), top + 20 * (i % deep)
        parts.append(
            f'<g transform="translate({x:g} {y:g})">{sample}<text class="left quiet" x="34">{escape(words)}</text></g>'
        )
    return f'<g class="legend">{"".join(parts)}</g>', 20.0 * deep
