"""What lenses found, as one heat map and as tables, from plain rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from .tables import Table
from .theme import INK, themed
from .verdict import number

SHADES = ("#eef3f8", "#9dc3e0", "#3b82b8", "#08406f")
"""From 0 to 1, as in the other heat maps."""
SIGNED = ("#a63603", "#f4b183", "#f7f7f7", "#9dc3e0", "#08406f")
"""From the most negative through 0 to the most positive, told apart with any colour vision."""
WRITTEN = 16
"""A map with more columns than this has no numbers in its cells and upright labels above."""


NUMBERS = ("kl", "change")
"""Fields that a row can lack, where None is no number rather than all of them."""


def label(value: Any) -> str:
    """A place on an axis in words; None is `all`."""
    return "all" if value is None else str(value)


def heat_map(
    rows: Sequence[Mapping[str, Any]],
    down: str,
    across: str,
    value: str,
    title: str,
    subtitle: str = "",
    signed: bool = False,
    reach: float | None = None,
) -> alt.LayerChart:
    """`value` of each row by colour, at its place (`down`, `across`), both axes in order of appearance.

    Colours go from 0 to 1 and stay there beyond; `signed` makes them symmetric around 0, to `reach` or (None) as far as
    the values go.
    """
    reach = reach or max((abs(row[value]) for row in rows if row[value] is not None), default=0) or 1.0
    points = [
        {
            "down": label(row[down]),
            "across": label(row[across]),
            "value": row[value],
            "text": written(row[value], signed),
            "dark": abs(row[value]) > 0.6 * (reach if signed else 1),
        }
        for row in rows
        if row[value] is not None
    ]
    names = {side: list(dict.fromkeys(point[side] for point in points)) for side in ("down", "across")}
    many = len(names["across"]) > WRITTEN
    quiet = {"domain": False, "ticks": False, "labelOverlap": False}
    x = alt.X(
        "across:N",
        sort=names["across"],
        scale=alt.Scale(paddingInner=0.04),
        title=across.replace("_", " "),
        axis=alt.Axis(orient="top", labelAngle=-90 if many else 0, labelLimit=200, **quiet),
    )
    narrow = alt.Scale(paddingInner=0.06)
    y = alt.Y("down:N", sort=names["down"], title=None, scale=narrow, axis=alt.Axis(labelLimit=260, **quiet))
    scale = alt.Scale(domain=[0, 1], range=list(SHADES), clamp=True)
    if signed:
        scale = alt.Scale(domain=[-reach, -reach / 2, 0, reach / 2, reach], range=list(SIGNED))
    tooltip = [
        alt.Tooltip("down:N", title=down),
        alt.Tooltip("across:N", title=across),
        alt.Tooltip("value:Q", title=value, format=".3f"),
    ]
    colour = alt.Color(
        "value:Q",
        title=value.replace("_", " "),
        scale=scale,
        legend=alt.Legend(orient="bottom", gradientLength=160, gradientThickness=10, tickCount=3),
    )
    cells = alt.Chart(alt.Data(values=points))
    layers = [cells.mark_rect(cornerRadius=2).encode(x=x, y=y, color=colour, tooltip=tooltip)]
    if not many:
        ink = alt.condition("datum.dark", alt.value("white"), alt.value(INK))
        layers.append(cells.mark_text(fontSize=10).encode(x=x, y=y, text="text:N", color=ink))
    return themed(alt.layer(*layers), title, subtitle, height=alt.Step(22))


def written(value: float | None, signed: bool = False) -> str:
    """A number short enough for a cell."""
    if value is None:
        return "–"
    return f"{value:z.1f}" if signed and abs(value) >= 10 else f"{value:z.2f}"


def number_of(value: float) -> str:
    """A share as in other tables, and what is none (R² below 0, a log-probability) with two decimals."""
    return number(value) if 0 <= value <= 1 else written(value)


def matrix_table(
    down: Sequence[Any], across: Sequence[Any], values: Sequence[Sequence[Any]], title: str, corner: str = ""
) -> Table:
    """A matrix as a table, labels of the rows in the first column under the word `corner`.

    What the names of all columns share, as in `blocks.0.resid_post` and `blocks.1.resid_post`, moves to the title.
    """
    lines = tuple((label(name), *(written(value) for value in line)) for name, line in zip(down, values))
    names, shared = without_shared([label(name) for name in across])
    return Table(f"{title} {shared}".strip(), (("", (corner.replace("_", " "), *names)),), lines)


def without_shared(names: Sequence[str]) -> tuple[list[str], str]:
    """Dotted names without the parts that they begin and end with alike, and those parts in words."""
    parts = [name.split(".") for name in names]
    fewest = min(map(len, parts), default=0)
    if len(names) < 2 or fewest < 2:
        return list(names), ""
    first = next((i for i in range(fewest) if len({p[i] for p in parts}) > 1), 0)
    last = next((i for i in range(fewest - first) if len({p[-1 - i] for p in parts}) > 1), 0)
    kept = [".".join(p[first : len(p) - last]) for p in parts]
    before, after = ".".join(parts[0][:first]), ".".join(parts[0][len(parts[0]) - last :])
    return kept, ".".join(filter(None, (before, "*", after))) if before or after else ""


def rows_table(rows: Sequence[Mapping[str, Any]], columns: Sequence[str], title: str) -> Table:
    """Some fields of each row; `low` and `high` stand as one interval where `columns` names `95 %`."""

    def text(row: Mapping[str, Any], column: str) -> str:
        if column == "95 %":
            low, high = number_of(row["low"]), number_of(row["high"])
            return f"{low} to {high}" if "-" in low else f"{low}–{high}"
        if row[column] is None and column in NUMBERS:
            return "–"
        return number_of(row[column]) if isinstance(row[column], float) else label(row[column])

    lines = tuple(tuple(text(row, column) for column in columns) for row in rows)
    return Table(title, (("", tuple(column.replace("_", " ") for column in columns)),), lines)
