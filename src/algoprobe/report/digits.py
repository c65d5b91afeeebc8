"""Charts of models that multiply: clouds of states coloured by a digit, and the tree of strong attention."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from .theme import INK, SOFT, legend, shades, themed

Point = dict[str, Any]


def clouds(
    points: Sequence[Point], panels: Sequence[str], colour: str, title: str, note: str, axes: tuple[str, str]
) -> alt.HConcatChart:
    """Points at (`x`, `y`), a panel for each value of `panel`, coloured by the digit in the field `colour`."""
    digits = sorted({point[colour] for point in points})
    scale = alt.Scale(domain=digits, range=wheel(len(digits)))
    base = alt.Chart(alt.Data(values=list(points))).mark_circle(size=16, opacity=0.55)
    drawn = [
        base.transform_filter(alt.datum.panel == panel)
        .encode(
            x=alt.X("x:Q", title=axes[0], axis=alt.Axis(grid=False, labels=False, ticks=False)),
            y=alt.Y("y:Q", title=axes[1], axis=alt.Axis(grid=False, labels=False, ticks=False)),
            color=alt.Color(f"{colour}:O", scale=scale, title=colour, legend=legend([str(d) for d in digits], colour)),
        )
        .properties(width=230, height=230, title=alt.TitleParams(panel, fontSize=12, fontWeight="normal"))
        for panel in panels
    ]
    from .theme import CONFIG

    words = alt.TitleParams(text=title, subtitle=wrapped(note, 46 * len(panels)))
    return alt.hconcat(*drawn).properties(title=words, description=f"{title}. {note}").configure(**CONFIG)


def wheel(count: int) -> list[str]:
    """Colours along a circle of hues, since digits of a base follow each other in a ring; alternating in lightness."""
    import colorsys

    found = []
    for i in range(count):
        r, g, b = colorsys.hls_to_rgb(i / count, 0.36 if i % 2 else 0.58, 0.75)
        found.append("#{:02x}{:02x}{:02x}".format(*(round(255 * part) for part in (r, g, b))))
    return found


def wrapped(text: str, width: int) -> list[str]:
    """Lines of a subtitle."""
    import textwrap

    return textwrap.wrap(text, width)


def attention_tree_chart(
    edges: Sequence[Point], columns: Sequence[str], stages: Sequence[str], title: str, note: str
) -> alt.LayerChart:
    """Columns across, stages of computation downwards, a line where a head reads one column into another.

    Each edge has `key` and `query` (places in `columns`), `stage` (place in `stages`) and `weight`.
    """
    lines = [
        {
            "x": e["key"],
            "x2": e["query"],
            "y": e["stage"],
            "y2": e["stage"] + 1,
            "weight": e["weight"],
            "head": f"head {e['head']}",
        }
        for e in edges
    ]
    stays = [{"x": c, "x2": c, "y": s, "y2": s + 1} for s, c in sorted({(e["stage"], e["query"]) for e in edges})]
    nodes = sorted({(e["x"], e["y"]) for e in lines} | {(e["x2"], e["y2"]) for e in lines})
    axis = alt.Axis(
        values=list(range(len(columns))),
        labelExpr=f"{list(columns)}[datum.value]",
        grid=False,
        orient="top",
        title=None,
        labelAngle=-90,
        labelOverlap=False,
    )
    x = alt.X("x:Q", scale=alt.Scale(domain=[-0.5, len(columns) - 0.5], nice=False), axis=axis)
    levels = ["inputs", *stages]
    down = alt.Axis(
        values=list(range(len(levels))), labelExpr=f"{levels}[datum.value]", grid=False, title=None, labelLimit=120
    )
    y = alt.Y("y:Q", scale=alt.Scale(domain=[len(stages) + 0.2, -0.2], nice=False), axis=down)
    heads = [f"head {head}" for head in sorted({e["head"] for e in edges})]
    palette = alt.Scale(domain=heads, range=shades(len(heads)))
    base = alt.Chart(alt.Data(values=lines))
    reads = base.mark_rule().encode(
        x=x,
        x2="x2:Q",
        y=y,
        y2="y2:Q",
        strokeWidth=alt.StrokeWidth("weight:Q", scale=alt.Scale(domain=[0, 1], range=[0.6, 5]), legend=None),
        color=alt.Color("head:N", scale=palette, legend=legend(heads, None)),
        tooltip=[alt.Tooltip("weight:Q", format=".2f"), "head:N"],
    )
    stay = (
        alt.Chart(alt.Data(values=stays))
        .mark_rule(color=SOFT, strokeDash=[2, 3])
        .encode(x=x, x2="x2:Q", y=y, y2="y2:Q")
    )
    dots = alt.Chart(alt.Data(values=[{"x": a, "y": b} for a, b in nodes])).mark_circle(size=60, color=INK, opacity=1)
    return themed(alt.layer(stay, reads, dots.encode(x=x, y=y)), title, note, height=90 * len(stages) + 40)
