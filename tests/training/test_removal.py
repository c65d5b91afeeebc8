"""A chain that is removed at a pace: which stage a step trains in, and what the log says of it."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from algoprobe.core.errors import AlgoprobeError, UsageError
from algoprobe.core.run import RunFolder
from algoprobe.training.config import CurriculumConfig
from algoprobe.training.log import whole_log

from .tiny import RECIPES, run


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> RunFolder:
    """A run through all stages of a chain of ten tokens, the first of 5 steps and the others of 3."""
    path = tmp_path_factory.mktemp("removal")
    run(RECIPES["removal"], path, checkpoint_seconds=1e9)
    return RunFolder(path)


def test_stages_change_when_their_time_is_over(folder: RunFolder) -> None:
    moves = [(line["step"], line["stage"], line["next_stage"]) for line in folder.metrics if "next_stage" in line]
    assert moves == [(5 + 3 * i, i + 1, i + 2) for i in range(len(moves))] and len(moves) == (30 - 5) // 3 + 1
    assert all("held_out" in line for line in folder.metrics if "next_stage" in line)


def test_the_log_is_whole_and_a_lost_look_is_noticed(folder: RunFolder, tmp_path) -> None:
    experiment = RECIPES["removal"]
    assert len(whole_log(experiment, folder)) == len(folder.metrics)
    lines = [line for line in folder.metrics if line.get("next_stage") != 4]
    torn = RunFolder(tmp_path)
    torn.write("record.json", folder.record)
    torn.file("metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(AlgoprobeError, match="look at step 11"):
        whole_log(experiment, torn)


def test_training_rows_lose_what_the_stage_says_and_validation_exactly_that() -> None:
    task = RECIPES["removal"].task.build().at_stage(4)
    assert set(task.sample("validation", 0, np.arange(200)).axes["removed"]) == {3}
    removed = np.bincount(task.sample("train", 0, np.arange(2000)).axes["removed"])
    assert removed[:3].sum() == 0 and removed[3] > 1900 and removed[4] > 10
    whole = task.test(task.cells()[0], 20)
    assert set(whole.axes["removed"]) == {task.config.chain_length} and whole.targets.shape[1] == 5


def test_a_gate_is_judged_by_the_product_alone() -> None:
    task = RECIPES["removal"].task.build().at_stage(1)
    batch = task.sample("validation", 0, np.arange(50))
    answers = np.ones_like(batch.targets)
    answers[:, -5:] = batch.targets[:, -5:]
    assert task.grade(batch, answers).all()
    answers[:, -1] = batch.targets[:, -1] % 5 + 1
    assert not task.grade(batch, answers).any()


def test_impossible_paces() -> None:
    with pytest.raises(UsageError, match=r"train\.curriculum\.first"):
        CurriculumConfig(on=True, first=3)
    with pytest.raises(UsageError, match=r"train\.curriculum\.patience"):
        CurriculumConfig(on=True, pace=3, patience=5)
    experiment = RECIPES["removal"]
    off = replace(experiment, train=replace(experiment.train, curriculum=CurriculumConfig(pace=3)))
    with pytest.raises(UsageError, match=r"train\.curriculum\.pace"):
        off.check()
