"""The paper's own preset at its own size: trains, resumes and evaluates."""

from __future__ import annotations

from dataclasses import replace

import pytest

from algoprobe.studies.registry import find_preset
from algoprobe.training.evaluation import evaluate_folder

from ..training.tiny import interrupted


@pytest.mark.slow
def test_search_paper_trains_resumes_and_evaluates(tmp_path, monkeypatch):
    experiment = find_preset("search-paper").make()
    short = replace(experiment.train, examples=24 * 32, batch=32, chunks=4, validate_every=256, validate_rows=64)
    experiment = replace(experiment, task=replace(experiment.task, test_rows=50), train=short)
    cut = interrupted(experiment, tmp_path, monkeypatch, 11)
    losses = [line["loss"] for line in cut.metrics if "loss" in line]
    assert losses[-1] < losses[0]
    cells = evaluate_folder(cut.path, rows=20)["cells"]
    assert [cell["value"] for cell in cells] == [*range(1, 21), None]
