from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, field, replace
from typing import Literal

import pytest

from algoprobe.core.config import departures, digest, from_dict, to_dict
from algoprobe.core.errors import UsageError
from algoprobe.studies.registry import PRESETS, load
from algoprobe.training.config import Experiment

load()


@dataclass(frozen=True)
class Square:
    kind: Literal["square"] = "square"
    side: float = 1.0


@dataclass(frozen=True)
class Circle:
    kind: Literal["circle"] = "circle"
    radius: int | None = None


@dataclass(frozen=True)
class Drawing:
    shape: Square | Circle = field(default_factory=Square)
    pair: tuple[float, float] | None = None
    names: tuple[str, ...] = ()


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_every_preset_survives_json(name):
    experiment = PRESETS[name].make()
    experiment.check()
    assert from_dict(Experiment, to_dict(experiment)) == experiment


def test_unions_are_told_apart_by_kind():
    drawing = Drawing(Circle(radius=3), (1.0, 2.0), ("a", "b"))
    assert from_dict(Drawing, to_dict(drawing)) == drawing
    with pytest.raises(UsageError, match=r"shape\.kind: 'circl' is unknown; allowed: square, circle.*'circle'"):
        from_dict(Drawing, {"shape": {"kind": "circl"}})
    assert isinstance(from_dict(Drawing, {"shape": {}}).shape, Square)


@pytest.mark.parametrize(
    "values, message",
    [
        ({"task": {"distribtion": "naive"}}, r"task\.field: 'distribtion'.*Did you mean 'distribution'"),
        ({"task": {"distribution": "nave"}}, r"task\.distribution: 'nave' is unknown; allowed: naive.*'naive'"),
        ({"task": {"n": "many"}}, r"task\.n: 'many' is not possible; allowed: a value of type int"),
        ({"train": {"batch": True}}, r"train\.batch: True"),
        ({"train": {"optimiser": {"betas": [0.9]}}}, r"betas: \[0\.9\].*list of 2"),
        ({"train": 3}, r"train: 3 is not possible; allowed: an object"),
    ],
)
def test_mistakes_name_field_value_and_what_is_allowed(values, message):
    with pytest.raises(UsageError, match=message):
        from_dict(Experiment, values)


def test_whole_numbers_are_taken_for_floats():
    assert from_dict(Square, {"side": 2}) == Square(side=2.0)


def test_digest_counts_departures_from_defaults_only():
    @dataclass(frozen=True)
    class Old:
        a: int = 1

    @dataclass(frozen=True)
    class New:
        a: int = 1
        b: int = 2

    New.__name__ = "Old"
    assert digest(Old(a=5)) == digest(New(a=5)) != digest(New(a=5, b=3))
    assert departures(Drawing(Circle(radius=1))) == {"shape": {"kind": "circle", "radius": 1}}


def test_digest_tells_configs_apart():
    experiment = PRESETS["search-paper"].make()
    other = replace(experiment, seeds=replace(experiment.seeds, train=1))
    assert digest(experiment) == digest(PRESETS["search-paper"].make()) != digest(other)
    assert len({digest(p.make()) for p in PRESETS.values()}) == len(PRESETS)


CHOICES = """
from algoprobe.core.errors import UsageError
from algoprobe.models.config import TransformerConfig
from algoprobe.tasks.search import SearchConfig
from algoprobe.training.config import OptimiserConfig

for make in (
    lambda: SearchConfig(distribution="ballanced"),
    lambda: TransformerConfig(norm="rmsnorm"),
    lambda: OptimiserConfig(name="adam"),
):
    try:
        make()
    except UsageError as error:
        print(error)
"""


def test_choices_are_checked_in_python_too():
    # In a process of its own: here the type checker of the tests would speak first.
    done = subprocess.run([sys.executable, "-c", CHOICES], capture_output=True, text=True, check=True)
    one, two, three = done.stdout.splitlines()
    assert one.startswith("task.distribution: 'ballanced' is unknown") and one.endswith("Did you mean 'balanced'?")
    assert two.startswith("model.norm: 'rmsnorm' is unknown; allowed: layer, rms, none.")
    assert three.endswith("Did you mean 'adamw'?")
