"""Which pictures a page shows: the charts that its runs have data for, and worked examples."""

from __future__ import annotations

import base64
import importlib
import importlib.util
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt

from algoprobe.core.errors import AlgoprobeError

from . import charts, curves
from .runs import RunData


@dataclass(frozen=True)
class Figure:
    """A chart with the name of its files."""

    name: str
    """File name without suffix."""
    chart: alt.TopLevelMixin
    """The chart."""
    heading: str = ""
    """A line above it, where the chart alone does not say whose it is."""
    wide: int = 0
    """The width in px below which it scrolls rather than shrinks."""


@dataclass(frozen=True)
class Example:
    """A drawn row of the task with the model's answer."""

    picture: str
    """A `data:` address of the SVG drawing, or an empty string where the task has no drawing."""
    wide: int
    """The width in px below which the drawing scrolls, since its labels would grow too small."""
    title: str
    """`balanced lookahead 5`."""
    text: str
    """What was asked, answered and right."""
    correct: bool
    """Whether the answer was accepted."""


def slug(*parts: str) -> str:
    """A file name of lower-case letters, digits and hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", "-".join(parts).lower()).strip("-") or "chart"


def figures(runs: Mapping[str, RunData]) -> dict[str, list[Figure]]:
    """The charts of a page by section: accuracy, training, loops, card. A section without data is empty."""
    accuracy = [
        Figure(slug("accuracy", distribution, axis), charts.accuracy(runs, axis, distribution))
        for axis, distribution in charts.panels(runs)
    ]
    tested = {label: run.cells for label, run in runs.items() if run.cells}
    if len(tested) > 1:
        columns = len({charts.name(cell) for cells in tested.values() for cell in cells})
        heat = charts.trained_on_tested_on(tested)
        wide = 190 + columns * (34 if columns > charts.UPRIGHT else 58)
        accuracy.insert(0, Figure("trained-on-tested-on", heat, wide=wide))
    trained = {label: run for label, run in runs.items() if run.training}
    training = [Figure("training-loss", curves.training(trained, "loss"))] if trained else []
    if any(line.get("accuracy") is not None for run in trained.values() for line in run.training):
        training.append(Figure("training-accuracy", curves.training(trained, "accuracy")))
    loops = []
    for label, run in runs.items():
        # A file name says whose the chart is only where there are several runs.
        own, heading = ((label, run.digest[:6]), label) if len(runs) > 1 else ((), "")
        if run.validation:
            training.append(Figure(slug("validation", *own), curves.validation(run), heading))
        for axis, distribution in dict.fromkeys((c["axis"], c["distribution"]) for c in run.sweep):
            chart = charts.loop_sweep(run, axis, distribution, label)
            loops.append(Figure(slug("loops", distribution, axis, *own), chart, heading))
    return {"accuracy": accuracy, "training": training, "loops": loops, "card": _histograms(runs)}


def _histograms(runs: Mapping[str, RunData]) -> list[Figure]:
    cards: dict[str, dict[str, Any]] = {}
    for label, run in runs.items():
        found = (run.record.get("card") or {}).get("histograms") or {}
        for quantity, histogram in found.items():
            try:
                cards.setdefault(quantity, {})[label] = counted(histogram)
            except (AttributeError, TypeError, ValueError) as error:
                path = run.folder / "record.json"
                raise AlgoprobeError(f"{path} is damaged: histogram {quantity} is {histogram!r}.") from error
    return [Figure(slug("card", quantity), curves.histogram(cards[quantity], quantity)) for quantity in cards]


def counted(histogram: Mapping[str, Any]) -> dict[str, list[Any]]:
    """`{"values": […], "counts": […]}` of a histogram written so or as `{value: count}` (JSON keys are texts)."""
    if {"values", "counts"} <= histogram.keys():
        values, counts = list(histogram["values"]), [int(count) for count in histogram["counts"]]
    else:
        values, counts = [_value(key) for key in histogram], [int(count) for count in histogram.values()]
    if len(values) != len(counts):
        raise ValueError("as many values as counts are wanted")
    return {"values": values, "counts": counts}


def _value(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def chosen(examples: Sequence[dict[str, Any]], most: int) -> list[dict[str, Any]]:
    """At most `most` of the examples, wrong ones first, at least one right one where there is one; hardest first."""
    hardest = sorted(examples, key=lambda example: -(example.get("value") or 0))
    wrong = [example for example in hardest if not example.get("correct")]
    right = [example for example in hardest if example.get("correct")]
    room = most - 1 if right else most
    kept = wrong[: min(room, max(most - len(right), most // 2))]
    return kept + right[: most - len(kept)]


def examples(run: RunData, most: int) -> list[Example]:
    """Worked examples of `run`, drawn by its task.

    Raises `AlgoprobeError`, naming the file, when an example cannot be drawn.
    """
    draw = _drawing(str(run.task.get("kind", "")))
    made = []
    for example in chosen(run.examples, most):
        try:
            svg = draw(example) if draw else ""
            title, text = charts.name(example), _asked(example)
        except (KeyError, TypeError, ValueError, IndexError) as error:
            path = run.folder / "examples.json"
            raise AlgoprobeError(f"{path} is damaged: an example cannot be drawn ({error!r}).") from error
        picture = _address(svg) if svg else ""
        made.append(Example(picture, _least_width(svg), title, text, bool(example.get("correct"))))
    return made


def _asked(example: dict[str, Any]) -> str:
    """`start 0, goal 3: answered 4, right: 1`."""
    asked = ", ".join(
        f"{key} {_listed(example[key])}" for key in ("start", "goal", "head", "relations", "multiply") if key in example
    )
    right = example["accepted"]
    right = ", ".join(str(answer) for answer in right) if isinstance(right, list) else str(right)
    return f"{asked}: answered {example['answer']}, right: {right}" if asked else f"{example['answer']}, right: {right}"


def _listed(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def _drawing(kind: str) -> Any:
    """`draw` of the task family `kind`, or None where it has none."""
    module = f"algoprobe.tasks.{kind}.drawing"
    try:
        found = kind.isidentifier() and importlib.util.find_spec(module)
    except ModuleNotFoundError:
        return None
    return importlib.import_module(module).draw if found else None


def _least_width(svg: str) -> int:
    """Seven tenths of the drawing's own width."""
    found = re.search(r'viewBox="0 0 (\d+)', svg)
    return int(0.7 * int(found[1])) if found else 0


def _address(svg: str) -> str:
    # As an image of its own, a drawing's ids cannot meet another's and nothing inside it can run.
    return "data:image/svg+xml;base64," + base64.b64encode(svg.encode()).decode()
