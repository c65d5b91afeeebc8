"""Studies end to end at toy size: runs, means over seeds, figure, page, verdicts."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from algoprobe.core.errors import AlgoprobeError
from algoprobe.core.run import RunFolder
from algoprobe.studies.comparison import Expected, compare, merge_seeds, verdicts
from algoprobe.studies.registry import PRESETS, Preset, StudyOptions, load
from algoprobe.training.pool import Job, run_jobs

from ..training.tiny import RECIPES


def cell(accuracy: float, value: int | None = 1, **other: object) -> dict:
    base = {"axis": "lookahead", "value": value, "distribution": "balanced", "accuracy": accuracy, "rows": 100}
    return base | {"low": 0.0, "high": 1.0, "chance": 0.2, "shortcut": 0.3, "loops": 2, "seeds": 1} | other


def test_seeds_are_averaged_never_maximised():
    merged = merge_seeds([[cell(0.9), cell(0.5, 2)], [cell(0.7), cell(0.5, 2)], [cell(0.8), cell(0.5, 2)]])
    assert [c["accuracy"] for c in merged] == pytest.approx([0.8, 0.5])
    assert [c["seeds"] for c in merged] == [3, 3]
    assert merged[0]["low"] == pytest.approx(0.8 - 4.303 * 0.1 / 3**0.5)
    assert merged[1]["low"] == merged[1]["high"] == 0.5
    assert merge_seeds([[cell(0.9)]])[0]["low"] == pytest.approx(0.8256, abs=1e-3)


def test_verdicts_compare_means_with_bands():
    expected = [
        Expected("balanced", "lookahead", 1, "1.00", 0.97, 1.0, "x"),
        Expected("naive", "naive", None, "0.99", 0.5, 0.6, "x"),
    ]
    rows = {"balanced": [cell(0.98)], "naive": [cell(0.99, None, axis="naive", distribution="naive")]}
    assert [v["verdict"] for v in verdicts(rows, expected)] == ["in the band", "outside"]


def test_every_expected_cell_of_the_laptop_figure_exists():
    load()
    from algoprobe.studies.search_fig2 import LAPTOP, ROWS

    for band in LAPTOP:
        task = PRESETS[ROWS["laptop"][band.row]].make().task.build()
        assert (band.axis, band.value) in [(c.axis, c.value) for c in task.cells()]


def test_a_study_runs_resumes_and_draws(tmp_path, capsys):
    rows = {
        "balanced": Preset("toy-balanced", "laptop", "", lambda: RECIPES["plain"]),
        "naive": Preset(
            "toy-naive",
            "laptop",
            "",
            lambda: replace(RECIPES["plain"], task=replace(RECIPES["plain"].task, distribution="naive")),
        ),
    }
    options = StudyOptions(seeds=2, out=tmp_path)
    expected = [Expected("balanced", "lookahead", 1, "–", 0.0, 1.0, "any")]
    found = compare("toy", "Toy", rows, expected, options)
    assert {row["trained_on"] for row in found["rows"]} == {"balanced", "naive"}
    assert all(
        c["seeds"] == 2 and c["low"] <= c["accuracy"] <= c["high"] for row in found["rows"] for c in row["cells"]
    )
    assert json.loads((tmp_path / "toy" / "results.json").read_text()) == found
    for name in ("figure.png", "figure.svg", "figure.pdf", "table.md", "report/index.html"):
        assert (tmp_path / "toy" / name).stat().st_size > 100
    assert "in the band" in capsys.readouterr().out
    finished = sorted(tmp_path.glob("toy-*/*/state.pt"))
    assert len(finished) == 4
    before = [path.stat().st_mtime_ns for path in finished]
    assert compare("toy", "Toy", rows, expected, replace(options, json=True)) == found
    assert [path.stat().st_mtime_ns for path in finished] == before
    assert capsys.readouterr().out == ""


def test_a_failing_run_is_named_and_does_not_stop_the_others(tmp_path):
    wild = replace(RECIPES["plain"].train, optimiser=replace(RECIPES["plain"].train.optimiser, lr=1e30), warmup=0)
    bad = replace(RECIPES["plain"], train=replace(wild, clip=None))
    jobs = [
        Job("bad", "toy", "laptop", bad, RunFolder(tmp_path / "bad")),
        Job("good", "toy", "laptop", RECIPES["plain"], RunFolder(tmp_path / "good")),
    ]
    with pytest.raises(AlgoprobeError, match=r"1 of 2 runs failed:\n  bad: algoprobe: .*not finite"):
        run_jobs(jobs, 1, lambda _: None, every=0.1)
    assert jobs[1].done and not jobs[0].done


def test_what_a_finished_run_lost_is_made_again_and_the_rest_stays(tmp_path):
    folder = RunFolder(tmp_path / "run")
    jobs = [Job("toy", "toy", "laptop", RECIPES["plain"], folder)]

    def lose_files():
        for name in ("model.safetensors", "evaluation.json", "record.json"):
            folder.file(name).unlink()

    def lose_fields():
        folder.write("evaluation.json", {"cells": [{"axis": "lookahead"}]})
        folder.write("record.json", {"status": "finished"})

    run_jobs(jobs, 1, lambda _: None, every=0.1)
    weights, kept, record = folder.file("model.safetensors").read_bytes(), folder.read("evaluation.json"), folder.record
    for lose in (lose_files, lose_fields):
        lose()
        assert not jobs[0].done
        run_jobs(jobs, 1, lambda _: None, every=0.1)
        assert jobs[0].done and folder.file("model.safetensors").read_bytes() == weights
        assert folder.read("evaluation.json") == kept and folder.record.keys() == record.keys()
        assert folder.record["examples"] == record["examples"]
