"""Where bridge and answer can be read, phase by phase. Figure 4 of arXiv 2604.07822, on runs of Figure 3."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from .comparison import about, chosen, finish, train_rows
from .hops_two import CURE, LONG, Groups, along_training, long_row, rows_of
from .registry import StudyOptions, study

if TYPE_CHECKING:
    from algoprobe.report.tables import Table
    from algoprobe.training.pool import Job


def phases(curve: Sequence[dict[str, Any]]) -> dict[str, int]:
    """Which snapshot stands for which phase, as places in `curve`; a phase that the run does not show is missing.

    `memorised`: the largest lead of training pairs over the ID test, where it is 0.2 or more. `generalised`: the first
    with ID at 0.95 or more. `end`: the last.
    """
    lead = [point["cells"]["train"]["accuracy"] - point["cells"]["id"]["accuracy"] for point in curve]
    found = {}
    if max(lead) >= 0.2:
        found["memorised"] = lead.index(max(lead))
    known = [place for place, point in enumerate(curve) if point["cells"]["id"]["accuracy"] >= 0.95]
    if known and known[0] < len(curve) - 1:
        found["generalised"] = known[0]
    return found | {"end": len(curve) - 1}


def lens_by_phase(job: Job) -> list[dict[str, Any]]:
    """Rows of the lens in each phase: bridge at the first relation, target at the answer, by group and depth."""
    import torch

    from algoprobe.probes.inputs import Inputs
    from algoprobe.probes.lens import column_lens
    from algoprobe.training.evaluation import open_run
    from algoprobe.training.snapshots import load_snapshot

    curve, run, rows = along_training(job), open_run(job.folder.path), []
    groups = Groups.of(run)
    for phase, place in phases(curve).items():
        load_snapshot(run, curve[place]["step"])
        for group in ("train", "id", "ood"):
            batch = groups.batches[group]
            targets = run.task.column_targets(batch)
            first = run.task.column_kinds(batch)["relation 1"]
            wanted = {
                "bridge": np.where(first, targets["reached"], np.nan),
                "target": targets["after_2"],
            }
            wanted = {name: torch.from_numpy(np.nan_to_num(v, nan=-1).astype(np.int64)) for name, v in wanted.items()}
            found = column_lens(run.model, Inputs.of(batch, run.model), wanted, run.loops)
            rows += [row | {"phase": phase, "group": group, "examples": curve[place]["examples"]} for row in found]
    return rows


def table_of(model: str, rows: Sequence[dict[str, Any]]) -> Table:
    """A row for each phase, thing read and group of rows; a column for each depth."""
    from algoprobe.report import loops as shown

    lines: dict[tuple, dict[str, Any]] = {}
    for row in rows:
        line = lines.setdefault((row["phase"], row["target"], row["group"]), dict(row))
        line[str(row["depth"])] = row["accuracy"]
    depths = sorted({row["depth"] for row in rows})
    columns = (
        ("phase", "phase"), ("target", "read"), ("group", "rows of"), *((str(d), f"{d} blocks") for d in depths),
        ("rows", "rows"),
    )  # fmt: skip
    examples = {row["phase"]: f"{row['phase']} after {row['examples']:,} examples" for row in rows}
    title = f"{model}: logit lens of bridge (at the first relation) and target; {', '.join(examples.values())}"
    return shown.rows_table(list(lines.values()), columns, title, words=3)


@study("hops-fig4")
def hops_fig4(options: StudyOptions) -> dict[str, Any]:
    """Where bridge and answer can be read in each phase of training, in the plain loop and the cure (Figure 4)."""
    from algoprobe.report import loops as shown

    rows = rows_of(options.scale)
    plain = LONG if options.scale == "laptop" else "R = 2"
    names = chosen(options, [plain, CURE], [plain, CURE])
    one = replace(options, seeds=1, models=())
    jobs = train_rows({name: long_row()[LONG] if name == LONG else rows[name] for name in names}, one)
    found = [{"model": model, "rows": lens_by_phase(of_row[0])} for model, of_row in jobs.items()]
    results = {"study": "hops-fig4", "scale": options.scale, "seeds": 1, "rows": found, "verdicts": [], **about(jobs)}
    charts, tables = {}, []
    for row in found:
        for phase in dict.fromkeys(one["phase"] for one in row["rows"]):
            of_phase = [one for one in row["rows"] if one["phase"] == phase]
            points = [
                {"line": f"{one['target']}, {one['group']}", "depth": one["depth"], "accuracy": one["accuracy"]}
                for one in of_phase
            ]
            examples = of_phase[0]["examples"]
            name = f"{'cure' if row['model'] == CURE else 'loop'}-{phase}"
            charts[name] = shown.lines(
                points, "depth", "accuracy", f"{row['model']}, {phase}: what can be read at which depth",
                f"Logit lens after {examples:,} examples: the bridge at the first relation, the target at the answer.",
                names=("blocks passed", "accuracy of the lens"),
            )  # fmt: skip
        tables.append(table_of(row["model"], row["rows"]))
    finish(options.out / "hops-fig4", results, tables, charts, options)
    return results
