"""Accuracy in test cells: one pass answers for several numbers of loops."""

from __future__ import annotations

import numpy as np
import pytest

from algoprobe.training.evaluation import evaluate_folder
from algoprobe.training.forward import answers, answers_after
from algoprobe.training.load import load_run

from .tiny import RECIPES, run


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
    assert not opened.model.loop_out._forward_hooks
