"""The studies of multiplication at toy size, and the paper's presets at their own."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from algoprobe.core.errors import UsageError
from algoprobe.studies import mult_geometry, mult_open, mult_table1, mult_tree
from algoprobe.studies.comparison import changed
from algoprobe.studies.registry import Preset, StudyOptions, find_preset
from algoprobe.training.config import Experiment
from algoprobe.training.evaluation import evaluate_folder
from tests.training.tiny import interrupted

SHORT = {"batch": 64, "validate_every": 512, "validate_rows": 32, "warmup": 128, "column_rows": 32}
PAPER = ("mult-paper-plain", "mult-paper-auxiliary", "mult-paper-implicit", "mult-paper-explicit")


def toy(preset: Preset) -> Preset:
    """A preset that trains in seconds."""

    def make() -> Experiment:
        experiment = preset.make()
        short = SHORT | {"examples": max(512, experiment.train.examples // 400)}
        experiment = changed(experiment, train=short, model={"width": 16, "heads": 2}, task={"test_rows": 60})
        if experiment.task.chain == "none" and experiment.task.base == 10:
            return experiment
        looks = {"rows": 16, "gate": 0.001, "every": 1} if experiment.train.curriculum.on else {}
        return changed(experiment, task={"digits": 3}, curriculum=looks)

    return replace(preset, make=make)


@pytest.fixture
def toys(monkeypatch):
    """Every preset that studies look up is a toy."""
    for module in (mult_open, mult_table1):
        monkeypatch.setattr(module, "find_preset", lambda name: toy(find_preset(name)))
    monkeypatch.setattr(mult_open, "SEEN", dict.fromkeys(mult_open.SEEN, 60))


def test_every_row_is_possible_and_no_two_are_the_same():
    for rows in (mult_table1.rows_of("laptop"), mult_table1.rows_of("paper"), mult_table1.parts()):
        made = [preset.make() for preset in rows.values()]
        for experiment in made:
            experiment.check()
        assert all(a != b for i, a in enumerate(made) for b in made[:i])


def test_regimes_have_one_body_and_the_twin_differs_in_rows_and_loss_alone():
    for rows in (mult_table1.rows_of("laptop"), mult_table1.rows_of("paper")):
        assert len({preset.make().model for preset in rows.values()}) == 1
    best, plain = find_preset("mult-4x4").make(), find_preset("mult-4x4-plain").make()
    assert replace(plain.task, sparse=best.task.sparse) == best.task and plain.model == best.model
    assert replace(plain.train, auxiliary=best.train.auxiliary) == best.train


def test_the_papers_two_blocks_have_its_parameters():
    """14.2 M beside the embeddings (fact sheet, §2.1)."""
    for name in PAPER:
        experiment = find_preset(name).make()
        model = experiment.model.build(experiment.task.build().sizes)
        assert 14.1e6 < sum(p.numel() for p in model.blocks.parameters()) < 14.25e6


def test_the_papers_regimes_take_what_the_sheet_says():
    plain, implicit, auxiliary, _ = (
        find_preset(f"mult-paper-{name}").make() for name in ("plain", "implicit", "auxiliary", "explicit")
    )
    assert plain.task.train_rows == 808_000 and plain.train.batch == 32 and plain.train.optimiser.lr == 5e-5
    steps = 808_000 // 32
    assert implicit.train.curriculum.pace == round(steps / 8) and implicit.train.curriculum.restart
    assert implicit.task.smoothing == 4.0 and implicit.train.steps == pytest.approx(13 * steps, abs=1)
    assert auxiliary.train.auxiliary.site == "heads" and len(auxiliary.train.auxiliary.heads) == 2


@pytest.mark.slow
@pytest.mark.parametrize("name", PAPER)
def test_the_papers_presets_train_resume_and_evaluate(name: str, tmp_path, monkeypatch):
    few = {"examples": 12 * 8, "batch": 8, "validate_every": 48, "validate_rows": 16, "column_rows": 16}
    experiment = changed(find_preset(name).make(), train=few, task={"test_rows": 8, "train_rows": 5000})
    if experiment.train.curriculum.on:
        experiment = changed(experiment, curriculum={"pace": 3})
    cut = interrupted(experiment, tmp_path, monkeypatch, 8)
    cells = evaluate_folder(cut.path, rows=4)["cells"]
    assert [cell["value"] for cell in cells] == [None, *range(8)]


@pytest.mark.usefixtures("toys")
def test_table_1_at_toy_size(tmp_path, capsys):
    rows = ("plain", "explicit")
    found = mult_table1.table1(StudyOptions(seeds=2, out=tmp_path, json=True, models=rows))
    assert [row["trained_on"] for row in found["rows"]] == list(rows)
    cells = found["rows"][0]["cells"]
    assert [cell["value"] for cell in cells] == [None, *range(6)] and cells[0]["seeds"] == 2
    assert cells[0]["chance"] == pytest.approx(5.0**-6) and cells[1]["shortcut"] > 0.99
    assert {v["trained_on"] for v in found["verdicts"]} == set(rows)
    assert json.loads((tmp_path / "mult-table1" / "results.json").read_text()) == found
    assert capsys.readouterr().out == ""


@pytest.mark.usefixtures("toys")
def test_parts_take_the_rows_that_are_named(tmp_path):
    options = StudyOptions(out=tmp_path, json=True, models=("everything", "no loop"))
    found = mult_table1.mult_parts(options)
    assert [row["trained_on"] for row in found["rows"]] == ["everything", "no loop"]
    with pytest.raises(UsageError, match="no loop"):
        mult_table1.mult_parts(replace(options, models=("no lop",)))


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A folder of runs that the studies below share."""
    return tmp_path_factory.mktemp("multiplication")


@pytest.mark.usefixtures("toys")
@pytest.mark.parametrize("name", ["attribution", "probes", "tree", "dynamics", "geometry"])
def test_every_regime_is_opened(name: str, shared, monkeypatch):
    options = StudyOptions(out=shared, json=True)
    run = getattr({"tree": mult_tree, "geometry": mult_geometry}.get(name, mult_open), name)
    found = run(options)
    rows = ["plain, base 10", "sums, base 10"] if name == "geometry" else ["plain", "implicit", "auxiliary"]
    assert list(found["exact_match"]) == rows and len(found["verdicts"]) >= len(rows)
    folder = shared / f"mult-{name}"
    kept = json.loads((folder / "results.json").read_text())
    assert kept["study"] == f"mult-{name}" and (folder / "table.md").read_text().count("**") >= 2 * len(rows)
    assert list(folder.glob("*.svg")) and list(folder.glob("*.png"))
    before = {path: path.stat().st_mtime_ns for path in shared.rglob("model.safetensors")}
    run(replace(options, models=(rows[0],)))
    assert before == {path: path.stat().st_mtime_ns for path in shared.rglob("model.safetensors")}
