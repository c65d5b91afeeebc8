"""What a page says in words: headline, tiles, leak report, config. Every number comes from the run folders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .runs import FILES, RunData, differences, flatten
from .verdict import beside, extremes, interval, name, number, shortcut, verdict


@dataclass(frozen=True)
class Tile:
    """One number with what it is."""

    label: str
    """What is counted or measured."""
    value: str
    """The number, large."""
    detail: str
    """What stands beside it: interval, chance, shortcut."""
    mark: str = ""
    """A verdict, for the colour of its edge."""


def description(run: RunData) -> str:
    """What was trained, on what, and how far: one sentence."""
    parameters = run.record.get("parameters")
    subject = f"A model of {parameters:,} parameters" if isinstance(parameters, int) else "A model"
    task = run.task
    rows = str(task.get("setting") or " ".join(str(task[key]) for key in ("distribution", "kind") if task.get(key)))
    size = f" (input size n = {task['n']})" if task.get("n") is not None else ""
    seeds = run.experiment.get("seeds") or {}
    values = list(dict.fromkeys(seeds.values())) if isinstance(seeds, dict) else []
    named = f", seed {values[0]}" if len(values) == 1 else ", seeds " + _pairs(seeds) if values else ""
    scale = f" {str(run.scale).capitalize()} scale." if run.scale else ""
    return f"{subject} trained on {rows or 'an unnamed task'} rows{size}{named}.{scale} {progress(run)}"


def _pairs(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in values.items())


def progress(run: RunData) -> str:
    """How far the run is: `Finished after 457,000 examples.`"""
    examples = run.record.get("examples")
    if examples is None and run.training:
        examples = run.training[-1].get("examples")
    seen = f"{examples:,} examples" if isinstance(examples, int) else "an unrecorded number of examples"
    words = {
        "finished": f"Finished after {seen}.",
        "interrupted": f"Interrupted after {seen}; the same command continues it.",
        "running": f"Still training: {seen} so far.",
    }
    return words.get(run.status, f"Status not recorded; {seen}.")


def findings(run: RunData) -> str:
    """The weakest and the strongest test cell, each beside chance and the best shortcut."""
    ends = extremes(run.cells)
    if ends is None:
        return "It has not been tested yet, so nothing can be said about what it learned."
    worst, best = ends
    if worst is best:
        return f"In its one test cell, {name(best)}, accuracy is {beside(best)}."
    return f"Weakest test cell: {name(worst)}, {beside(worst)}. Strongest: {name(best)}, {beside(best)}."


def headline(runs: Mapping[str, RunData]) -> str:
    """What the page is about, with the weakest and the strongest test cell."""
    if len(runs) == 1:
        run = next(iter(runs.values()))
        return f"{description(run)} {findings(run)}"
    names = list(differences(list(runs.values())))
    fields = ", ".join(names[:6]) + (
        f" and {len(names) - 6} more field{'s' * (len(names) > 7)}" if len(names) > 6 else ""
    )
    opening = f"{len(runs)} runs that differ in {fields}." if names else f"{len(runs)} runs of one config."
    ends = extremes(cell | {"run": label} for label, run in runs.items() for cell in run.cells)
    if ends is None:
        return f"{opening} None has been tested yet, so nothing can be said about what they learned."
    low, high = (f"{cell['run']} in {name(cell)}, {beside(cell)}" for cell in ends)
    return f"{opening} Lowest accuracy: {low}. Highest: {high}."


def tiles(runs: Mapping[str, RunData]) -> list[Tile]:
    """The verdicts at a glance: of one run its cells, of several one tile each."""
    if len(runs) > 1:
        return [_summary(label, run) for label, run in runs.items()]
    run = next(iter(runs.values()))
    made = []
    ends = extremes(run.cells)
    if ends is not None:
        made.append(_summary("Test cells above the best shortcut", run, short=True))
        shown = [("Weakest test cell", ends[0])]
        shown += [("Strongest test cell", ends[1])] if ends[1] is not ends[0] else []
        shown += [("Test cell", cell) for cell in run.cells if cell.get("value") is None and cell not in ends]
        made += [_cell_tile(label, cell) for label, cell in shown]
    if isinstance(run.record.get("examples"), int):
        made.append(Tile("Training examples", f"{run.record['examples']:,}", _cost(run.record)))
    return made


def _cost(record: dict[str, Any]) -> str:
    """`301 s CPU; 310 s elapsed; AMD EPYC, 2 cores`, as far as it is recorded."""
    spent = (("cpu_seconds", "CPU"), ("wall_seconds", "elapsed"))
    parts = [f"{record[key]:,.0f} s {word}" for key, word in spent if record.get(key)]
    machine = (record.get("machine") or {}).get("class")
    return "; ".join([*parts, *([str(machine)] if machine else [])])


def _cell_tile(label: str, cell: dict[str, Any]) -> Tile:
    parts = [interval(cell), f"chance {number(cell.get('chance'))}", f"best shortcut {shortcut(cell)}"]
    return Tile(f"{label}: {name(cell)}", number(cell["accuracy"]), "; ".join(filter(None, parts)), verdict(cell))


def _summary(label: str, run: RunData, short: bool = False) -> Tile:
    ends = extremes(run.cells)
    if ends is None:
        return Tile(label, "–", "not tested yet")
    verdicts = [verdict(cell) for cell in run.cells]
    above = verdicts.count("above")
    detail = [f"{verdicts.count(kind)} {words}" for kind, words in _OTHERS.items() if kind in verdicts]
    if not short:
        detail = [f"cells above the best shortcut; weakest {name(ends[0])} {beside(ends[0])}"]
    mark = "above" if above == len(verdicts) else "level" if above else "chance"
    return Tile(label, f"{above} of {len(verdicts)}", "; ".join(detail) or "every one", mark)


_OTHERS = {"level": "between chance and the best shortcut", "chance": "not above chance", "open": "without an interval"}


def notices(runs: Mapping[str, RunData]) -> list[str]:
    """What a page cannot show, and why: files that are not there, one seed only."""
    said = []
    for label, run in runs.items():
        absent = ", ".join(f"{FILES[file]} ({file})" for file in run.missing)
        if absent:
            said.append(f"{label}: not there yet: {absent}.")
        elif not run.cells:
            said.append(f"{label}: evaluation.json holds no test cells.")
        if "metrics.jsonl" not in run.missing and not run.training:
            said.append(f"{label}: metrics.jsonl holds no training step yet.")
    seeds = {cell.get("seeds") for run in runs.values() for cell in run.cells}
    if seeds == {1}:
        said.append(
            "Each accuracy is of one training seed: its interval says how sure the number is on these test rows, "
            "not what another seed would give."
        )
    return said


LEAKS = (
    ("{training_rows:,} training rows were compared with the {reserved_rows:,} reserved test rows.",),
    ("{equal:,} of them equal a test row; {equal_up_to_edge_order:,} equal one up to the order of the edges.",),
    (
        "{equal_up_to_renaming:,} ({share_up_to_renaming:.1%}) equal one up to a renaming of the vertices.",
        "Such rows are left in: at small sizes most shapes must recur.",
    ),
    (
        "{renaming_confirmed[isomorphic]:,} of {renaming_confirmed[checked]:,} such matches that were checked exactly "
        "are the same graph.",
    ),
    ("{draws_dropped_as_test_rows:,} of {draws:,} draws were dropped because they were test rows.",),
    ("{equal_test_rows:,} of them equal a test row.",),
    (
        "{same_relations:,} ask for the relations of a test row in the same order, from another head.",
        "Such rows are left in: composing what is known of other heads is the task.",
    ),
    ("{draws_dropped_as_reserved:,} of {draws:,} draws were dropped because they were reserved.",),
)
"""The leak report in sentences, for the fields that it has; what follows a first sentence explains it."""


def leaks(run: RunData) -> tuple[list[str], list[tuple[str, str]]]:
    """The leak report in plain words: sentences for what `LEAKS` knows, (what, how many) pairs for other numbers."""
    found = run.record.get("leaks")
    if not isinstance(found, dict) or not found:
        return [], []
    said, used = [], ""
    for first, *rest in LEAKS:
        try:
            said.append(" ".join([first.format(**found), *rest]))
            used += first
        except (KeyError, TypeError, ValueError, IndexError):
            continue
    # Lists and tables by size stand in the record, at the end of the page.
    others = {
        key: value
        for key, value in flatten({k: v for k, v in found.items() if "{" + k not in used}).items()
        if not isinstance(value, list) and key not in ("config", "seed")
    }
    return said, [(_words(key), _shown(value)) for key, value in others.items()]


def card_baselines(run: RunData) -> list[tuple[str, str]]:
    """What chance and each heuristic reach on the training stream, from the task card."""
    found = (run.record.get("card") or {}).get("baselines")
    return [(_words(key), _shown(value)) for key, value in flatten(found).items()] if isinstance(found, dict) else []


def config_rows(runs: Mapping[str, RunData]) -> tuple[list[list[str]], list[list[str]]]:
    """The config as rows of texts, field first: those that differ among the runs, and those that do not."""
    all_runs = list(runs.values())
    differing = differences(all_runs)
    flat = [flatten(run.experiment) for run in all_runs]
    common = {key: value for key, value in flat[0].items() if key not in differing}
    return (
        [[key, *map(_shown, values)] for key, values in differing.items()],
        [[key, _shown(value)] for key, value in common.items()],
    )


def _words(key: str) -> str:
    return key.replace(".", ", ").replace("_", " ")


def _shown(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) and abs(value) >= 10_000 else str(value)
