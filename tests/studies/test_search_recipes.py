"""The ablation study: every row differs from its neighbour in what it says, and what is measured is what runs hold."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from algoprobe.core.errors import UsageError
from algoprobe.core.run import RunFolder
from algoprobe.studies import search_recipes as study
from algoprobe.studies.registry import StudyOptions


def test_the_ladder_ends_in_the_best_recipe_and_every_row_is_possible():
    rows = study.recipes()
    assert rows["best"].experiment == study.best()
    for recipe in rows.values():
        recipe.experiment.check()


def test_no_two_rows_are_the_same_experiment():
    experiments = [recipe.experiment for recipe in study.recipes().values()]
    assert all(a != b for i, a in enumerate(experiments) for b in experiments[:i])


def test_a_run_is_solved_at_its_first_validation_with_every_trained_lookahead(tmp_path):
    def validation(examples, *accuracies):
        cells = [{"value": value, "accuracy": accuracy} for value, accuracy in enumerate(accuracies)]
        return {"step": 1, "examples": examples, "validation": cells}

    folder = RunFolder(tmp_path)
    lines = [
        {"step": 1, "examples": 10, "cpu_seconds": 1.5},
        validation(20, 0.0, 0.99, 0.94),
        {"step": 1, "examples": 30, "cpu_seconds": 3.5},
        validation(40, 0.0, 0.99, 0.95),
        validation(60, 0.0, 0.5, 0.99),
    ]
    folder.append("metrics.jsonl", lines)
    assert study.solved(folder, range(1, 3)) == (40, 3.5)
    assert study.solved(folder, range(0, 3)) is None
    assert study.solved(folder, range(1, 4)) is None  # a lookahead without held-out rows is not solved


def test_reach_stops_at_the_first_lookahead_below():
    cells = [{"axis": "lookahead", "value": v, "accuracy": a} for v, a in ((1, 0.99), (2, 0.95), (3, 0.9), (4, 1.0))]
    assert study.reach(cells) == 2
    assert study.reach(cells[:2]) == 2
    assert study.reach([cells[2] | {"value": 1}]) == 0


def test_a_toy_study_of_two_rows(tmp_path, monkeypatch, capsys):
    small = study.best()
    task = replace(small.task, n=26, lookahead=2, test_rows=20)
    train = replace(small.train, examples=512, batch=64, validate_every=256, validate_rows=200)
    small = replace(small, task=task, train=train)
    monkeypatch.setattr(study, "best", lambda: small)
    found = study.search_recipes(StudyOptions(models=("best", "no-loops"), seeds=2, out=tmp_path, json=True))
    best, untied = found["rows"]
    assert (best["recipe"], untied["group"]) == ("best", "without")
    assert best["examples"] is None and best["solved"] == [None, None]
    assert list(best["beyond"]) == ["1", "1.5", "2", "4"] and list(untied["beyond"]) == ["1"]
    assert best["chance_beyond"] > 0.2 and best["reach"]["values"] == [0, 0]
    folder = tmp_path / "search-recipes"
    assert json.loads((folder / "results.json").read_text()) == found
    assert "0 of 2 seeds in 0k" in (folder / "table.md").read_text()
    assert (folder / "figure.png").stat().st_size > 1000 and (folder / "beyond.png").exists()
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(("field", "value"), [("models", ("no-lops",)), ("scale", "paper")])
def test_wrong_use_is_refused_before_any_training(tmp_path, field, value):
    with pytest.raises(UsageError, match=field):
        study.search_recipes(replace(StudyOptions(out=tmp_path), **{field: value}))
    assert not list(tmp_path.iterdir())
