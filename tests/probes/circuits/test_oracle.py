"""The batched version marks exactly what one full forward pass a perturbation marks."""

from __future__ import annotations

import numpy as np
import pytest

from algoprobe.core.errors import UsageError
from algoprobe.core.run import resource
from algoprobe.models.config import TransformerConfig
from algoprobe.probes.circuits import Settings, Stack, measure
from algoprobe.probes.circuits.circuit import below_root
from algoprobe.probes.circuits.features import dependences
from algoprobe.probes.circuits.operations import important
from algoprobe.probes.circuits.reference import (
    dependences_one_at_a_time,
    effects_one_at_a_time,
    marked_one_at_a_time,
)
from algoprobe.probes.handmade import most_children, path_merger
from algoprobe.tasks.search.encoding import sizes
from algoprobe.training.load import load_run

from .known import graphs_with_a_free_id

CODE = Settings()
PAPER = Settings(maxing="row", bound="log-weight", freeze_relu=True)
FILLED = Settings(lists="smaller-filled", replacement="zero")


def check(model, layout, loops: int, settings: Settings) -> int:
    """Effects, marked operations and their dependences agree; the number of marked operations."""
    stack = Stack(model.eval().float(), loops)
    measured = measure(stack, layout, settings)
    plain = effects_one_at_a_time(model, layout, loops, settings)
    for name in ("logit_drop", "source_drop", "destination_drop"):
        ours, theirs = getattr(measured.effects, name), getattr(plain, name)
        if name == "logit_drop":
            # In the last step only the answer's column can matter, so nothing else is run.
            assert np.abs(theirs[-1, :, :, :-1]).max() < 1e-4
            theirs[-1, :, :, :-1] = 0.0
        np.testing.assert_allclose(ours, theirs, atol=2e-4 * max(1.0, np.abs(theirs).max()))
    operations = important(measured.effects, settings, stack.head_width)
    marked = {(op.step, op.head, op.destination, op.source, op.sign) for op in operations}
    assert marked == marked_one_at_a_time(plain, settings, stack.head_width)
    operations, _ = below_root(operations, stack.steps, layout.last)
    features = layout.features(settings, positions=model.config.position == "one-hot")
    fast = dependences(stack, layout, measured.base, operations, features, settings)
    slow = dependences_one_at_a_time(model, layout, loops, operations, features, settings)
    assert [(set(d.source), set(d.destination)) for d in fast] == slow
    return len(marked)


def smallest(n: int, encoding: str, columns: int = 0):
    """The row of fewest columns, at least `columns`."""
    layouts = graphs_with_a_free_id(n, 10, encoding)
    return min((l for l in layouts if l.columns >= columns), key=lambda layout: layout.columns)


def small(encoding: str, **changes):
    """An untrained model with weights large enough for perturbations to matter."""
    task = sizes(encoding, 4, 17)
    fields = {"layers": 2, "heads": 1, "embedding": "one-hot", "position": "one-hot", "spare": 4, "feedforward": 1.0}
    config = TransformerConfig(**(fields | changes))
    model = config.build(task, seed=3)
    for parameter in model.parameters():
        if parameter.ndim == 2:
            parameter.data *= 3.0
    return model


@pytest.mark.parametrize("settings", [CODE, PAPER, FILLED], ids=["code", "paper", "filled"])
@pytest.mark.parametrize(
    ("encoding", "loops", "changes"),
    [
        ("triples", 1, {}),
        ("packed", 2, {"position": "none", "heads": 2, "spare": 0, "inject": True, "outer_norm": True, "norm": "rms"}),
        ("triples", 2, {"layers": 1, "recurrence": "embedding", "inject": True, "outer_norm": True}),
        (
            "packed",
            1,
            {"position": "learned", "embedding": "learned", "width": 16, "causal": True, "activation": "gelu"},
        ),
    ],
    ids=["one-hot", "looped heads", "embedding channel", "causal learned"],
)
def test_untrained_models(encoding, loops, changes, settings):
    check(small(encoding, **changes), smallest(17, encoding), loops, settings)


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"position": "rotary"}, "position: 'rotary'"), ({"recurrence": "reset", "inject": True}, "recurrence: 'reset'")],
)
def test_what_has_no_circuit_is_refused(changes, message):
    model = small("triples", embedding="learned", width=16, **({"position": "none"} | changes))
    with pytest.raises(UsageError, match=rf"model\.{message}.*allowed: the others"):
        Stack(model, 2)
    if "recurrence" in changes:
        assert Stack(model, 1).steps == 2


@pytest.mark.parametrize("settings", [CODE, PAPER], ids=["code", "paper"])
@pytest.mark.parametrize("build", [path_merger, most_children])
def test_models_built_by_hand(build, settings):
    layout = smallest(20, "packed", columns=5)
    assert check(build("packed", layout.vertices), layout, 1, settings) >= 1


@pytest.mark.parametrize("name", [pytest.param("search-onehot", marks=pytest.mark.slow), "search-demo"])
def test_trained_models(name):
    run = load_run(resource("zoo") / name)
    encoding = run.task.config.encoding
    looped = name == "search-demo"
    layout = smallest(run.task.config.n, encoding, columns=6 if looped else 17)
    assert check(run.model, layout, 4 if looped else run.loops, CODE) >= 5
