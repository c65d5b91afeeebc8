"""Charts and tables of what happens along training and from loop to loop, from plain rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from .tables import Table
from .theme import DASHED, SOFT, legend, run_scales, shades, themed
from .verdict import number

Point = dict[str, Any]


def lines(
    points: Sequence[Point],
    x: str,
    y: str,
    title: str,
    note: str,
    *,
    names: tuple[str, str],
    ordered: bool = False,
    log: bool = False,
    share: bool = True,
) -> alt.LayerChart:
    """`y` against `x`, a line for each value of `line`, a band where points have `low` and `high`.

    `names` are the titles of the axes; a `chance` of points is drawn dashed. With `ordered` the lines have an order and
    their colours too; `share` keeps the upright axis at 0 to 1.
    """
    series = list(dict.fromkeys(str(point["line"]) for point in points))
    kept = ("low", "high", "chance")
    data = [
        {"x": p[x], "y": p[y], "line": str(p["line"])} | {k: p[k] for k in kept if p.get(k) is not None}
        for p in points
        if p[y] is not None
    ]
    scale = alt.Scale(type="log" if log else "linear", nice=False, zero=False)
    whole = {} if any(p["x"] % 1 for p in data) else {"tickMinStep": 1}
    axis = alt.Axis(grid=False, format="~s", **({"values": ticks([p["x"] for p in data])} if log else whole))
    across = alt.X("x:Q", title=names[0], scale=scale, axis=axis)
    domain = alt.Scale(domain=[0, 1], nice=False, clamp=True) if share else alt.Scale(zero=False)
    up = alt.Y("y:Q", title=names[1], scale=domain)
    colours, dashes, _ = run_scales(series, False)
    if ordered:
        colours, dashes = alt.Scale(domain=series, range=shades(len(series))), alt.Scale(domain=series, range=[[1, 0]])
    key = alt.Legend(**(legend(series).to_dict() | {"symbolType": "stroke", "symbolStrokeWidth": 3, "symbolSize": 300}))
    colour = alt.Color("line:N", scale=colours, sort=series, legend=key, title=None)
    dash = alt.StrokeDash("line:N", scale=dashes, legend=None)
    base = alt.Chart(alt.Data(values=data))
    layers = []
    if any("low" in p for p in data):
        band = base.transform_filter("isValid(datum.low)")
        layers.append(band.mark_area(opacity=0.15).encode(x=across, y=alt.Y("low:Q"), y2="high:Q", color=colour))
    if any("chance" in p for p in data):
        chance = base.transform_filter("isValid(datum.chance)")
        layers.append(
            chance.mark_line(strokeDash=DASHED, strokeWidth=1, color=SOFT).encode(
                x=across, y=alt.Y("min(chance):Q", scale=domain)
            )
        )
    layers.append(base.mark_line().encode(x=across, y=up, color=colour, strokeDash=dash))
    if len(data) <= 200:
        layers.append(base.mark_point(filled=True, size=24, opacity=1).encode(x=across, y=up, color=colour))
    return themed(alt.layer(*layers), title, note)


def ticks(values: Sequence[float]) -> list[float]:
    """Powers of two where few of them hold all values, else 1 and 3 times the powers of ten."""
    low, high = min(values), max(values)
    if high <= 256:
        found = [2.0**power for power in range(-4, 40)]
    else:
        found = [first * 10.0**power for power in range(-3, 14) for first in (1, 3)]
    return [value for value in found if low <= value <= high]


SHORT = {"first-ood": "OOD, ID", "second-ood": "ID, OOD", "ood": "OOD", "id": "ID"}
"""Groups of two-hop rows, by which hops are OOD."""


def groups_tables(rows: Sequence[Point], groups: Sequence[str], title: str) -> list[Table]:
    """A row a model: mean accuracy in each group of test rows with the baselines beneath; then OOD with intervals."""
    body = []
    for row in rows:
        spent = (f"{row['cpu_seconds']:.0f}", f"{row['examples'] / 1e6:.1f}M")
        body.append((row["model"], *(number(row["cells"][group]["accuracy"]) for group in groups), *spent))
    first = rows[0]["cells"]
    foot = tuple(
        (word, *(number(first[group][key]) for group in groups), "", "")
        for word, key in (("chance", "chance"), ("best shortcut", "shortcut"))
    )
    counted = ("test rows", *(f"{first[group]['rows_in_all']}" for group in groups), "", "")
    columns = ("model", *(SHORT.get(group, group) for group in groups), "CPU s", "seen")
    means = Table(title, (("", columns),), (*body, *foot, counted), foot=3)
    lines = []
    for row in rows:
        cell = row["cells"]["ood"]
        pooled = f"{cell['pooled_low']:.2f}–{cell['pooled_high']:.2f}"
        seeds = ", ".join(f"{value:.2f}" for value in cell["values"])
        lines.append((row["model"], number(cell["pooled"]), pooled, f"{cell['rows_in_all']}", seeds))
    columns = ("model", "accuracy", "95 %", "rows", "each seed")
    return [means, Table("Both hops OOD, the rows of all seeds pooled", (("", columns),), tuple(lines))]


def rows_table(rows: Sequence[Point], columns: Sequence[tuple[str, str]], title: str, words: int = 1) -> Table:
    """Some fields of each row under their headings; floats with two decimals, from 10 with one, `None` a dash."""

    def text(value: Any) -> str:
        if value is None:
            return "–"
        if isinstance(value, float):
            return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
        return f"{value:,}" if isinstance(value, int) else str(value)

    body = tuple(tuple(text(row.get(key)) for key, _ in columns) for row in rows)
    return Table(title, (("", tuple(heading for _, heading in columns)),), body, words=words)
