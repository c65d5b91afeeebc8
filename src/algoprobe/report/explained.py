"""Shares of explained answers as tables and charts, laid out as Figure 5 of the search paper (Saparov et al. 2025)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from .lenses import heat_map
from .tables import Table
from .verdict import name, number


def between(low: float, high: float) -> str:
    """An interval, as in `0.92–0.99`; its ends are rounded as they are, since 0 and 1 mean nothing special here."""
    return f"{low:.2f}–{high:.2f}"


def inputs_of(cells: Sequence[dict[str, Any]]) -> str:
    """How many inputs stand behind each cell, as in `100 inputs a cell`."""
    counts = sorted({cell["rows"] for cell in cells})
    return f"{'–'.join(dict.fromkeys(str(count) for count in (counts[0], counts[-1])))} inputs a cell"


def short(cell: dict[str, Any]) -> str:
    """A test cell's name; nearly all are balanced ones, which need not be said."""
    return name(cell).removeprefix("balanced ")


def explained_table(label: str, cells: Sequence[dict[str, Any]]) -> Table:
    """A row for each test cell of one model: the explained share beside accuracy and its baselines."""
    rows = tuple(
        (
            short(cell),
            number(cell["explained"]),
            between(cell["low"], cell["high"]),
            number(cell["explained_right"]),
            number(cell["accuracy"]),
            between(cell["accuracy_low"], cell["accuracy_high"]),
            number(cell["chance"]),
            number(cell["shortcut"]),
        )
        for cell in cells
    )
    columns = ("test cell", "explained", "95 %", "and\nright", "accuracy", "95 %", "chance", "shortcut")
    return Table(f"{label}: answers explained by merging of paths, {inputs_of(cells)}", (("", columns),), rows)


def merges_table(label: str, cells: Sequence[dict[str, Any]]) -> Table:
    """A row for each test cell of one model: how many merges there are and which share is maximal, doubles the path."""
    rows = tuple(
        (short(cell), number(cell["maximal"]), between(cell["maximal_low"], cell["maximal_high"]), str(cell["merges"]))
        for cell in cells
        if cell["maximal"] is not None
    )
    title = f"{label}: maximal merges, which double the path"
    return Table(title, (("", ("test cell", "maximal", "95 %", "merges")),), rows)


def matrix_of(models: Mapping[str, Sequence[dict[str, Any]]], key: str, title: str) -> Table:
    """One share of every model (row) in every test cell (column), with its interval where there is one."""
    columns = list(dict.fromkeys(short(cell) for cells in models.values() for cell in cells))
    prefix = "" if key == "explained" else f"{key}_"
    ends = (f"{prefix}low", f"{prefix}high")
    rows = []
    for label, cells in models.items():
        found = {short(cell): cell for cell in cells}
        texts = [
            f"{number(found[c][key])} [{between(found[c][ends[0]], found[c][ends[1]])}]"
            if c in found and found[c][key] is not None
            else "–"
            for c in columns
        ]
        rows.append((label, *texts))
    return Table(title, (("", ("model", *columns)),), tuple(rows))


def baselines_table(models: Mapping[str, Sequence[dict[str, Any]]]) -> Table:
    """Chance, the best shortcut and the number of inputs in every cell, which models of one size share."""
    found = {short(cell): cell for cells in models.values() for cell in cells}
    rows = tuple(
        (label, *(number(cell[key]) if key != "rows" else str(cell[key]) for cell in found.values()))
        for label, key in (("chance", "chance"), ("best shortcut", "shortcut"), ("inputs a model and seed", "rows"))
    )
    return Table("On the same inputs", (("", ("", *found)),), rows)


def sensitivity_table(rows: Sequence[dict[str, Any]]) -> Table:
    """Explained share under other thresholds and readings: a row for each setting, a column for each model."""
    models, settings = (list(dict.fromkeys(row[key] for row in rows)) for key in ("model", "setting"))
    by_place = {(row["model"], row["setting"]): row for row in rows}
    lines = []
    for setting in settings:
        cells = [by_place[model, setting] for model in models]
        lines.append((setting, *(f"{number(c['explained'])} [{between(c['low'], c['high'])}]" for c in cells)))
    counts = ", ".join(f"{by_place[model, settings[0]]['rows']}" for model in models)
    title = f"Explained share under other thresholds and readings; inputs: {counts}"
    return Table(title, (("", ("setting", *models)),), tuple(lines))


def shares(models: Mapping[str, Sequence[dict[str, Any]]], key: str, title: str) -> alt.LayerChart:
    """`explained`, `maximal` or `accuracy` of each model (row) in each cell (column), by colour and number."""
    points = [
        {"model": label, "cell": short(cell), "share": cell[key]} for label, cells in models.items() for cell in cells
    ]
    every = [cell for cells in models.values() for cell in cells]
    return heat_map(points, "model", "cell", "share", title, f"{inputs_of(every)}; {seeds_of(every)}.")


def seeds_of(cells: Sequence[dict[str, Any]]) -> str:
    """How many training seeds stand behind each cell."""
    counts = sorted({cell.get("seeds", 1) for cell in cells})
    return f"training seeds: {', '.join(map(str, counts))}"


def directions(rows: Sequence[dict[str, Any]], model: str, direction: str) -> alt.LayerChart:
    """How often a step merges something into a vertex, by the vertex's distance to the goal (appendix A.12)."""
    mine = [row for row in rows if (row["model"], row["direction"]) == (model, direction)]
    # The last step on top, as in drawings of circuits.
    steps = list(dict.fromkeys(row["step"] for row in mine))[::-1]
    mine.sort(key=lambda row: steps.index(row["step"]))
    points = [row | {"distance to the goal": row["distance"]} for row in mine]
    toward = "what can be reached from it" if direction == "forward" else "what reaches it"
    subtitle = f"Share of explained inputs in which a vertex on the way takes over {toward}."
    return heat_map(points, "step", "distance to the goal", "share", f"{model}: {direction} merges", subtitle)


def direction_table(rows: Sequence[dict[str, Any]]) -> Table:
    """For each model and step the mean over distances of the share of inputs with a merge, by direction."""
    places: dict[tuple[str, str], dict[str, list[float]]] = {}
    for row in rows:
        place = places.setdefault((row["model"], row["step"]), {"forward": [], "backward": []})
        place[row["direction"]].append(row["share"])
    lines = tuple(
        (model, step, *(number(sum(shares) / len(shares)) for shares in place.values()))
        for (model, step), place in places.items()
    )
    title = "Merges into vertices on the way, by step and direction (mean over distances to the goal)"
    return Table(title, (("", ("model", "step", "forward", "backward")),), lines)
