import json

import pytest
import synthetic

from algoprobe.core.errors import AlgoprobeError, UsageError
from algoprobe.report.runs import by_label, differences, flatten, load


def test_all_files_are_read(tmp_path):
    run = load(synthetic.make(tmp_path))
    assert run.preset == "search-demo-balanced" and run.name.endswith(run.digest)
    assert len(run.training) == 180 and run.training[0]["step"] == 20
    assert len(run.validation) == 12 * 10 and {"step", "examples", "axis", "accuracy"} <= run.validation[0].keys()
    assert len(run.cells) == 12 and len(run.sweep) == 40 and len(run.examples) == 7
    assert run.missing == () and run.status == "finished" and run.scale is None


def test_only_the_config_has_to_be_there(tmp_path):
    run = load(synthetic.make(tmp_path, record=None, metrics=None, evaluation=None, examples=None))
    assert run.missing == ("record.json", "metrics.jsonl", "evaluation.json", "examples.json")
    assert run.status == "unknown" and not run.cells
    with pytest.raises(AlgoprobeError, match=r"config\.json"):
        load(tmp_path)


def test_a_torn_last_line_is_skipped_and_a_torn_middle_line_named(tmp_path):
    path = synthetic.make(tmp_path) / "metrics.jsonl"
    whole = path.read_text()
    path.write_text(whole + '{"step": 4000, "exam')
    assert load(path.parent).training[-1]["step"] == 3600
    path.write_text('{"step": 1, "lo\n' + whole)
    with pytest.raises(AlgoprobeError, match=r"metrics\.jsonl.*line 1"):
        load(path.parent)


def test_curriculum_lines_are_no_training_steps_and_a_repeated_step_counts_once(tmp_path):
    lines = [
        {"step": 1, "examples": 9, "loss": 2.0},
        {"step": 1, "examples": 9, "stage": 2, "held_out": 0.9},
        {"step": 1, "examples": 9, "loss": 1.0},
    ]
    run = load(synthetic.make(tmp_path, metrics=lines))
    assert [line["loss"] for line in run.training] == [1.0]


@pytest.mark.parametrize("name", ["config.json", "record.json", "evaluation.json", "examples.json"])
@pytest.mark.parametrize("text", ["{", "3", '"a"', '[{"a": 1}, 2]'])
def test_damage_names_the_file(tmp_path, name, text):
    folder = synthetic.make(tmp_path)
    (folder / name).write_text(text)
    with pytest.raises(AlgoprobeError, match=name.replace(".", r"\.")):
        load(folder)


def test_cells_without_an_accuracy_are_damage(tmp_path):
    folder = synthetic.make(tmp_path, evaluation={"cells": [{"axis": "lookahead", "distribution": "star"}]})
    with pytest.raises(AlgoprobeError, match=r"evaluation\.json"):
        load(folder)


def test_labels_say_what_differs(tmp_path):
    folders = [synthetic.make(tmp_path, d, s, metrics=[]) for d in ("balanced", "star") for s in (0, 1)]
    runs = [load(folder) for folder in folders]
    assert list(by_label(runs[:1])) == ["search-demo-balanced"]
    assert list(by_label(runs[:2])) == ["seed 0", "seed 1"]
    assert list(by_label(runs)) == [f"trained on {d}, seed {s}" for d in ("balanced", "star") for s in (0, 1)]
    with pytest.raises(UsageError, match="twice"):
        by_label([runs[0], runs[0]])


def test_labels_fall_back_to_presets_and_digests(tmp_path):
    runs = []
    for seed, name in enumerate(("wide", "wide", "deep")):
        config = synthetic.config(seed=seed, preset=name)
        config["experiment"]["model"] = {"kind": name + str(seed), "a": seed, "b": seed, "c": seed}
        folder = tmp_path / str(seed)
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps(config))
        runs.append(load(folder))
    labels = list(by_label(runs))
    assert labels[2] == "deep" and labels[0] == f"wide ({runs[0].digest[:6]})"


def test_differences_know_absent_fields(tmp_path):
    runs = [load(synthetic.make(tmp_path, "balanced", s, metrics=[])) for s in (0, 1)]
    runs[1].experiment["model"]["extra"] = 3
    assert differences(runs)["model.extra"] == [None, 3]
    assert flatten({"a": {"b": 1, "c": {}}, "d": [1]}) == {"a.b": 1, "a.c": {}, "d": [1]}
