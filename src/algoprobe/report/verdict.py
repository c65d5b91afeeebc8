"""What an accuracy says beside chance and the best shortcut."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from algoprobe.tasks.task import Cell

Verdict = Literal["above", "level", "chance", "open"]

WORDS: dict[str, str] = {
    "above": "above the best shortcut",
    "level": "not above the best shortcut",
    "chance": "not above chance",
    "open": "no interval or baseline to judge by",
}
"""Each verdict in words."""


def verdict(cell: dict[str, Any]) -> Verdict:
    """Where the interval of a test cell lies.

    `above`: its low end is above both the best shortcut and chance. `chance`: its low end is not above chance.
    `level`: in between. `open`: the cell has no interval or no chance level.
    """
    low, chance = cell.get("low"), cell.get("chance")
    if low is None or chance is None:
        return "open"
    if low <= chance:
        return "chance"
    shortcut = cell.get("shortcut")
    return "above" if shortcut is None or low > shortcut else "level"


def name(cell: dict[str, Any]) -> str:
    """`balanced lookahead 3`, `naive`."""
    return Cell(cell["axis"], cell.get("value"), cell["distribution"]).name


def extremes(cells: Iterable[dict[str, Any]]) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """The cells with the lowest and the highest accuracy, or None when there are no cells."""
    ordered = sorted(cells, key=lambda cell: cell["accuracy"])
    return (ordered[0], ordered[-1]) if ordered else None


def number(value: float | int | None) -> str:
    """An accuracy as it stands in tables and sentences: two decimals; more where fewer would read as 0 or 1."""
    if value is None:
        return "–"
    for decimals in (2, 3, 4):
        text = f"{value:.{decimals}f}"
        if value in (0.0, 1.0) or float(text) not in (0.0, 1.0):
            return text
    return "<0.0001" if value < 0.5 else ">0.9999"


def interval(cell: dict[str, Any]) -> str:
    """`[0.97, 0.99]`, or an empty string."""
    low, high = cell.get("low"), cell.get("high")
    return "" if low is None or high is None else f"[{number(low)}, {number(high)}]"


def shortcut(cell: dict[str, Any]) -> str:
    """`0.20 (deepest subtree)`, `–` where the cell has none."""
    if cell.get("shortcut") is None:
        return "–"
    heuristic = str(cell.get("shortcut_name") or "").replace("_", " ")
    return number(cell["shortcut"]) + (f" ({heuristic})" if heuristic else "")


def beside(cell: dict[str, Any]) -> str:
    """`0.98 [0.97, 0.99] (chance 0.16, best shortcut 0.20)`: an accuracy never stands alone."""
    text = " ".join(filter(None, (number(cell["accuracy"]), interval(cell))))
    return f"{text} (chance {number(cell.get('chance'))}, best shortcut {number(cell.get('shortcut'))})"
