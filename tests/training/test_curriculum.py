from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from algoprobe.core.errors import UsageError
from algoprobe.tasks.search.config import SearchConfig
from algoprobe.training import curriculum as module
from algoprobe.training.config import CurriculumConfig
from algoprobe.training.curriculum import Curriculum
from algoprobe.training.forward import Arithmetic

from .tiny import tiny

MODEL = torch.nn.Identity()  # its answers come from the test
CPU = Arithmetic(torch.device("cpu"), "float32", "explicit")
TASK = SearchConfig(n=35, encoding="packed", test_rows=20).build()  # ten vertices, lookahead up to 4


def answering(monkeypatch, share: float) -> None:
    """Make every model right on this share of the rows it is shown."""

    def answers(model, batch, arithmetic, loops):
        right = np.arange(len(batch)) < round(share * len(batch))
        return np.where(right[:, None], batch.targets, 0)

    monkeypatch.setattr(module, "answers", answers)


@pytest.mark.parametrize("measure", ["newest", "mix"])
def test_the_gate_opens_at_its_accuracy_and_not_below(monkeypatch, measure):
    config = CurriculumConfig(on=True, gate=0.9, every=5, rows=50, measure=measure)
    walk = Curriculum(config, TASK, 0)
    assert walk.stage == 1 and walk.look(MODEL, CPU, 1, 4) is None
    answering(monkeypatch, 0.88)
    assert walk.look(MODEL, CPU, 1, 5) == {"stage": 1, "held_out": 0.88, "next_stage": 1}
    answering(monkeypatch, 0.9)
    for step, stage in ((10, 2), (15, 3), (20, 4)):
        assert walk.look(MODEL, CPU, 1, step)["next_stage"] == walk.stage == stage
    assert walk.look(MODEL, CPU, 1, 25) is None  # the last stage has nowhere to go


def test_with_patience_training_ends_where_a_stage_does_not_pass(monkeypatch):
    config = CurriculumConfig(on=True, gate=0.9, every=5, rows=50, patience=10)
    walk = Curriculum(config, TASK, 0)
    answering(monkeypatch, 0.95)
    assert walk.look(MODEL, CPU, 1, 5) and (walk.stage, walk.passed, walk.began) == (2, 1, 5)
    answering(monkeypatch, 0.5)
    assert walk.look(MODEL, CPU, 1, 10) and not walk.ended
    assert walk.look(MODEL, CPU, 1, 15) and walk.ended and walk.passed == 1
    again = Curriculum(config, TASK, 0)
    again.restore(**walk.state())
    assert again.state() == walk.state() == {"stage": 2, "began": 5, "passed": 1, "ended": True}


def test_with_patience_training_ends_where_the_last_stage_passes(monkeypatch):
    walk = Curriculum(CurriculumConfig(on=True, gate=0.9, every=5, rows=50, patience=10), TASK, 0)
    answering(monkeypatch, 0.95)
    for step in (5, 10, 15):
        assert walk.look(MODEL, CPU, 1, step) and not walk.ended
    assert walk.stage == 4 and walk.look(MODEL, CPU, 1, 20)["next_stage"] == 4
    assert walk.ended and walk.passed == 4


def test_held_out_rows_are_of_the_newest_difficulty_and_off_the_training_stream():
    walk = Curriculum(CurriculumConfig(on=True, rows=64), TASK, 0)
    for stage in (1, 2, 4):
        walk.move_to(stage)
        assert len(walk.held_out) == 64 and (walk.held_out.axes["lookahead"] == stage).all()
        rows = np.isin(walk.held_out.index, np.arange(2000))
        train = walk.task.graphs("train", 0, walk.held_out.index)
        assert rows.any() and not np.array_equal(train.edges, walk.held_out.source.edges)


def test_every_stage_replays_what_came_before():
    walk = Curriculum(CurriculumConfig(on=True), TASK, 0)
    for stage in range(1, 5):
        walk.move_to(stage)
        lookahead = walk.task.sample("train", 0, np.arange(4000)).axes["lookahead"]
        shares = np.bincount(lookahead, minlength=stage + 1) / 4000
        assert shares == pytest.approx([1 / (stage + 1)] * (stage + 1), abs=0.04)


def test_without_a_curriculum_everything_comes_at_once():
    walk = Curriculum(CurriculumConfig(), TASK, 0)
    assert walk.stage == 4 and walk.task is TASK and walk.look(MODEL, CPU, 1, 20) is None


def test_impossible_curricula_are_named():
    naive = replace(tiny().task, distribution="naive")
    for task, curriculum, message in (
        (naive, CurriculumConfig(on=True), r"train\.curriculum\.on: True is not possible"),
        (tiny().task, CurriculumConfig(on=True, start=9), r"train\.curriculum\.start: 9.*1 to 2"),
    ):
        experiment = replace(tiny(), task=task)
        with pytest.raises(UsageError, match=message):
            replace(experiment, train=replace(experiment.train, curriculum=curriculum)).check()
