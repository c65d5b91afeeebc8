"""A log with a gap is never taken for the log of a run."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from algoprobe.core.errors import AlgoprobeError
from algoprobe.core.run import RunFolder
from algoprobe.training.log import whole_log

from .tiny import RECIPES, run

GATED = RECIPES["curriculum"]
# With this gate some looks move on and some do not.
EXPERIMENT = replace(GATED, train=replace(GATED.train, curriculum=replace(GATED.train.curriculum, gate=0.2, every=4)))


@pytest.fixture(scope="module")
def lines(tmp_path_factory) -> list[dict]:
    folder = RunFolder(tmp_path_factory.mktemp("runs") / "run")
    run(EXPERIMENT, folder.path)
    return folder.metrics


def read(folder: RunFolder, lines: list[dict]) -> list[dict]:
    folder.path.mkdir(exist_ok=True)
    folder.file("metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return whole_log(EXPERIMENT, folder)


@pytest.mark.parametrize("name", list(RECIPES))
def test_what_a_run_logs_is_whole(tmp_path, name):
    run(RECIPES[name], tmp_path)
    assert whole_log(RECIPES[name], RunFolder(tmp_path)) == RunFolder(tmp_path).metrics


def test_every_line_is_missed(tmp_path, lines):
    assert read(RunFolder(tmp_path), lines) == lines
    for left_out in range(len(lines)):
        with pytest.raises(AlgoprobeError, match=r"metrics\.jsonl has lost the .*; delete .* trains it again"):
            read(RunFolder(tmp_path), lines[:left_out] + lines[left_out + 1 :])
    with pytest.raises(AlgoprobeError, match="has lost"):
        read(RunFolder(tmp_path), [])


@pytest.mark.parametrize(
    "change, words",
    [
        (lambda line: line.pop("step"), "a line has step None"),
        (lambda line: line.update(examples=7), "7 examples"),
        (lambda line: line.update(loops="x"), "loops is 'x'"),
        (lambda line: line.update(cpu_seconds="x"), "cpu_seconds is 'x'"),
        (lambda line: line.update(next_stage=None), "next_stage is None"),
        (lambda line: line.update(validation=3), "the validation at step"),
        (lambda line: line.update(validation=[{"accuracy": 1.0}]), "the validation at step"),
    ],
)
def test_a_damaged_line_is_named(tmp_path, lines, change: Callable[[dict], None], words):
    damaged = [dict(line) for line in lines]
    change(damaged[2])
    with pytest.raises(AlgoprobeError, match=rf"metrics\.jsonl is damaged: .*{words}"):
        read(RunFolder(tmp_path), damaged)
