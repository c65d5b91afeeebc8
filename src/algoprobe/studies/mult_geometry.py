"""The shape of states: Minkowski sums in heads, nested principal components, waves over digits, and the prism.

Base-10 models alone: in base 5 few waves fit everything. Source: arXiv 2510.00184, §3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .comparison import finish, verdicts_of
from .mult_open import head, models, opened, over_seeds
from .registry import StudyOptions, study

if TYPE_CHECKING:
    from .lens_kinds import Subject


@study("mult-geometry")
def geometry(options: StudyOptions) -> dict[str, Any]:
    """Minkowski sums in heads, nested principal components, waves over digits, and the prism; base-10 models."""
    from algoprobe.report.loops import rows_table

    from .digit_lenses import fourier
    from .digit_lenses import geometry as shapes

    jobs = models(options, base_10=True)
    rows, waves, tables, charts, found, prisms = {}, {}, [], {}, [], {}
    for row, of_row in jobs.items():
        rows[row] = [shapes(opened(job, "geometry"))[0] for job in of_row]
        best = [sorted(seen, key=lambda line: -line["additive"])[:6] for seen in rows[row]]
        columns = (
            ("head", "head"),
            ("digit", "step"),
            ("pair", "digits"),
            ("additive", "f(a)+g(b)"),
            ("joint", "joint"),
            ("a alone", "a alone"),
            ("b alone", "b alone"),
            ("three PCs", "three PCs"),
        )
        tables.append(
            rows_table(
                best[0], columns, f"{row}: heads whose output is most nearly a sum of two digits (seed 0)", words=3
            )
        )
        waves[row] = over_seeds(
            of_row, lambda job: fourier(opened(job, "fourier"))[0], ("matrix", "waves"), ("median", "pooled")
        )
        columns = (
            ("matrix", "matrix"),
            ("waves", "k of waves"),
            ("functions", "functions"),
            ("median", "median R²"),
            ("chance", "chance"),
            ("rows", "rows"),
            ("seeds", "seeds"),
        )
        tables.append(rows_table(waves[row], columns, f"{row}: waves over the digits", words=2))
        prisms[row] = over_seeds(
            of_row,
            lambda job: prism(opened(job, "geometry"))[0],
            ("component",),
            ("share", "parity", "pentagon", "circle"),
        )
        columns = (
            ("component", "component"),
            ("share", "of variance"),
            ("parity", "parity"),
            ("circle", "k = 1"),
            ("pentagon", "k = 2"),
            ("seeds", "seeds"),
        )
        tables.append(
            rows_table(
                prisms[row],
                columns,
                f"{row}: final states at the step of a middle digit, what each component says of it (R²)",
            )
        )
        charts |= cloud_charts(row, opened(of_row[0], "geometry"), best[0][0])
        found += geometry_verdicts(row, rows[row], waves[row])
    results = head("mult-geometry", options, jobs) | {
        "heads": rows,
        "waves": waves,
        "prism": prisms,
        "verdicts": verdicts_of(found),
    }
    finish(options.out / "mult-geometry", results, tables, charts, options)
    return results


def prism(subject: Subject) -> tuple[list[dict[str, Any]], Any, Any]:
    """Principal components of the final stream at a middle digit's step, and how far each is one of three waves."""
    import torch

    from algoprobe.probes.geometry import explained, principal_components, waves
    from algoprobe.probes.inputs import answer_logits
    from algoprobe.probes.record import record

    from .digit_lenses import middle_digit

    task = subject.task
    k, total, base = middle_digit(task), task.config.product_digits, task.config.base
    site = f"blocks.{len(subject.model.blocks) - 1}.resid_post"
    with torch.no_grad(), record(subject.model, [site]) as seen:
        answer_logits(subject.model, subject.inputs, subject.loops)
        x = seen[site, subject.loops - 1][:, k - total].float().cpu()
    digit = torch.from_numpy(subject.batch.source.product[:, k].astype("int64"))
    components, share = principal_components(x, 5)
    features = {"parity": [base // 2] if base % 2 == 0 else [], "circle": [1], "pentagon": [2]}
    rows = []
    for c in range(components.shape[1]):
        line = {"component": f"PC{c + 1}", "share": float(share[c])}
        for name, frequencies in features.items():
            basis = waves(base, frequencies).T[digit] if frequencies else torch.zeros(len(digit), 1)
            line[name] = explained(components[:, c : c + 1], basis)
        rows.append(line)
    return rows, components, digit


def cloud_charts(row: str, subject: Subject, best: dict[str, Any]) -> dict[str, Any]:
    """Nested components of the most additive head's output by either digit, and final states by the digit answered."""
    import torch

    from algoprobe.probes.geometry import principal_components
    from algoprobe.report.digits import clouds

    from .digit_lenses import digits_as_tensors, head_outputs

    words = best["head"].replace("@", "").split()
    block, head_ = int(words[1]), int(words[3])
    loop = int(words[4]) if len(words) > 4 else 0
    k, total = int(best["digit"][1:]), subject.task.config.product_digits
    x = head_outputs(subject.model, subject.inputs, subject.loops)[block, loop, head_]
    x = x[:, x.shape[1] - total + k].cpu()
    i, j = (int(part.strip()[1:]) for part in best["pair"].split(","))
    a, b = digits_as_tensors(subject)
    shown = slice(0, 1500)
    whole, _ = principal_components(x)
    by_a = [
        {"x": float(p[0]), "y": float(p[1]), "panel": "whole cloud", "digit": int(d)}
        for p, d in zip(whole[shown], a[shown, i])
    ]
    by_b = [
        {"x": float(p[0]), "y": float(p[1]), "panel": "by the other digit", "digit": int(d)}
        for p, d in zip(whole[shown], b[shown, j])
    ]
    inside = torch.nonzero(b[:, j] == 3)[:, 0]
    local, _ = principal_components(x[inside])
    nested = [
        {"x": float(p[0]), "y": float(p[1]), "panel": f"only b{j} = 3", "digit": int(d)}
        for p, d in zip(local, a[inside, i])
    ]
    names = {
        "whole cloud": f"coloured by a{i}",
        "by the other digit": f"coloured by b{j}",
        f"only b{j} = 3": f"only b{j} = 3, coloured by a{i}",
    }
    points = [point | {"panel": names[point["panel"]]} for point in (*by_a, *by_b, *nested)]
    note = f"Output of {best['head']} at the step of {best['digit']}: two principal components, a point a row, seed 0."
    charts = {
        f"nested-{slug(row)}": clouds(
            points, list(names.values()), "digit", f"{row}: a head that adds two digits", note, ("PC1", "PC2")
        )
    }
    _, components, digit = prism(subject)
    pairs = [(0, 1), (1, 2)]
    points = [
        {"x": float(p[u]), "y": float(p[v]), "panel": f"PC{u + 1}, PC{v + 1}", "digit": int(d)}
        for u, v in pairs
        for p, d in zip(components[shown], digit[shown])
    ]
    panels = [f"PC{u + 1}, PC{v + 1}" for u, v in pairs]
    note = "Residual stream after the last block at the step of a middle digit, coloured by that digit; seed 0."
    charts[f"prism-{slug(row)}"] = clouds(points, panels, "digit", f"{row}: final states by digit", note, ("", ""))
    return charts


def slug(row: str) -> str:
    """A row's name for a file."""
    return row.replace(", ", "-").replace(" ", "-")


def geometry_verdicts(row: str, heads: list[list[dict[str, Any]]], waves: list[dict[str, Any]]) -> list[tuple]:
    """The share of heads at middle steps that are nearly sums, and the fit of waves to final states."""
    total = len({line["digit"] for line in heads[0]})
    middle = {f"c{k}" for k in range(2, total - 2)}
    best = [max((line["additive"] for line in seen if line["digit"] in middle), default=0.0) for seen in heads]
    final = [line for line in waves if line["matrix"].startswith("final") and line["functions"] < 10]
    solving = not row.startswith("plain")
    low, high = (0.9, 1.0) if solving else (0.0, 1.0)
    found = [
        (
            row,
            "most additive head at a middle step",
            "1 (shown)" if solving else "–",
            low,
            high,
            sum(best) / len(best),
            len(best),
        )
    ]
    for line in final:
        low, high, paper = (0.9, 1.0, "0.99") if solving else (0.0, 1.0, "–")
        found.append(
            (
                row,
                f"{line['functions']} waves on final states (chance {line['chance']:.2f})",
                paper,
                low,
                high,
                line["median"],
                line["seeds"],
            )
        )
    return found
