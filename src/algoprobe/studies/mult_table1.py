"""Table 1 of *Why Can't Transformers Learn Multiplication?*: exact match by training regime; and which part cures."""

from __future__ import annotations

from typing import Any

from .comparison import (
    Expected,
    chosen,
    compare,
)
from .mult_presets import regimes
from .registry import StudyOptions, find_preset, study

SOURCE = "arXiv 2510.00184, Table 1"
PAPER = {"plain": "< 0.01", "explicit": "–", "implicit": "1.00", "auxiliary": "0.99"}
BANDS = {"plain": (0.0, 0.1), "explicit": (0.95, 1.0), "implicit": (0.95, 1.0), "auxiliary": (0.95, 1.0)}


@study("mult-table1")
def table1(options: StudyOptions) -> dict[str, Any]:
    """Multiplication by regime: plain, explicit chain, implicit chain, auxiliary loss; the same body, its digits."""
    names = regimes(options.scale, explicit=True)
    rows = {row: find_preset(names[row]) for row in chosen(options, names)}
    expected = [Expected(row, "digit", None, PAPER[row], *BANDS[row], SOURCE) for row in rows]
    return compare("mult-table1", "Exact match by regime", rows, expected, options)


PARTS: dict[str, tuple[str, dict[str, dict[str, Any]]]] = {
    "everything": ("the whole recipe", {}),
    "no target": ("without the running sums", {}),
}
