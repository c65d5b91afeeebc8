"""The paper's own preset at its own size: trains, resumes and evaluates."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file

from algoprobe.core.errors import Interrupted
from algoprobe.core.run import RunFolder
from algoprobe.studies.registry import find_preset
from algoprobe.training import loop
from algoprobe.training.evaluation import evaluate_folder

from ..training.tiny import Silent


@pytest.mark.slow
def test_search_paper_trains_resumes_and_evaluates(tmp_path, monkeypatch):
    experiment = find_preset("search-paper").make()
    short = replace(experiment.train, examples=24 * 32, batch=32, chunks=4, validate_every=256, validate_rows=64)
    experiment = replace(experiment, task=replace(experiment.task, test_rows=50), train=short)
    whole, cut, steps = RunFolder(tmp_path / "whole"), RunFolder(tmp_path / "cut"), []
    loop.train(experiment, whole, Silent())
    update = loop.update

    def interrupt(*arguments):
        steps.append(1)
        if len(steps) == 11:
            os.kill(os.getpid(), 15)
        return update(*arguments)

    monkeypatch.setattr(loop, "update", interrupt)
    with pytest.raises(Interrupted):
        loop.train(experiment, cut, Silent())
    loop.train(experiment, cut, Silent())
    one, two = (load_file(folder.file("model.safetensors")) for folder in (whole, cut))
    assert all(torch.equal(one[name], two[name]) for name in one)
    losses = [line["loss"] for line in cut.metrics if "loss" in line]
    assert losses[-1] < losses[0]
    cells = evaluate_folder(cut.path, rows=20)["cells"]
    assert [cell["value"] for cell in cells] == [*range(1, 21), None]
