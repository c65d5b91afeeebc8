"""Charts of training: loss, accuracy and validation against examples seen; histograms of the training stream."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import altair as alt

from .charts import ACCURACY, padded
from .runs import RunData
from .theme import RUNS, SOFT, legend, run_scales, shades, themed
from .verdict import name

MOST_POINTS = 400
"""Logged steps drawn of each run; of more, every k-th is drawn."""

WORDS = {
    "loss": ("Training loss", "loss (nats a target)"),
    "accuracy": ("Training accuracy", "accuracy (share of training rows)"),
}


def _examples() -> alt.X:
    return alt.X("examples:Q", title="training examples seen", axis=alt.Axis(format="~s", grid=False, tickCount=6))


def training(runs: Mapping[str, RunData], what: Literal["loss", "accuracy"] = "loss") -> alt.LayerChart:
    """What the training steps logged, against examples seen: one line a run."""
    points, every = [], 1
    for label, run in runs.items():
        lines = [line for line in run.training if _finite(line.get(what)) and _finite(line.get("examples"))]
        step = max(1, math.ceil(len(lines) / MOST_POINTS))
        every = max(every, step)
        # Counted from the end, so that the last logged step is always drawn.
        kept = ("step", "examples", what, "stage", "loops")
        points += [{"series": label} | {key: line.get(key) for key in kept} for line in lines[::-1][::step][::-1]]
    colour, dash, _ = run_scales(list(runs), baselines=False)
    title, unit = WORDS[what]
    key = legend(list(runs)) if len(runs) > 1 else None
    scale = ACCURACY if what == "accuracy" else alt.Scale(zero=True, nice=True)
    chart = (
        alt.Chart(alt.Data(values=points))
        .mark_line(strokeWidth=1.6)
        .encode(
            x=_examples(),
            y=alt.Y(f"{what}:Q", title=unit, scale=scale),
            color=alt.Color("series:N", scale=colour, legend=key, title=None),
            strokeDash=alt.StrokeDash("series:N", scale=dash, legend=key, title=None),
            tooltip=[
                alt.Tooltip("series:N", title="run"),
                alt.Tooltip("step:Q", title="step", format=","),
                alt.Tooltip("examples:Q", title="examples", format=","),
                alt.Tooltip(f"{what}:Q", title=what, format=".4f"),
                alt.Tooltip("stage:Q", title="stage"),
                alt.Tooltip("loops:Q", title="loops"),
            ],
        )
    )
    note = "Every logged step." if every == 1 else f"One logged step in {every}."
    stages = _stages(next(iter(runs.values()))) if len(runs) == 1 else []
    layers = alt.layer(*_stage_rules(stages), chart)
    return themed(layers, title, f"{note} {_stage_note(stages)}".strip())


def validation(run: RunData) -> alt.LayerChart:
    """Accuracy in each validation cell against examples seen, with the steps at which the curriculum moved on."""
    cells = {(c["axis"], c.get("value"), c["distribution"]): c for c in run.validation}
    valued = sorted((key for key in cells if key[1] is not None), key=lambda key: (key[0], key[2], key[1]))
    single = [key for key in cells if key[1] is None]
    groups = {(axis, distribution) for axis, _, distribution in valued}
    # The distribution goes without saying where there is only one.
    series = {key: f"{key[0]} {key[1]}" if len(groups) == 1 else name(cells[key]) for key in valued}
    series |= {key: name(cells[key]) for key in single}
    colours = shades(len(valued)) + [RUNS[(i + 1) % len(RUNS)] for i in range(len(single))]
    names = [series[key] for key in (*valued, *single)]
    points = [
        {key: cell.get(key) for key in ("step", "examples", "accuracy", "rows")}
        | {"series": series[(cell["axis"], cell.get("value"), cell["distribution"])], "cell": name(cell)}
        for cell in run.validation
    ]
    stages = _stages(run)
    # The stage numbers stand between plot and legend.
    key = legend(names, offset=22 if stages else 8)
    chart = (
        alt.Chart(alt.Data(values=points))
        .mark_line(point=alt.OverlayMarkDef(size=28, filled=True))
        .encode(
            x=_examples(),
            y=alt.Y("accuracy:Q", title="accuracy (share of validation rows)", scale=ACCURACY),
            color=alt.Color("series:N", scale=alt.Scale(domain=names, range=colours), legend=key, title=None),
            tooltip=[
                alt.Tooltip("cell:N", title="validation cell"),
                alt.Tooltip("examples:Q", title="examples", format=","),
                alt.Tooltip("step:Q", title="step", format=","),
                alt.Tooltip("accuracy:Q", title="accuracy", format=".3f"),
                alt.Tooltip("rows:Q", title="validation rows"),
            ],
        )
    )
    rows = sorted({point["rows"] for point in points if point["rows"] is not None})
    support = f"{'–'.join(f'{r:,}' for r in dict.fromkeys((rows[0], rows[-1])))} rows a point. " if rows else ""
    chance = (run.record.get("card") or {}).get("baselines", {}).get("chance")
    level = f"Chance over all cells: {chance:.2f} (task card). " if _finite(chance) and not single else ""
    on = f"On {next(iter(groups))[1]} rows. " if len(groups) == 1 and not single else ""
    layers = alt.layer(*_stage_rules(stages), chart)
    return themed(layers, "Validation accuracy", f"{on}{support}{level}{_stage_note(stages)}".strip(), height=280)


def _stages(run: RunData) -> list[dict[str, Any]]:
    """Where the logged stage rises: the first logged step of each stage after the first."""
    moves, last = [], None
    for line in run.training:
        stage = line.get("stage")
        if stage is not None and last is not None and stage != last:
            moves.append({"examples": line.get("examples"), "stage": stage})
        last = stage if stage is not None else last
    return moves


def _stage_rules(stages: Sequence[dict[str, Any]]) -> list[alt.Chart]:
    if not stages:
        return []
    rules = alt.Chart(alt.Data(values=list(stages)))
    labelled = alt.Chart(alt.Data(values=list(stages)[:: max(1, math.ceil(len(stages) / 10))]))
    return [
        rules.mark_rule(color="#c4cad1", strokeWidth=1).encode(x=_examples()),
        labelled.mark_text(align="left", dx=3, dy=1, baseline="bottom", fontSize=11, color=SOFT).encode(
            x=_examples(), y=alt.value(0), text="stage:N"
        ),
    ]


def _stage_note(stages: Sequence[dict[str, Any]]) -> str:
    return "Vertical rules: the curriculum reached the numbered stage." if stages else ""


def _finite(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def histogram(cards: Mapping[str, dict[str, Any]], quantity: str) -> alt.Chart | alt.LayerChart:
    """How a quantity is spread over the training stream, as shares of all that the task card counted.

    `cards` maps a label to `{"values": […], "counts": […]}`. One is drawn as bars, several as lines.
    """
    points = []
    for label, card in cards.items():
        total = sum(card["counts"])
        points += [
            {"series": label, "value": value, "count": count, "share": count / total}
            for value, count in zip(card["values"], card["counts"])
            if total
        ]
    words = quantity.replace("_", " ")
    tooltip = [
        alt.Tooltip("series:N", title="run"),
        alt.Tooltip("value:N", title=words),
        alt.Tooltip("count:Q", title="count", format=","),
        alt.Tooltip("share:Q", title="share", format=".3f"),
    ]
    numeric = all(_finite(point["value"]) for point in points)
    y = alt.Y("share:Q", title="share", axis=alt.Axis(format="~p", tickCount=4))
    base = alt.Chart(alt.Data(values=points))
    if len(cards) == 1 or not numeric:
        order = list(dict.fromkeys(point["value"] for point in points))
        x = alt.X("value:O", title=words, sort=order, axis=alt.Axis(labelAngle=0, labelOverlap="greedy"))
        offset = {} if len(cards) == 1 else {"xOffset": "series:N"}
        colour = run_scales(list(cards), baselines=False)[0]
        key = legend(list(cards)) if len(cards) > 1 else None
        chart = base.mark_bar().encode(
            x=x, y=y, tooltip=tooltip, color=alt.Color("series:N", scale=colour, legend=key, title=None), **offset
        )
    else:
        colour, _, shape = run_scales(list(cards), baselines=False)
        key = legend(list(cards))
        x = alt.X("value:Q", title=words, scale=padded(points), axis=alt.Axis(tickMinStep=1, format="d", grid=False))
        painted = alt.Color("series:N", scale=colour, legend=key, title=None)
        chart = alt.layer(
            base.mark_line(strokeWidth=1.5).encode(x=x, y=y, color=painted),
            base.mark_point(filled=True, size=40, opacity=1).encode(
                x=x, y=y, color=painted, tooltip=tooltip, shape=alt.Shape("series:N", scale=shape, legend=key)
            ),
        )
    rows = sorted({sum(card["counts"]) for card in cards.values()})
    support = " and ".join(f"{total:,}" for total in rows)
    return themed(chart, words.capitalize(), f"{support} counted.", height=180)
