"""More digits: larger products, and operands with more digits than any in training."""

from __future__ import annotations

from typing import Any

from algoprobe.training.config import Experiment

from .comparison import Expected, changed, chosen, compare, finish, laptop_only, train_rows, varied, verdicts_of
from .mult_open import as_matrix, head, over_seeds
from .mult_presets import mult_4x4, mult_auxiliary
from .registry import Preset, StudyOptions, find_preset, preset, study

LOOPS = (1, 2, 3, 4, 6, 8)
ROWS = 2000
"""Test rows of each number of digits."""


@preset("mult-6x6", "laptop")
def mult_6x6() -> Experiment:
    """Six digits times six in base 10, by the recipe of mult-4x4: half an hour of one core."""
    return changed(mult_4x4(), task={"digits": 6, "sparse": 0.7}, train={"examples": 1_200_000, "decay": 0.65})


@preset("mult-8x8", "laptop")
def mult_8x8() -> Experiment:
    """Eight digits times eight in base 10, by the same: hours of one core."""
    return changed(mult_4x4(), task={"digits": 8, "sparse": 0.8}, train={"examples": 5_000_000, "decay": 0.5})


@preset("mult-longer", "laptop")
def mult_longer() -> Experiment:
    """mult-auxiliary with places for six digits, trained on operands of up to four and tested on six."""
    return changed(mult_auxiliary(), task={"digits": 6, "trained_digits": 4}, train={"examples": 400_000})


LARGER = {"4 × 4": "mult-4x4", "6 × 6": "mult-6x6", "8 × 8": "mult-8x8"}


@study("mult-larger")
def larger(options: StudyOptions) -> dict[str, Any]:
    """Four, six and eight digits in base 10 by one recipe: what is reached at which cost."""
    laptop_only(options)
    rows = {row: find_preset(LARGER[row]) for row in chosen(options, LARGER)}
    source = "what this study set out for; 2405.14838 has 0.95 at 7 × 7 and 0.99 at 9 × 9, each a GPT-2 of 124 million"
    expected = [Expected(row, "digit", None, "–", 0.99 if row == "4 × 4" else 0.95, 1.0, source) for row in rows]
    return compare("mult-larger", "More digits", rows, expected, options)


def longer_rows() -> dict[str, Preset]:
    """Digits named by where they stand in the row, or by their weight and number."""
    base = find_preset("mult-longer")
    return {
        "places of the row": base,
        "places by weight": varied(base, task={"places": "coupled"}),
        "loops drawn from 2 to 6": varied(base, loops={"draw": "uniform", "low": 2, "high": 6}),
    }


@study("mult-beyond")
def beyond(options: StudyOptions) -> dict[str, Any]:
    """Trained on up to four digits, tested on four, five and six, from one loop to four times those of training."""
    from algoprobe.report.lenses import heat_map, matrix_table
    from algoprobe.training.evaluation import evaluate, open_run

    laptop_only(options)
    made = longer_rows()
    jobs = train_rows({row: made[row] for row in chosen(options, made)}, options)

    def measured(job: Any) -> list[dict[str, Any]]:
        run, found = open_run(job.folder.path), []
        for digits in range(run.task.config.most_trained, run.task.config.n + 1):
            task = run.task.at_size(digits)
            rows = min(ROWS, task.config.test_rows)
            cells = evaluate(run.model, task, task.cells()[:1], rows, run.arithmetic, LOOPS)
            found += [{"digits": digits} | cell for cell in cells]
        return found

    rows, charts, tables, verdicts = {}, {}, [], []
    for row, of_row in jobs.items():
        cells = over_seeds(of_row, measured, ("digits", "loops"), ("accuracy", "shortcut"))
        rows[row] = cells
        title = f"{row}: whole products right, by digits and loops"
        note = f"Trained on up to {cells[0]['digits']} digits; {cells[0]['rows']} test rows a line and seed."
        charts[f"loops-{row.replace(' ', '-')}"] = heat_map(cells, "digits", "loops", "accuracy", title, note)
        digits, counts, values = as_matrix(cells, "digits", "loops", "accuracy")
        shortcuts = [max(cell["shortcut"] for cell in cells if cell["digits"] == d) for d in digits]
        lines = [[*line, shortcut] for line, shortcut in zip(values, shortcuts)]
        across = [f"R = {count}" for count in counts] + ["best shortcut"]
        tables.append(matrix_table([f"{d} digits" for d in digits], across, lines, title, "tested on"))
        best = max((cell for cell in cells if cell["digits"] == digits[-1]), key=lambda cell: cell["accuracy"])
        where = f"{digits[-1]} digits, at the best number of loops"
        verdicts.append((row, where, "–", 0.95, 1.0, best["accuracy"], best["seeds"]))
    results = head("mult-beyond", options, jobs) | {"rows": rows, "verdicts": verdicts_of(verdicts)}
    finish(options.out / "mult-beyond", results, tables, charts, options)
    return results
