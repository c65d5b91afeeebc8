"""Studies of larger graphs, at toy size."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from algoprobe.core.errors import AlgoprobeError, UsageError
from algoprobe.core.run import RunFolder
from algoprobe.studies import search_larger as study
from algoprobe.studies.registry import PRESETS, Preset, StudyOptions, load
from algoprobe.training.pool import Job

from ..training.tiny import run

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
        body = replace(experiment.model, loops=1)
        assert body == replace(PRESETS["search-41"].make().model, loops=1)
        assert experiment.task.grow == 3.0 and experiment.train.auxiliary.weight == 4.0
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
    jobs = []
    for loops in (1, 2, 3):
        folder = RunFolder(tmp_path / str(loops))
        folder.path.mkdir()
        folder.append("metrics.jsonl", [{"examples": 640, "loops": 1}, {"examples": 1280, "loops": loops}])
        jobs.append(Job("", "toy", "laptop", experiment, folder))
    first = [study.operations(job, 640) for job in jobs]
    assert [study.operations(job, 64) for job in jobs] == [first[0] / 10] * 3  # solved before the first line
    one, two, three = (study.operations(job, 1280) for job in jobs)
    assert first[0] == first[1] == first[2] > 0 and one == 2 * first[0]
    assert three - two == two - one > 0
    # A loop more is a block on all columns, forward and twice backward: the products of width 16 alone are these.
    columns = experiment.task.build().sizes.length
    products = 6 * 16 * 16 * columns * 64
    assert 2 * 3 * products < (two - one) / 10 < 2 * 3 * products * 2


def test_training_graphs_are_those_that_the_run_saw(tmp_path):
    experiment = toy().make()
    experiment = study.changed(experiment, curriculum={"gate": 0.01, "every": 3})
    folder = RunFolder(tmp_path / "run")
    run(experiment, folder.path)
    parts = list(study.training_graphs(Job("", "toy", "laptop", experiment, folder)))
    assert len(parts) == 3 and [len(part) for part in parts] == [192, 192, 256]
    task = experiment.task.build()
    for stage, (part, first) in enumerate(zip(parts, (0, 192, 384)), 1):
        drawn = task.at_stage(stage).graphs("train", 0, np.arange(first, first + len(part)))
        assert (drawn.edges == part.edges).all() and part.lookahead.max() <= max(stage, 6)
    assert parts[0].vertex_count.max() < parts[-1].vertex_count.max() or experiment.task.vertices <= 12


def test_toy_paper_size(tmp_path, monkeypatch):
    monkeypatch.setitem(PRESETS, "toy", toy())
    monkeypatch.setattr(study, "PAPER_SIZE", {"60,000 examples": "toy"})
    found = study.search_41_study(StudyOptions(out=tmp_path, json=True))
    new = {(cell["axis"], cell["value"]): cell for cell in found["unseen_shapes"]["cells"]}
    assert new["lookahead", 1]["rows"] <= 20 and set(new) == {("lookahead", l) for l in (1, 2, 3)} | {("naive", None)}
    assert all(0 <= cell["accuracy"] <= 1 for cell in new.values() if cell["rows"])
    assert {v["verdict"] for v in found["verdicts"]} == {"outside"}
    assert "under any renaming" in (tmp_path / "search-41" / "table.md").read_text()


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
    monkeypatch.setattr(study, "operations", lambda job, examples: float(examples * job.experiment.task.vertices))
    found = study.search_cost(StudyOptions(out=tmp_path, json=True))
    assert found["rows"][0]["examples"]["mean"] == 320 and found["slopes"]["examples"] == pytest.approx(0)
    assert found["slopes"]["operations"] == pytest.approx(1)
    monkeypatch.setattr(study, "solved", lambda folder, lookaheads: (320, 0.0))
    assert set(study.search_cost(StudyOptions(out=tmp_path, json=True))["slopes"]) == {"examples", "operations"}
    assert (tmp_path / "search-cost" / "operations.png").exists()


def test_a_gap_in_a_log_is_no_result(tmp_path, monkeypatch):
    """Without its validations a run would look unsolved, without its stages trained on other graphs."""
    monkeypatch.setitem(PRESETS, "toy", toy())
    monkeypatch.setattr(study, "COST", {"8": "toy", "200": "no preset"})
    monkeypatch.setattr(study, "PAPER_SIZE", {"60,000 examples": "toy"})
    found = study.search_cost(StudyOptions(models=("8", "8"), out=tmp_path, json=True))
    assert len(found["rows"]) == 1
    (log,) = tmp_path.glob("*/*/metrics.jsonl")
    log.unlink()
    for run_study in (study.search_cost, study.search_41_study):
        with pytest.raises(AlgoprobeError, match="has lost the"):
            run_study(StudyOptions(out=tmp_path, json=True))


def test_unknown_rows_are_named(tmp_path):
    for field in ("seeds", "workers"):
        with pytest.raises(UsageError, match=f"{field}: 100000 is not possible; allowed: 1 to 10"):
            StudyOptions(**{field: 100_000})
    with pytest.raises(UsageError, match="models: '42'"):
        study.search_cost(StudyOptions(models=("42",), out=tmp_path))
    with pytest.raises(UsageError, match="scale"):
        study.search_beyond(StudyOptions(scale="paper", out=tmp_path))
