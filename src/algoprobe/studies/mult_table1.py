"""Table 1 of *Why Can't Transformers Learn Multiplication?*: exact match by training regime; and which part cures."""

from __future__ import annotations

from typing import Any

from algoprobe.training.config import AuxiliaryConfig

from .comparison import Expected, chosen, compare, laptop_only, varied
from .mult_presets import regimes
from .registry import Preset, Scale, StudyOptions, find_preset, study

SOURCE = "arXiv 2510.00184, Table 1"
PAPER = {"plain": "< 0.01", "implicit": "1.00", "auxiliary": "0.99"}
FAILS, SOLVES = (0.0, 0.1), (0.95, 1.0)
BANDS = {"plain": FAILS, "explicit": SOLVES, "implicit": SOLVES, "auxiliary": SOLVES}


def rows_of(scale: Scale) -> dict[str, Preset]:
    """Every regime, and at laptop scale what plain training makes of the rows that the other two have."""
    rows = {row: find_preset(name) for row, name in regimes(scale).items()}
    if scale == "paper":
        return rows | {"explicit": find_preset("mult-paper-explicit")}
    further = {"plain, sparse rows": "mult-plain-sparse", "explicit": "mult-explicit"}
    return rows | {row: find_preset(name) for row, name in further.items()}


@study("mult-table1")
def table1(options: StudyOptions) -> dict[str, Any]:
    """Multiplication by regime: plain, explicit chain, implicit chain, auxiliary loss; one body, digit by digit."""
    rows = rows_of(options.scale)
    rows = {row: rows[row] for row in chosen(options, rows)}
    expected = [Expected(row, "digit", None, PAPER.get(row, "–"), *BANDS[row], SOURCE) for row in rows if row in BANDS]
    return compare("mult-table1", "Exact match by regime", rows, expected, options)


def parts() -> dict[str, Preset]:
    """The best recipe, and it without each of its parts in turn."""
    best = find_preset("mult-4x4")
    adamw = {"name": "adamw", "lr": 1e-3, "lr_other": 2e-3}
    return {
        "everything": best,
        "no running sums": varied(best, train={"auxiliary": AuxiliaryConfig()}),
        "no sparse rows": varied(best, task={"sparse": 0.0}),
        "neither (plain)": find_preset("mult-4x4-plain"),
        "AdamW for Muon": varied(best, optimiser=adamw),
        "no loop": varied(best, model={"loops": 1, "inject": False, "outer_norm": False}),
        "operands read one way": varied(best, model={"prefix": False}),
        "no decay": varied(best, train={"schedule": "constant"}),
    }


@study("mult-parts")
def mult_parts(options: StudyOptions) -> dict[str, Any]:
    """Which part cures: four digits times four in base 10 by the best recipe, and without each of its parts in turn."""
    laptop_only(options)
    rows = parts()
    rows = {row: rows[row] for row in chosen(options, rows)}
    expected = [
        Expected("everything", "digit", None, "0.99", 0.99, 1.0, "arXiv 2510.00184, Table 1 (auxiliary loss)"),
        Expected("neither (plain)", "digit", None, "< 0.01", 0.0, 0.05, "the same (standard fine-tuning)"),
    ]
    return compare("mult-parts", "What each part is worth", rows, expected, options)
