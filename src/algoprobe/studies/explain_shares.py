"""What many circuits add up to: shares with intervals, other settings, directions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from algoprobe.core.statistics import wilson
from algoprobe.training.evaluation import baselines_of

from .circuits import opened
from .explain_plan import Plan, key


def share(records: Sequence[dict[str, Any]], name: str) -> tuple[float, float, float]:
    """The share of records where `name` holds, and its 95 % Wilson interval."""
    hits = sum(bool(record[name]) for record in records)
    return hits / len(records), *wilson(hits, len(records))


def cells_of(plan: Plan, records: Sequence[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """For each model the cells of the `explain --json` contract."""
    found: dict[str, list[dict[str, Any]]] = {subject.label: [] for subject in plan.subjects}
    for subject in plan.subjects:
        task, _ = opened(subject)
        for cell in dict.fromkeys(work.cell for work in plan.works if work.subject == subject):
            mine = [r for r in records if key(r)[:4] == (subject.label, cell.distribution, cell.axis, cell.value)]
            explained, low, high = share(mine, "explained")
            both = sum(r["explained"] and r["correct"] for r in mine)
            accuracy, accuracy_low, accuracy_high = share(mine, "correct")
            merges = sum(r["merges"] for r in mine)
            maximal = merges - sum(r["not_maximal"] for r in mine)
            rows = [r["row"] for r in mine]
            found[subject.label].append(
                {
                    "axis": cell.axis,
                    "value": cell.value,
                    "distribution": cell.distribution,
                    "explained": explained,
                    "low": low,
                    "high": high,
                    "explained_right": both / len(mine),
                    "maximal": maximal / merges if merges else None,
                    "maximal_low": wilson(maximal, merges)[0],
                    "maximal_high": wilson(maximal, merges)[1],
                    "merges": merges,
                    "accuracy": accuracy,
                    "accuracy_low": accuracy_low,
                    "accuracy_high": accuracy_high,
                    **baselines_of(task, task.test(cell, task.config.test_rows), rows),
                    "rows": len(mine),
                    "skipped": plan.skipped[subject.label, cell.name],
                    "operations": sum(r["operations"] for r in mine) / len(mine),
                }
            )
    return found


def sensitivity_of(plan: Plan, records: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """For each model and other setting the explained share over all its inputs."""
    found = []
    for subject in plan.subjects:
        mine = [r for r in records if r["label"] == subject.label]
        if not mine or "sensitivity" not in mine[0]:
            continue
        columns = {"as given": [r["explained"] for r in mine]}
        columns |= {name: [r["sensitivity"][name] for r in mine] for name in mine[0]["sensitivity"]}
        for name, values in columns.items():
            low, high = wilson(sum(values), len(values))
            row = {"model": subject.label, "setting": name, "explained": sum(values) / len(values)}
            found.append(row | {"low": low, "high": high, "rows": len(values)})
    return found


def direction_rows(plan: Plan, records: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """How often something is merged into a vertex between start and goal, by step, direction and distance to the goal.

    `share` is over the inputs of the model that have a vertex at this distance (appendix A.12's picture).
    """
    found = []
    for subject in plan.subjects:
        mine = [r for r in records if r["label"] == subject.label and r["explained"]]
        steps = [opened(subject)[1].name(step) for step in range(opened(subject)[1].steps)]
        farthest = max((entry[3] for r in mine for entry in r["directions"]), default=0)
        for distance in range(farthest + 1):
            have = [r for r in mine if any(entry[3] == distance for entry in r["directions"])]
            for step, name in enumerate(steps):
                for direction in ("forward", "backward"):
                    wanted = [step, direction, distance]
                    hits = sum(
                        any([e[0], e[1], e[3]] == wanted for e in r["directions"]) for r in have
                    )  # fmt: skip
                    found.append(
                        {
                            "model": subject.label,
                            "step": name,
                            "direction": direction,
                            "distance": distance,
                            "share": hits / len(have) if have else 0.0,
                            "rows": len(have),
                        }
                    )
    return found
