"""One look for all charts: fonts, sizes and colours that tell apart with any colour vision and at 390 px."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

import altair as alt

FONT = "Liberation Sans, Helvetica, Arial, sans-serif"
INK, SOFT, GRID = "#1b1f24", "#57606a", "#e6e8eb"
CHANCE, SHORTCUT = "chance", "best shortcut"
DASHED, DOTTED = [7, 4], [2, 3]

# Okabe & Ito's palette, without its yellow (too pale on white).
RUNS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right")
DASHES = ([1, 0], [8, 3], [3, 2], [10, 3, 2, 3], [6, 2, 2, 2], [1, 2], [12, 4])

# Anchors of matplotlib's viridis up to where it grows too pale for lines on white.
_VIRIDIS = ((68, 1, 84), (70, 50, 126), (54, 92, 141), (39, 127, 142), (31, 161, 135), (74, 193, 109), (160, 200, 40))

CONFIG: dict[str, Any] = {
    "background": "white",
    "font": FONT,
    "padding": 6,
    "view": {"stroke": None},
    "title": {
        "anchor": "start", "frame": "group", "fontSize": 14, "fontWeight": 600, "color": INK, "offset": 10,
        "subtitleFontSize": 12, "subtitleColor": SOFT, "subtitlePadding": 4, "subtitleLineHeight": 15, "lineHeight": 17,
    },
    "axis": {
        "labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": "normal", "labelColor": INK, "titleColor": SOFT,
        "gridColor": GRID, "domainColor": "#afb8c1", "tickColor": "#afb8c1", "titlePadding": 8, "labelOverlap": True,
    },
    "legend": {
        "orient": "top", "labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": "normal", "labelColor": INK,
        "titleColor": SOFT, "labelLimit": 290, "symbolSize": 90, "symbolStrokeWidth": 2, "offset": 8, "rowPadding": 4,
        "columnPadding": 16, "symbolLimit": 40,
    },
    "line": {"strokeWidth": 2},
    "point": {"filled": True, "size": 60},
    "bar": {"color": RUNS[0]},
}  # fmt: skip


def themed(
    chart: alt.Chart | alt.LayerChart, title: str, subtitle: str, height: int | alt.Step = 260
) -> alt.Chart | alt.LayerChart:
    """`chart` with its title, the width of what holds it, and the shared look."""
    lines = alt.TitleParams(text=textwrap.wrap(title, 44), subtitle=textwrap.wrap(subtitle, 50))
    words = f"{title}. {subtitle}"
    return chart.properties(title=lines, width="container", height=height, description=words).configure(**CONFIG)


def columns(labels: Sequence[str]) -> int:
    """How many columns of a legend fit into 300 px."""
    widest = max((len(label) for label in labels), default=1)
    return max(1, min(len(labels), int(300 // (widest * 6.6 + 34))))


def legend(labels: Sequence[str], title: str | None = None, offset: int = 8) -> alt.Legend:
    """A legend `offset` px above the plot that fits a telephone."""
    return alt.Legend(title=title, offset=offset, columns=columns(labels), orient="top", symbolOpacity=1)


def run_scales(labels: Sequence[str], baselines: bool) -> tuple[alt.Scale, alt.Scale, alt.Scale]:
    """Scales of colour, dash and shape over the runs and, if `baselines`, chance and the best shortcut."""
    count = len(labels)
    domain = [*labels, *((CHANCE, SHORTCUT) if baselines else ())]
    colours = [RUNS[i % len(RUNS)] for i in range(count)]
    dashes = [[1, 0] if baselines else DASHES[i % len(DASHES)] for i in range(count)]
    shapes = [SHAPES[i % len(SHAPES)] for i in range(count)]
    if baselines:
        colours, dashes, shapes = [*colours, SOFT, INK], [*dashes, DASHED, DOTTED], [*shapes, "stroke", "stroke"]
    return (
        alt.Scale(domain=domain, range=colours),
        alt.Scale(domain=domain, range=dashes),
        alt.Scale(domain=domain, range=shapes),
    )


def shades(count: int) -> list[str]:
    """`count` colours from dark to light along viridis, for lines that have an order."""
    made = []
    for i in range(count):
        place = (len(_VIRIDIS) - 1) * (i / (count - 1) if count > 1 else 0.3)
        low = min(int(place), len(_VIRIDIS) - 2)
        mixed = [round(a + (b - a) * (place - low)) for a, b in zip(_VIRIDIS[low], _VIRIDIS[low + 1])]
        made.append("#{:02x}{:02x}{:02x}".format(*mixed))
    return made
