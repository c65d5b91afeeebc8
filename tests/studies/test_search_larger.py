"""Studies of larger graphs, at toy size."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from algoprobe.core.errors import UsageError
from algoprobe.core.run import RunFolder
from algoprobe.studies import search_larger as study
from algoprobe.studies.registry import PRESETS, Preset, StudyOptions, load
from algoprobe.training.pool import Job

load()


def toy(**task: object) -> Preset:
    """A preset that trains in seconds."""
    experiment = study.searcher(8, 640)
    model = replace(experiment.model, width=16, heads=2, loops=4)
    train = replace(experiment.train, validate_every=320, validate_rows=100)
    task = replace(experiment.task, **{"n": 29, "test_rows": 20} | task)
    return Preset("toy", "laptop", "", lambda: replace(experiment, task=task, model=model, train=train))


def test_presets_have_the_sizes_of_their_names_and_one_recipe():
    for row, name in study.COST.items():
        experiment = PRESETS[name].make()
        assert experiment.task.vertices == int(row)
        assert experiment.task.lookahead_max == (int(row) - 1) // 2
        assert experiment.train.optimiser == PRESETS["search-41"].make().train.optimiser
    for name, _ in study.BEYOND.values():
        assert PRESETS[name].make().task.vertices == 41


def test_every_test_of_beyond_can_be_read_by_its_model():
    for name, n in study.BEYOND.values():
        task = PRESETS[name].make().task.build()
        if n is not None:
            assert task.at_size(n).sizes.vocabulary == task.sizes.vocabulary


def test_slope_is_the_exponent_of_a_power():
    sizes = (12, 20, 41, 100)
    assert study.slope(sizes, [3 * size**1.7 for size in sizes]) == pytest.approx(1.7)


def test_operations_grow_with_the_loops_that_were_logged(tmp_path):
    experiment = toy().make()
    few, many = (RunFolder(tmp_path / name) for name in ("few", "many"))
    few.path.mkdir(), many.path.mkdir()
    few.append("metrics.jsonl", [{"step": 10, "examples": 640, "loops": 1}, {"step": 20, "examples": 1280, "loops": 1}])
    many.append(
        "metrics.jsonl", [{"step": 10, "examples": 640, "loops": 1}, {"step": 20, "examples": 1280, "loops": 3}]
    )
    jobs = [Job("", "toy", "laptop", experiment, folder) for folder in (few, many)]
    assert study.operations(jobs[0], 640) == study.operations(jobs[1], 640) > 0
    assert study.operations(jobs[0], 1280) == 2 * study.operations(jobs[0], 640)
    # From the second loop on each costs the same, a little less than the first with its reading out.
    ratio = study.operations(jobs[1], 1280) / study.operations(jobs[0], 1280)
    assert 1.5 < ratio < 2.3


def test_toy_beyond(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(PRESETS, "toy-names", replace(toy(ids=12), name="toy-names"))
    monkeypatch.setattr(study, "BEYOND", {"own": ("toy-names", None), "larger": ("toy-names", 41)})
    monkeypatch.setattr(study, "COUNTS", (1, 4, 8))
    monkeypatch.setattr(study, "ROWS", 10)
    found = study.search_beyond(StudyOptions(seeds=2, out=tmp_path, json=True))
    own, larger = found["rows"]
    assert (own["vertices"], larger["vertices"], larger["trained_vertices"]) == (8, 12, 8)
    assert {cell["value"] for cell in larger["cells"]} == {1, 2, 3, 4, 5}
    assert [cell["loops"] for cell in own["cells"] if cell["value"] == 1] == [1, 4, 8]
    assert all(cell["seeds"] == 2 and cell["rows"] == 10 for cell in own["cells"])
    assert json.loads((tmp_path / "search-beyond" / "results.json").read_text()) == found
    assert (tmp_path / "search-beyond" / "larger.png").exists()
    assert "tested on 12 vertices" in (tmp_path / "search-beyond" / "table.md").read_text()
    assert capsys.readouterr().out == ""


def test_toy_cost(tmp_path, monkeypatch):
    monkeypatch.setitem(PRESETS, "toy-small", replace(toy(n=20), name="toy-small"))
    monkeypatch.setitem(PRESETS, "toy", toy())
    monkeypatch.setattr(study, "COST", {"5": "toy-small", "8": "toy", "200": "no preset"})
    found = study.search_cost(StudyOptions(out=tmp_path, json=True))
    assert [row["vertices"] for row in found["rows"]] == [5, 8]
    assert all("examples" not in row and row["solved"] == [None] for row in found["rows"]) and found["slopes"] == {}
    monkeypatch.setattr(study, "solved", lambda folder, lookaheads: (320, 1.5))
    found = study.search_cost(StudyOptions(out=tmp_path, json=True))
    assert found["rows"][0]["examples"]["mean"] == 320 and found["slopes"]["examples"] == pytest.approx(0)
    assert found["slopes"]["operations"] > 0
    assert (tmp_path / "search-cost" / "operations.png").exists()


def test_unknown_rows_are_named(tmp_path):
    with pytest.raises(UsageError, match="models: '42'"):
        study.search_cost(StudyOptions(models=("42",), out=tmp_path))
    with pytest.raises(UsageError, match="scale"):
        study.search_beyond(StudyOptions(scale="paper", out=tmp_path))
