"""Accuracy in test cells: one pass answers for several numbers of loops."""

from __future__ import annotations

import numpy as np
import pytest

from algoprobe.core.run import RunFolder
from algoprobe.options import parse_loops
from algoprobe.training.evaluation import evaluate_folder, is_scored
from algoprobe.training.forward import answers, answers_after
from algoprobe.training.load import load_run

from .tiny import RECIPES, run

CELL = {"axis": "lookahead", "value": 1, "distribution": "balanced", "accuracy": 0.5, "low": 0.4, "high": 0.6}
CELL |= {"chance": 0.2, "shortcut": 0.3, "shortcut_name": None, "rows": 20, "loops": 2, "seeds": 1}


@pytest.fixture(scope="module", params=["plain", "muon"])
def trained(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / request.param
    run(RECIPES[request.param], path)
    return path


def test_several_numbers_of_loops_in_one_pass_answer_as_one_by_one(trained):
    opened = load_run(trained)
    batch = opened.task.sample("train", 0, np.arange(300))
    counts = [3, 1, 6]
    together = answers_after(opened.model, batch, opened.arithmetic, counts)
    assert together.shape == (3, 300, 1)
    for count, found in zip(counts, together):
        assert (found == answers(opened.model, batch, opened.arithmetic, count)).mean() > 0.98  # bf16 may break ties
    assert (together[0] != together[1]).any()


def test_cells_come_number_of_loops_by_number_of_loops(trained):
    found = evaluate_folder(trained, rows=20, loops=lambda recommended: [recommended, 1, recommended])["cells"]
    assert [cell["loops"] for cell in found] == [2] * 3 + [1] * 3
    assert [cell["value"] for cell in found] == [1, 2, None] * 2
    single = evaluate_folder(trained, rows=20)["cells"]
    assert [cell | {"accuracy": 0, "low": 0, "high": 0} for cell in found[:3]] == [
        cell | {"accuracy": 0, "low": 0, "high": 0} for cell in single
    ]


def test_memory_does_not_grow_with_the_number_of_loops(trained, monkeypatch):
    """Logits after a loop are answers before the next loop begins, and what is left is a number a row."""
    opened = load_run(trained)
    batch, widest = opened.task.test(opened.task.cells()[0], 20), []
    read_out = opened.model.read_out
    monkeypatch.setattr(opened.model, "read_out", lambda state: widest.append(state.shape) or read_out(state))
    found = answers_after(opened.model, batch, opened.arithmetic, [3, 500, 1, 2])
    assert found.shape == (4, 20, 1) and widest == [(20, 1, 16)] * 4


def test_a_number_of_loops_that_is_named_twice_counts_once():
    assert parse_loops("8,3..5,4,8", 2) == [8, 3, 4, 5] and parse_loops("", 2) == [2]


@pytest.mark.parametrize(
    "kept, scored",
    [
        ({"cells": [CELL]}, True),
        ({"cells": [CELL], "sweep": [CELL]}, True),
        ({"cells": [CELL], "sweep": 3}, False),
        ({"cells": [CELL, 1]}, False),
        ({"cells": []}, False),
        ({"cells": {"a": 1}}, False),
        ({"cells": [{name: value for name, value in CELL.items() if name != "rows"}]}, False),
        ({"cells": [CELL | {"accuracy": "x"}]}, False),
        ({}, False),
        ([CELL], False),
    ],
)
def test_a_damaged_evaluation_is_none(tmp_path, kept, scored):
    RunFolder(tmp_path).write("evaluation.json", kept)
    assert is_scored(RunFolder(tmp_path)) == scored
