"""Graphs beyond those of training, and what larger ones cost (the studies search-beyond and search-cost)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from .recipes import share, thousands
from .tables import Table
from .theme import DASHED, INK, RUNS, SOFT, legend, shades, themed
from .verdict import interval, name, number

SHOWN = (1, 2, 4, 8, 12, 16, 20, 24, 29, 34, 39, 49)
"""Lookaheads that tables and charts show, where a test has them."""


def tested(row: dict[str, Any]) -> str:
    """What was trained on and tested on, in words."""
    return (
        f"trained to {row['trained_vertices']} vertices and lookahead {row['trained_lookahead']}, "
        f"tested on {row['vertices']} vertices"
    )


def shown_of(row: dict[str, Any]) -> list[int]:
    """The lookaheads of a row that are shown."""
    found = {cell["value"] for cell in row["cells"]}
    return [value for value in SHOWN if value in found]


def tables(rows: Sequence[dict[str, Any]]) -> list[Table]:
    """For each test accuracy by lookahead (row) and number of loops (column), chance and best shortcut beside."""
    found = []
    for row in rows:
        by_place = {(cell["value"], cell["loops"]): cell for cell in row["cells"]}
        counts = list(dict.fromkeys(cell["loops"] for cell in row["cells"]))
        lines = tuple(
            (
                f"L = {value}",
                *(number(by_place[value, count]["accuracy"]) for count in counts),
                number(by_place[value, counts[0]]["chance"]),
                number(by_place[value, counts[0]]["shortcut"]),
            )
            for value in shown_of(row)
        )
        first = row["cells"][0]
        title = f"{tested(row)}: accuracy by loops ({first['rows']} rows a cell and seed, seeds {first['seeds']})"
        columns = ("", *(f"{count}" for count in counts), "chance", "shortcut")
        found.append(Table(title[0].upper() + title[1:], (("", columns),), lines))
    return found


def against_loops(row: dict[str, Any]) -> alt.LayerChart:
    """Accuracy against the number of loops, a line a lookahead; the rule is the number of loops of training."""
    values = shown_of(row)
    names = [str(value) for value in values]
    points = [
        {key: cell[key] for key in ("loops", "accuracy", "low", "high", "chance")} | {"line": str(cell["value"])}
        for cell in row["cells"]
        if cell["value"] in values
    ]
    counts = [point["loops"] for point in points]
    scale = alt.Scale(type="log", base=2, domain=[min(counts) * 0.9, max(counts) * 1.1], nice=False)
    ticks = sorted(set(counts))
    x = alt.X("loops:Q", title="loops at test time", scale=scale, axis=alt.Axis(values=ticks, format="d", grid=False))
    y = alt.Y("accuracy:Q", title="accuracy (share of test rows)", scale=alt.Scale(domain=[0, 1], nice=False))
    colour = alt.Color(
        "line:N",
        scale=alt.Scale(domain=names, range=shades(len(names))),
        legend=legend(names, "lookahead"),
        title="lookahead",
    )
    base = alt.Chart(alt.Data(values=points))
    rule = alt.Chart(alt.Data(values=[{"loops": row["recommended_loops"]}]))
    first = row["cells"][0]
    note = (
        f"{first['rows']} test rows a cell and seed, mean over {first['seeds']} training seeds, bars: 95 % interval. "
        "Dashed: chance. Rule: the loops of training."
    )
    return themed(
        alt.layer(
            rule.mark_rule(color=INK, strokeWidth=1.2).encode(x=x),
            base.mark_line(strokeDash=DASHED, strokeWidth=0.8).encode(x=x, y="chance:Q", color=colour),
            base.mark_rule().encode(x=x, y=alt.Y("low:Q"), y2="high:Q", color=colour),
            base.mark_line().encode(x=x, y=y, color=colour),
            base.mark_point(filled=True, size=40, opacity=1).encode(x=x, y=y, color=colour),
        ),
        tested(row)[0].upper() + tested(row)[1:],
        note,
    )


def unseen_table(row: str, cells: Sequence[dict[str, Any]]) -> Table:
    """Accuracy on test rows whose shape no training row had; `rows` says how many there are."""
    lines = tuple(
        (name(cell).removeprefix("balanced "), f"{cell['rows']}")
        + (
            (number(cell["accuracy"]), interval(cell), number(cell["chance"]), number(cell["shortcut"]))
            if cell["rows"]
            else ("–",) * 4
        )
        for cell in cells
    )
    columns = ("test cell", "rows", "accuracy", "95 %", "chance", "shortcut")
    return Table(f"{row}, seed 0: test rows that no training row equals under any renaming", (("", columns),), lines)


def cost_table(rows: Sequence[dict[str, Any]]) -> Table:
    """A row a size: what was spent until every lookahead was answered, and how well the whole run ends."""
    lines = tuple(
        (
            f"{row['vertices']}",
            f"{row['lookahead']}",
            thousands(row["examples"])
            if "examples" in row
            else f"{sum(one is not None for one in row['solved'])} of {len(row['solved'])} seeds",
            f"{row['cpu_seconds']['mean']:.0f}" if "examples" in row else "–",
            f"{row['operations']['mean']:.2g}" if "examples" in row else "–",
            f"{row['budget'] / 1000:.0f}k",
            f"{row['run_cpu_seconds']['mean']:.0f}",
            share(row["worst"]),
            share(row["naive"]),
        )
        for row in rows
    )
    columns = (
        "vertices", "L up to", "examples to 0.95", "CPU s", "operations", "whole run", "its CPU s", "worst L", "naive",
    )  # fmt: skip
    return Table("What larger graphs cost", (("", columns),), lines)


UNITS = {"examples": "training examples", "operations": "floating-point operations", "cpu_seconds": "CPU seconds"}


def cost(rows: Sequence[dict[str, Any]], slopes: Mapping[str, float], key: str) -> alt.LayerChart:
    """One cost against the number of vertices, both on logarithmic axes; a point a seed, the line through the means."""
    points = [{"vertices": row["vertices"], "cost": value} for row in rows for value in row[key]["values"]]
    means = [{"vertices": row["vertices"], "cost": row[key]["mean"]} for row in rows]
    ticks = [row["vertices"] for row in rows]
    low, high = min(ticks) * 0.9, max(ticks) * 1.1
    scale = alt.Scale(type="log", domain=[low, high], nice=False)
    x = alt.X("vertices:Q", title="largest number of vertices", scale=scale, axis=alt.Axis(values=ticks, format="d"))
    y = alt.Y("cost:Q", title=UNITS[key], scale=alt.Scale(type="log"), axis=alt.Axis(format=".1~s"))
    power = f" They grow as the power {slopes[key]:.2f} of the number of vertices." if key in slopes else ""
    seeds = len(rows[0][key]["values"])
    return themed(
        alt.layer(
            alt.Chart(alt.Data(values=means)).mark_line(color=SOFT).encode(x=x, y=y),
            alt.Chart(alt.Data(values=points)).mark_point(filled=True, size=70, color=RUNS[0]).encode(x=x, y=y),
        ),
        f"{UNITS[key].capitalize()} to learn search",
        f"Until held-out accuracy is 0.95 at every lookahead that fits; a point a seed ({seeds}).{power}",
    )
