"""Figure 5 and the directions of search, end to end at toy size."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from algoprobe.studies import search_fig5
from algoprobe.studies.registry import PRESETS, Preset, StudyOptions, find_preset, load

from ..training.tiny import RECIPES


@pytest.fixture
def toy(monkeypatch):
    """The study's rows are models that train in a second, and two inputs a cell are explained."""
    load()
    monkeypatch.setitem(PRESETS, "toy", Preset("toy", "laptop", "", lambda: RECIPES["plain"]))
    monkeypatch.setattr(search_fig5, "ROWS", {"laptop": {"balanced": "toy"}})
    monkeypatch.setattr(search_fig5, "INPUTS", 2)


@pytest.mark.slow
def test_figure_5_at_toy_size(toy, tmp_path, capsys):
    options = StudyOptions(seeds=2, models=("balanced",), workers=1, out=tmp_path)
    found = search_fig5.search_fig5(options)
    assert [row["trained_on"] for row in found["rows"]] == ["balanced", "untrained"]
    balanced, untrained = (row["cells"] for row in found["rows"])
    assert {cell["seeds"] for cell in balanced} == {2} and {cell["seeds"] for cell in untrained} == {1}
    assert all(cell["low"] <= cell["explained"] <= cell["high"] and cell["rows"] == 2 for cell in balanced)
    assert {v["trained_on"] for v in found["verdicts"]} == {"balanced", "untrained"}
    folder = tmp_path / "search-fig5"
    assert json.loads((folder / "results.json").read_text()) == found
    for name in ("figure.png", "maximal.svg", "accuracy.pdf", "table.md", "circuits/index.html"):
        assert (folder / name).stat().st_size > 100
    assert "Share of answers that path merging explains" in capsys.readouterr().out
    lines = (folder / "circuits" / "inputs.jsonl").read_text()
    assert search_fig5.search_fig5(replace(options, json=True)) == found
    assert (folder / "circuits" / "inputs.jsonl").read_text() == lines and capsys.readouterr().out == ""


@pytest.mark.slow
def test_directions_at_toy_size(toy, tmp_path):
    found = search_fig5.search_directions(StudyOptions(models=("balanced",), workers=1, out=tmp_path))
    assert found["lookahead"] == 1
    assert {row["direction"] for row in found["rows"]} <= {"forward", "backward"}
    assert (tmp_path / "search-directions" / "balanced-0-forward.png").stat().st_size > 100


def test_means_over_seeds_leave_out_seeds_without_merges():
    def cell(explained, maximal):
        shares = {
            "explained": explained,
            "explained_right": explained,
            "low": 0.0,
            "high": 1.0,
            "accuracy": 1.0,
            "maximal": maximal,
        }
        return shares | {f"{key}_{end}": 0.5 for key in ("accuracy", "maximal") for end in ("low", "high")}

    models = [{"label": f"a, seed {k}", "cells": [cell(e, m)]} for k, (e, m) in enumerate([(0.5, None), (0.7, 0.9)])]
    (merged,) = search_fig5.over_seeds({"models": models}, "a", 2)
    assert merged["explained"] == pytest.approx(0.6) and merged["maximal"] == 0.9 and merged["seeds"] == 2
    assert merged["low"] == 0.0 and merged["accuracy_low"] == 1.0


@pytest.mark.parametrize("scale", ["laptop", "paper"])
def test_every_row_has_a_preset_of_one_size(scale):
    sizes = {find_preset(name).make().task.n for name in search_fig5.ROWS[scale].values()}
    assert len(sizes) == 1
