"""What each part of a training recipe is worth, as tables and charts (the study search-recipes)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from .tables import Table
from .theme import INK, RUNS, SOFT, themed
from .verdict import number

GROUPS = {"ladder": "added one by one", "without": "taken from the best", "instead": "exchanged in the best"}
"""What the rows of each group are."""


def share(value: dict[str, Any]) -> str:
    """A mean of shares over seeds with its interval, as in `0.98 [0.96, 1.00]`."""
    low, high = max(0.0, value["low"]), min(1.0, value["high"])
    return number(value["mean"]) + (f" [{low:.2f}, {high:.2f}]" if len(value["values"]) > 1 else "")


def thousands(value: dict[str, Any]) -> str:
    """A mean number of examples with its interval, as in `48k [41k, 55k]`."""
    low, high = max(0.0, value["low"]), value["high"]
    ends = f" [{low / 1000:.0f}k, {high / 1000:.0f}k]" if len(value["values"]) > 1 else ""
    return f"{value['mean'] / 1000:.0f}k{ends}"


def count(value: dict[str, Any]) -> str:
    """A mean of small counts with the values of all seeds, as in `8.3 (8, 8, 9)`; equal ones stand once."""
    values = value["values"]
    return f"{values[0]}" if len(set(values)) == 1 else f"{value['mean']:.1f} ({', '.join(map(str, values))})"


def learned(row: dict[str, Any]) -> str:
    """How many examples a recipe needed; where some seeds never got there, how many did."""
    if row["examples"] is not None:
        return thousands(row["examples"])
    return f"{sum(one is not None for one in row['solved'])} of {len(row['solved'])} seeds in {row['budget'] // 1000}k"


def naive(row: dict[str, Any]) -> dict[str, Any]:
    """The cell of naive rows."""
    return next(cell for cell in row["cells"] if cell["axis"] == "naive")


def tables(rows: Sequence[dict[str, Any]]) -> list[Table]:
    """For each group of rows what a recipe costs and reaches; then how far more loops carry it."""
    found = []
    for group, title in GROUPS.items():
        here = [row for row in rows if row["group"] == group]
        lines = tuple(
            (
                row["recipe"],
                row["change"],
                learned(row),
                "–" if row["cpu_seconds"] is None else f"{row['cpu_seconds']['mean']:.0f}",
                share(row["worst"]),
                number(naive(row)["accuracy"]),
                count(row["reach"]),
            )
            for row in here
        )
        columns = ("recipe", "what", "examples to 0.95", "CPU s", "worst trained L", "naive", "largest L")
        if lines:
            found.append(Table(f"Parts {title}", (("", columns),), lines, words=2))
    times = list(dict.fromkeys(key for row in rows for key in row["beyond"]))
    lines = tuple(
        (
            row["recipe"],
            *(share(row["beyond"][key]) if key in row["beyond"] else "–" for key in times),
            number(row["chance_beyond"]),
        )
        for row in rows
    )
    columns = ("recipe", *(f"{key}× loops" for key in times), "chance")
    found.append(Table("Mean accuracy at lookaheads beyond the trained ones", (("", columns),), lines))
    return found


def cost(rows: Sequence[dict[str, Any]]) -> alt.LayerChart:
    """Examples until every trained lookahead is answered, a point a seed; beyond the budget: never."""
    budget = max(row["budget"] for row in rows)
    points = [
        {
            "recipe": row["recipe"],
            "what": row["change"],
            "examples": (examples or budget * 1.06) / 1000,
            "reached": "reached" if examples else "not within the budget",
        }
        for row in rows
        for examples in row["solved"]
    ]
    order = [row["recipe"] for row in rows]
    x = alt.X("examples:Q", title="training examples (thousands)", scale=alt.Scale(domain=[0, budget / 1000 * 1.1]))
    y = alt.Y("recipe:N", sort=order, title=None, axis=alt.Axis(labelLimit=180, grid=True, labelOverlap=False))
    names = ["reached", "not within the budget"]
    chart = (
        alt.Chart(alt.Data(values=points))
        .mark_point(filled=True, size=70, opacity=0.75)
        .encode(
            x=x,
            y=y,
            color=alt.Color("reached:N", scale=alt.Scale(domain=names, range=[RUNS[0], RUNS[1]]), title=None),
            shape=alt.Shape("reached:N", scale=alt.Scale(domain=names, range=["circle", "cross"]), title=None),
            tooltip=["recipe:N", "what:N", "examples:Q", "reached:N"],
        )
    )
    rule = (
        alt.Chart(alt.Data(values=[{"examples": budget / 1000}])).mark_rule(color=SOFT, strokeDash=[4, 3]).encode(x=x)
    )
    seeds = len(rows[0]["solved"])
    note = f"Until held-out accuracy is 0.95 at every trained lookahead; a point a seed ({seeds}). Dashed: the budget."
    return themed(alt.layer(rule, chart), "What each part of the recipe is worth", note, height=alt.Step(20))


def beyond(rows: Sequence[dict[str, Any]]) -> alt.LayerChart:
    """Mean accuracy beyond the trained lookaheads at the recommended number of loops, a point a row, chance beside."""
    points = [
        {
            "recipe": row["recipe"],
            "loops": f"{key}× loops",
            "accuracy": value["mean"],
            "low": max(0.0, value["low"]),
            "high": min(1.0, value["high"]),
        }
        for row in rows
        for key, value in row["beyond"].items()
    ]
    names = list(dict.fromkeys(point["loops"] for point in points))
    x = alt.X("accuracy:Q", title="accuracy beyond the trained lookaheads", scale=alt.Scale(domain=[0, 1]))
    order = [row["recipe"] for row in rows]
    y = alt.Y("recipe:N", sort=order, title=None, axis=alt.Axis(labelLimit=180, grid=True, labelOverlap=False))
    scale = alt.Scale(domain=names, range=list(RUNS[: len(names)]))
    base = alt.Chart(alt.Data(values=points))
    colour = alt.Color("loops:N", scale=scale, title="loops at test time, in those of training")
    levels = [{"recipe": row["recipe"], "accuracy": row["chance_beyond"]} for row in rows]
    return themed(
        alt.layer(
            alt.Chart(alt.Data(values=levels)).mark_tick(color=INK, thickness=1.5, size=14).encode(x=x, y=y),
            base.mark_rule().encode(x=alt.X("low:Q"), x2="high:Q", y=y, color=colour),
            base.mark_point(filled=True, size=60, opacity=0.85).encode(
                x=x, y=y, color=colour, shape=alt.Shape("loops:N", scale=alt.Scale(domain=names), title=None)
            ),
        ),
        "Beyond the trained lookaheads",
        "Mean over lookaheads that were never trained on, and over seeds, with 95 % intervals. Black ticks: chance.",
        height=alt.Step(20),
    )
