"""Charts of test accuracies: every accuracy stands beside chance and the best shortcut.

Runs come in as `{label: run}` (see `runs.by_label`); charts come out as altair charts as wide as what holds them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from .runs import RunData
from .theme import CHANCE, DASHED, INK, SHORTCUT, SOFT, legend, run_scales, shades, themed
from .verdict import interval, name, number, shortcut

ACCURACY = alt.Scale(domain=[0, 1], nice=False)
UPRIGHT = 12
"""More test cells than this have upright names above the heat map."""
TOOLTIP = [
    alt.Tooltip("series:N", title="run"),
    alt.Tooltip("cell:N", title="test cell"),
    alt.Tooltip("accuracy:Q", title="accuracy", format=".3f"),
    alt.Tooltip("interval:N", title="95 % interval"),
    alt.Tooltip("chance:Q", title="chance", format=".3f"),
    alt.Tooltip("shortcut:N", title="best shortcut"),
    alt.Tooltip("rows:Q", title="test rows"),
    alt.Tooltip("seeds:Q", title="training seeds"),
    alt.Tooltip("loops:Q", title="loops"),
]


def _point(series: str, cell: dict[str, Any]) -> dict[str, Any]:
    kept = {key: cell.get(key) for key in ("value", "accuracy", "low", "high", "chance", "rows", "seeds", "loops")}
    return kept | {"series": series, "cell": name(cell), "interval": interval(cell), "shortcut": shortcut(cell)}


def panels(runs: Mapping[str, RunData]) -> list[tuple[str, str]]:
    """The (axis, distribution) pairs that have a value to plot against, in the order of the evaluations."""
    cells = (cell for run in runs.values() for cell in run.cells)
    return list(dict.fromkeys((c["axis"], c["distribution"]) for c in cells if c.get("value") is not None))


def accuracy(runs: Mapping[str, RunData], axis: str, distribution: str) -> alt.LayerChart:
    """Accuracy against an axis of the task: points with intervals, chance dashed, best shortcut dotted."""
    points, baselines = [], []
    for label, run in runs.items():
        cells = [c for c in run.cells if (c["axis"], c["distribution"]) == (axis, distribution)]
        cells = [c for c in cells if c.get("value") is not None]
        points += [_point(label, cell) for cell in cells]
        lines = {
            series: tuple((cell["value"], cell[key]) for cell in cells if cell.get(key) is not None)
            for series, key in ((CHANCE, "chance"), (SHORTCUT, "shortcut"))
        }
        # Runs of one size share their test rows and so their baselines: drawn once.
        baselines += [item for item in lines.items() if item not in baselines]
    lines = [
        {"series": series, "value": value, "accuracy": level, "group": group, "cell": f"{distribution} {axis} {value}"}
        for group, (series, line) in enumerate(baselines)
        for value, level in line
    ]
    colour, dash, shape = run_scales(list(runs), baselines=True)
    key = legend([*runs, CHANCE, SHORTCUT])
    x = alt.X("value:Q", title=axis, scale=padded(points), axis=alt.Axis(tickMinStep=1, format="d", grid=False))
    y = alt.Y("accuracy:Q", title="accuracy (share of test rows)", scale=ACCURACY, axis=alt.Axis(format=".1f"))
    painted = alt.Color("series:N", scale=colour, legend=key, title=None)
    measured = alt.Chart(alt.Data(values=points))
    layers = alt.layer(
        alt.Chart(alt.Data(values=lines))
        .mark_line()
        .encode(
            x=x,
            y=y,
            color=painted,
            strokeDash=alt.StrokeDash("series:N", scale=dash, legend=key, title=None),
            detail="group:N",
        ),
        measured.mark_rule(strokeWidth=1.5).encode(x=x, y=alt.Y("low:Q"), y2="high:Q", color=painted),
        measured.mark_line().encode(x=x, y=y, color=painted),
        measured.mark_point(filled=True, size=70, opacity=1).encode(
            x=x, y=y, color=painted, shape=alt.Shape("series:N", scale=shape, legend=key, title=None), tooltip=TOOLTIP
        ),
    )
    return themed(layers, f"Accuracy against {axis}", f"Tested on {distribution} rows. {_support(points)}")


def padded(points: Sequence[dict[str, Any]]) -> alt.Scale:
    """The scale of whole numbers that leaves room for the marks at both ends."""
    values = [point["value"] for point in points] or [0]
    return alt.Scale(domain=[min(values) - 0.4, max(values) + 0.4], nice=False, zero=False)


def _support(points: Sequence[dict[str, Any]]) -> str:
    rows = sorted({p["rows"] for p in points if p["rows"] is not None})
    seeds = sorted({p["seeds"] for p in points if p["seeds"] is not None})
    parts = []
    if rows:
        parts.append(f"{rows[0]:,} rows a point" if len(rows) == 1 else f"{rows[0]:,}–{rows[-1]:,} rows a point")
    if seeds:
        parts.append("1 training seed" if seeds == [1] else f"{'–'.join(str(s) for s in seeds)} training seeds")
    return f"{', '.join(parts)}; bars: 95 % interval." if parts else ""


def loop_sweep(run: RunData, axis: str, distribution: str, label: str | None = None) -> alt.LayerChart:
    """Accuracy against the number of loops, one line a value of the axis.

    The vertical rule is the recommended number of loops; the band spans the numbers of loops logged in training.
    """
    label = label or run.preset
    cells = [c for c in (*run.cells, *run.sweep) if (c["axis"], c["distribution"]) == (axis, distribution)]
    by_place = {(c.get("value"), c["loops"]): c for c in cells if c.get("loops") is not None}
    points = [
        _point(label, cell) | {"line": distribution if value is None else str(value)}
        for (value, _), cell in sorted(by_place.items(), key=lambda item: (item[0][0] is not None, item[0]))
    ]
    names = list(dict.fromkeys(point["line"] for point in points))
    levels = [{"line": p["line"], "loops": p["loops"], "accuracy": p["chance"]} for p in points]
    loops = [point["loops"] for point in points] or [1]
    trained = [line["loops"] for line in run.training if line.get("loops") is not None]
    recommended = run.record.get("loops")
    edges = [*loops, *trained, *([recommended] if recommended is not None else [])]
    scale = alt.Scale(domain=[min(edges) - 0.5, max(edges) + 0.5], nice=False, zero=False)
    x = alt.X("loops:Q", title="loops at test time", scale=scale, axis=alt.Axis(tickMinStep=1, format="d", grid=False))
    y = alt.Y("accuracy:Q", title="accuracy (share of test rows)", scale=ACCURACY, axis=alt.Axis(format=".1f"))
    colour = alt.Color(
        "line:N", scale=alt.Scale(domain=names, range=shades(len(names))), legend=legend(names, axis), title=axis
    )
    layers = []
    if trained:
        band = [{"from": min(trained) - 0.5, "to": max(trained) + 0.5}]
        layers.append(
            alt.Chart(alt.Data(values=band))
            .mark_rect(color="#0072B2", opacity=0.09)
            .encode(x=alt.X("from:Q", scale=scale, title="loops at test time"), x2="to:Q")
        )
    if recommended is not None:
        layers.append(
            alt.Chart(alt.Data(values=[{"loops": recommended}])).mark_rule(color=INK, strokeWidth=1.5).encode(x=x)
        )
    measured = alt.Chart(alt.Data(values=points))
    layers += [
        alt.Chart(alt.Data(values=levels)).mark_line(strokeDash=DASHED, strokeWidth=1).encode(x=x, y=y, color=colour),
        measured.mark_rule().encode(x=x, y=alt.Y("low:Q"), y2="high:Q", color=colour),
        measured.mark_line().encode(x=x, y=y, color=colour),
        measured.mark_point(filled=True, size=45, opacity=1).encode(x=x, y=y, color=colour, tooltip=TOOLTIP),
    ]
    notes = [f"Tested on {distribution} rows. {_support(points)} Dashed: chance."]
    if recommended is not None:
        notes.append(f"Rule: the recommended {recommended} loops.")
    if trained:
        span = f"{min(trained)}" if min(trained) == max(trained) else f"{min(trained)} to {max(trained)}"
        notes.append(f"Band: loops used in training ({span}).")
    return themed(alt.layer(*layers), "Accuracy against loops", " ".join(notes))


def trained_on_tested_on(cells: Mapping[str, Sequence[dict[str, Any]]]) -> alt.LayerChart:
    """Accuracy of each run (row) in each test cell (column), with chance and the best shortcut beneath.

    The layout of Figure 2 of *Transformers Struggle to Learn to Search* (ICLR 2025). `cells` maps a row's label, such
    as `trained on balanced`, to its test cells. Where rows disagree on a baseline, its range is written.
    """
    points = [_point(row, cell) | {"text": number(cell["accuracy"])} for row, group in cells.items() for cell in group]
    names = list(dict.fromkeys(point["cell"] for point in points))
    beneath = []
    for series, key in ((CHANCE, "chance"), (SHORTCUT, "shortcut")):
        for column in names:
            here = [c for group in cells.values() for c in group if name(c) == column and c.get(key) is not None]
            texts = list(dict.fromkeys(number(cell[key]) for cell in sorted(here, key=lambda c: c[key])))
            text = texts[0] if len(texts) == 1 else f"{texts[0]}–{texts[-1]}" if texts else "–"
            heuristics = ", ".join(dict.fromkeys(shortcut(cell) for cell in here)) if key == "shortcut" else text
            beneath.append({"series": series, "cell": column, "text": text, "level": heuristics})
    order = [*cells, CHANCE, SHORTCUT]
    upright, lines = len(names) > UPRIGHT, max((len(column.split()) for column in names), default=1)
    x = alt.X(
        "cell:N",
        sort=names,
        title="tested on",
        scale=alt.Scale(domain=names, paddingInner=0.04),
        axis=alt.Axis(
            orient="top",
            labelAngle=-90 if upright else 0,
            labelExpr="datum.label" if upright else "split(datum.label, ' ')",
            labelLimit=220,
            labelPadding=4 if upright else 5 + 13 * (lines - 1),
            labelOverlap=False,
            domain=False,
            ticks=False,
            labelFontSize=11,
        ),
    )
    y = alt.Y(
        "series:N",
        sort=order,
        title=None,
        scale=alt.Scale(domain=order, paddingInner=0.06),
        axis=alt.Axis(
            labelExpr="split(datum.label, ', ')", labelLimit=190, labelOverlap=False, domain=False, ticks=False
        ),
    )
    measured, levels = alt.Chart(alt.Data(values=points)), alt.Chart(alt.Data(values=beneath))
    colour = alt.Color(
        "accuracy:Q",
        title="accuracy",
        scale=alt.Scale(domain=[0, 1], range=["#eef3f8", "#9dc3e0", "#3b82b8", "#08406f"]),
        legend=alt.Legend(orient="bottom", gradientLength=160, gradientThickness=10, tickCount=3, format=".1f"),
    )
    ink = alt.condition("datum.accuracy > 0.6", alt.value("white"), alt.value(INK))
    layers = alt.layer(
        measured.mark_rect(cornerRadius=3).encode(x=x, y=y, color=colour, tooltip=TOOLTIP),
        measured.mark_text(fontSize=12, fontWeight=600).encode(x=x, y=y, text="text:N", color=ink),
        levels.mark_text(fontSize=12, color=SOFT).encode(
            x=x,
            y=y,
            text="text:N",
            tooltip=[
                alt.Tooltip("series:N", title="baseline"),
                alt.Tooltip("cell:N", title="test cell"),
                alt.Tooltip("level:N", title="accuracy"),
            ],
        ),
    )
    note = f"{_support(points)} Chance and the best shortcut beneath.".strip()
    return themed(layers, "Trained on, tested on", note.replace("; bars: 95 % interval.", "."), height=alt.Step(40))
