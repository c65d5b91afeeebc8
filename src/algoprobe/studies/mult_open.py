"""Opening models that multiply: what answers depend on, where sums are, how pairs of digits are fetched, what shape
states have, and how digits come in during training (arXiv 2510.00184, §3).

Every study takes the same models: one that fails, and those that solve the task, each over the seeds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from algoprobe.core.statistics import mean_interval
from algoprobe.options import LensOptions

from .comparison import about, chosen, finish, train_rows, verdicts_of
from .mult_presets import regimes
from .registry import StudyOptions, find_preset, study

if TYPE_CHECKING:
    from algoprobe.training.pool import Job

    from .lens_kinds import Subject

SEEN = {"swap": 1000, "tree": 1000, "geometry": 5000, "fourier": 1000, "probe": 4000}
"""Test rows that each lens takes."""


def opened(job: Job, kind: str) -> Subject:
    """A trained run on the first test rows of whole products."""
    from algoprobe.probes.inputs import Inputs
    from algoprobe.training.evaluation import open_run

    from .lens_kinds import Subject

    run = open_run(job.folder.path)
    cell = run.task.cells()[0]
    batch = run.task.test(cell, min(SEEN[kind], run.task.config.test_rows))
    options = LensOptions(kind=kind, run=str(job.folder.path))
    return Subject(run.model, run.task, batch, Inputs.of(batch, run.model), run.loops, options)


def models(options: StudyOptions, base_10: bool = False) -> dict[str, list[Job]]:
    """The study's models, trained where they are missing, over the seeds."""
    names = {"plain, base 10": "mult-4x4-plain", "sums, base 10": "mult-4x4"} if base_10 else regimes(options.scale)
    rows = {row: find_preset(names[row]) for row in chosen(options, names)}
    return train_rows(rows, options)


def over_seeds(
    jobs: Sequence[Job], measure: Callable[[Job], list[dict[str, Any]]], keys: Sequence[str], values: Sequence[str]
) -> list[dict[str, Any]]:
    """`measure` of each run; rows that agree in `keys` become one, with mean and interval of each of `values`."""
    groups: dict[tuple, list[dict[str, Any]]] = {}
    for job in jobs:
        for row in measure(job):
            groups.setdefault(tuple(row[key] for key in keys), []).append(row)
    merged = []
    for rows in groups.values():
        line = dict(rows[0]) | {"seeds": len(rows)}
        for name in values:
            numbers = [row[name] for row in rows if row[name] is not None]
            mean, low, high = mean_interval(numbers) if numbers else (None, None, None)
            line |= {name: mean, f"{name}_low": low, f"{name}_high": high}
        merged.append(line)
    return merged


def head(name: str, options: StudyOptions, jobs: dict[str, list[Job]]) -> dict[str, Any]:
    """What the results of every study begin with."""
    accuracy = {
        row: [job.folder.read("evaluation.json")["cells"][0]["accuracy"] for job in of_row]
        for row, of_row in jobs.items()
    }
    return {"study": name, "scale": options.scale, "seeds": options.seeds, "exact_match": accuracy, **about(jobs)}


@study("mult-attribution")
def attribution(options: StudyOptions) -> dict[str, Any]:
    """Which digits of the operands each digit of the product depends on, in models that fail and that solve."""
    from algoprobe.report.lenses import heat_map, matrix_table

    from .digit_lenses import swap

    jobs = models(options)
    rows = {
        row: over_seeds(of_row, lambda job: swap(opened(job, "swap"))[0], ("input", "digit"), ("effect", "changed"))
        for row, of_row in jobs.items()
    }
    reach = max(abs(cell["effect"]) for cells in rows.values() for cell in cells)
    charts, tables, found = {}, [], []
    for row, cells in rows.items():
        title = f"{row}: digits that answers depend on"
        note = "Logit lost when the digit is another one, earlier answers kept; mean over test rows and seeds."
        charts[f"attribution-{row}"] = heat_map(cells, "input", "digit", "effect", title, note, True, reach)
        tables.append(matrix_table(*as_matrix(cells, "input", "digit", "effect"), title, "digit"))
        found += attribution_verdicts(row, cells)
    results = head("mult-attribution", options, jobs) | {"rows": rows, "verdicts": verdicts_of(found)}
    finish(options.out / "mult-attribution", results, tables, charts, options)
    return results


def attribution_verdicts(row: str, cells: list[dict[str, Any]]) -> list[tuple]:
    """The mean effect of the digits i <= k on a middle c_k: large in solving models, none in the plain one."""
    by_place = {(cell["input"], cell["digit"]): cell for cell in cells}
    total = len({cell["digit"] for cell in cells})
    middle = total // 2 - 1
    inside = [by_place[name, f"c{middle}"] for name in {c["input"] for c in cells} if int(name[1:]) <= middle]
    mean = sum(cell["effect"] for cell in inside) / len(inside)
    low, high, paper = (-1.0, 2.0, "0") if row == "plain" else (5.0, 30.0, "16 to 23")
    return [(row, f"c{middle}: logit lost by a digit it needs", paper, low, high, mean, inside[0]["seeds"])]


def as_matrix(rows: Sequence[dict[str, Any]], down: str, across: str, value: str) -> tuple[list, list, list[list]]:
    """Rows as labels down, labels across, and values."""
    names = [list(dict.fromkeys(row[side] for row in rows)) for side in (down, across)]
    found = {(row[down], row[across]): row[value] for row in rows}
    return names[0], names[1], [[found.get((d, a)) for a in names[1]] for d in names[0]]


@study("mult-probes")
def probes(options: StudyOptions) -> dict[str, Any]:
    """Running sums read off linearly, each model on its own states, beside the best constant and other controls."""
    from algoprobe.report.loops import lines, rows_table

    jobs = models(options)
    rows = {
        row: over_seeds(
            of_row, probe_rows, ("target", "site", "loop"), ("error", "constant", "score", "shuffled", "untrained")
        )
        for row, of_row in jobs.items()
    }
    tables, points, found = [], [], []
    for row, cells in rows.items():
        best = best_sites(cells)
        shown = [cell | {"ratio": cell["error"] / cell["constant"], "at": place(cell)} for cell in best]
        columns = (
            ("target", "sum"),
            ("at", "read at"),
            ("error", "MAE"),
            ("constant", "best constant"),
            ("ratio", "ratio"),
            ("score", "R²"),
            ("shuffled", "shuffled"),
            ("untrained", "untrained R²"),
            ("seeds", "seeds"),
        )
        tables.append(
            rows_table(
                shown, columns, f"{row}: running sums by ridge probes, at the site that holds them best", words=2
            )
        )
        points += [{"k": int(cell["target"].rsplit("_", 1)[1]), "ratio": cell["ratio"], "line": row} for cell in shown]
        found += probe_verdicts(row, shown)
    note = "Mean absolute error of ridge probes over that of the best constant, at the best site; 1: no better."
    charts = {
        "probes": lines(
            points,
            "k",
            "ratio",
            "Running sums that can be read off",
            note,
            names=("digit k of the product", "error / best constant"),
        )
    }
    results = head("mult-probes", options, jobs) | {"rows": rows, "verdicts": verdicts_of(found)}
    finish(options.out / "mult-probes", results, tables, charts, options)
    return results


def place(cell: dict[str, Any]) -> str:
    """A site and loop in words."""
    return cell["site"].replace("blocks.", "block ").replace(".resid", " resid") + (
        f" @{cell['loop']}" if cell["loop"] else ""
    )


def best_sites(cells: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of each target the row with the smallest error."""
    found: dict[str, dict[str, Any]] = {}
    for cell in cells:
        kept = found.get(cell["target"])
        if kept is None or cell["error"] < kept["error"]:
            found[cell["target"]] = cell
    return list(found.values())


def probe_rows(job: Job) -> list[dict[str, Any]]:
    """Ridge probes for every running sum at the residual stream after attention and after each block."""
    import torch

    from algoprobe.probes.linear_probe import linear_probe

    subject = opened(job, "probe")
    found = []
    for name, values in subject.task.column_numbers(subject.batch).items():
        if not name.startswith("running_sum"):
            continue
        sites = ["blocks.*.resid_mid", "blocks.*.resid_post"]
        target = torch.from_numpy(values)
        found += [
            {"target": name} | row
            for row in linear_probe(subject.model, subject.inputs, sites, target, loops=subject.loops)
        ]
    return found


def probe_verdicts(row: str, shown: list[dict[str, Any]]) -> list[tuple]:
    """The worst of the middle sums: a tenth of the constant's error at most in solving models."""
    total = len(shown)
    middle = [cell for cell in shown if 2 <= int(cell["target"].rsplit("_", 1)[1]) <= total - 2]
    worst = max(middle, key=lambda cell: cell["ratio"])
    low, high, paper = (0.1, 1.2, "1.7 to 3.3 (not its own states)") if row == "plain" else (0.0, 0.1, "0.03 to 0.07")
    return [
        (
            row,
            f"{worst['target']}: error / best constant, the worst of the middle",
            paper,
            low,
            high,
            worst["ratio"],
            worst["seeds"],
        )
    ]


@study("mult-dynamics")
def dynamics(options: StudyOptions) -> dict[str, Any]:
    """Loss and gradient norm of every digit through training: where gradient arrives and leads nowhere."""
    import math

    from algoprobe.report.lenses import heat_map
    from algoprobe.report.loops import lines, rows_table

    from .digit_lenses import digits_through_training, thinned

    jobs = models(options)
    rows, charts, tables, found = {}, {}, [], []
    for row, of_row in jobs.items():
        cells = over_seeds(
            of_row,
            lambda job: digits_through_training(job.folder.metrics),
            ("examples", "digit"),
            ("accuracy", "loss", "gradient_norm"),
        )
        rows[row] = cells
        points = [{"examples": c["examples"], "loss": c["loss"], "line": c["digit"]} for c in cells]
        charts[f"loss-{row}"] = lines(
            points,
            "examples",
            "loss",
            f"{row}: loss of each digit",
            "Held-out rows of the training mix, nats; mean over seeds.",
            names=("examples", "loss, nats"),
            ordered=True,
            share=False,
        )
        norms = [
            c | {"log10 norm": math.log10(max(c["gradient_norm"], 1e-6)), "seen": f"{c['examples'] / 1000:.0f}k"}
            for c in thinned(cells, 14)
        ]
        charts[f"gradients-{row}"] = heat_map(
            norms,
            "digit",
            "seen",
            "log10 norm",
            f"{row}: gradient of each digit's loss",
            "log10 of its Euclidean norm over all weights; mean over seeds.",
            True,
        )
        tables.append(
            rows_table(
                first_below(cells),
                (
                    ("digit", "digit"),
                    ("1.0", "loss below 1"),
                    ("0.1", "below 0.1"),
                    ("0.01", "below 0.01"),
                    ("norm", "last norm"),
                ),
                f"{row}: examples until a digit's loss stays below a bound",
            )
        )
        found += dynamics_verdicts(row, cells)
    results = head("mult-dynamics", options, jobs) | {"rows": rows, "verdicts": verdicts_of(found)}
    finish(options.out / "mult-dynamics", results, tables, charts, options)
    return results


def first_below(cells: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """For each digit the examples after which its loss stays below 1, 0.1, 0.01; None: never."""
    found = []
    for digit in dict.fromkeys(cell["digit"] for cell in cells):
        line = sorted((cell for cell in cells if cell["digit"] == digit), key=lambda cell: cell["examples"])
        entry: dict[str, Any] = {"digit": digit, "norm": line[-1]["gradient_norm"]}
        for bound in (1.0, 0.1, 0.01):
            above = [cell["examples"] for cell in line if cell["loss"] >= bound]
            later = [cell["examples"] for cell in line if not above or cell["examples"] > above[-1]]
            entry[str(bound)] = later[0] if later else None
        found.append(entry)
    return found


def dynamics_verdicts(row: str, cells: list[dict[str, Any]]) -> list[tuple]:
    """The last loss of the hardest middle digit beside its loss by chance."""
    last = max(cell["examples"] for cell in cells)
    ends = [cell for cell in cells if cell["examples"] == last]
    worst = max(ends, key=lambda cell: cell["loss"])
    low, high, paper = (0.5, 3.0, "2.30 (of 2.30)") if row == "plain" else (0.0, 0.1, "0.04")
    return [
        (row, f"{worst['digit']}: loss at the end, the worst digit", paper, low, high, worst["loss"], worst["seeds"])
    ]
