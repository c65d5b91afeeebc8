"""Many inputs: shares, saving as one goes, the same result from any number of workers, mistakes in words."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
import time

import psutil
import pytest
import torch

from algoprobe.core.errors import AlgoprobeError, UsageError
from algoprobe.options import ExplainOptions
from algoprobe.probes.circuit_settings import Settings
from algoprobe.probes.circuits import Layout, measure
from algoprobe.studies import circuits as many
from algoprobe.studies import explain_plan as plan_module
from algoprobe.studies.explain import drawing_name, explain_all
from algoprobe.studies.explain_plan import plan_for, subjects_of
from algoprobe.tasks.task import Cell
from algoprobe.training.evaluation import cells_at

MERGER = "handmade:path-merger"


def options(out, *runs, **changes):
    given = {"at": "1", "on": "balanced", "rows": 2, "workers": 1, "out": out} | changes
    return ExplainOptions(runs or (MERGER,), **given)


def look(asked, settings=None):
    return explain_all(plan_for(asked, settings or Settings(), subjects_of(asked)), asked.workers)[0]


def test_the_path_merger_is_explained_and_the_contract_holds(tmp_path):
    found = look(options(tmp_path))
    (model,) = found["models"]
    assert (model["model"], model["label"]) == (MERGER, "path-merger")
    (cell,) = model["cells"]
    assert (cell["explained"], cell["accuracy"], cell["rows"]) == (1.0, 1.0, 2)
    assert cell["low"] == pytest.approx(0.342, abs=1e-3) and cell["high"] == 1.0
    assert 0 < cell["chance"] < 1 and cell["chance"] <= cell["shortcut"]
    assert set(cell) == {
        "axis", "value", "distribution", "explained", "low", "high", "explained_right", "maximal", "maximal_low",
        "maximal_high", "merges",
        "accuracy", "accuracy_low", "accuracy_high", "chance", "shortcut", "shortcut_name", "rows", "skipped",
        "operations",
    }  # fmt: skip
    (drawn,) = found["drawn"]
    assert drawn["explained"] and drawn["correct"] and "explained by path merging" in drawn["text"]
    assert json.loads((tmp_path / "results.json").read_text()) == found
    assert "path-merger" in (tmp_path / "index.html").read_text() and (tmp_path / "table.md").exists()
    assert len(list((tmp_path / "circuits").glob("*.svg"))) == 1


def test_only_what_is_missing_is_computed(tmp_path, monkeypatch):
    look(options(tmp_path))
    (tmp_path / "inputs.jsonl").write_bytes((tmp_path / "inputs.jsonl").read_bytes()[:-20])  # killed while writing
    seen, real = [], many.explain_row
    monkeypatch.setattr(many, "explain_row", lambda *given: seen.append(given[2]) or real(*given))
    found = look(options(tmp_path, rows=3))
    assert len(seen) == 2 and found["models"][0]["cells"][0]["rows"] == 3
    seen.clear()
    assert look(options(tmp_path, rows=3)) == found and not seen
    with pytest.raises(AlgoprobeError, match="other models or settings"):
        look(options(tmp_path), Settings(alpha=0.3))


@pytest.mark.slow
def test_the_number_of_workers_changes_nothing(tmp_path):
    one, two = (look(options(tmp_path / str(workers), rows=6, workers=workers)) for workers in (1, 2))
    one.pop("folder"), two.pop("folder")
    assert one == two


def test_an_untrained_control_and_other_settings(tmp_path):
    found = look(options(tmp_path, "zoo:search-demo", control=True, sensitivity=True, loops=2, rows=1))
    assert [model["label"] for model in found["models"]] == ["search-demo", "untrained"]
    assert found["models"][1]["cells"][0]["explained"] == 0.0
    names = {row["setting"] for row in found["sensitivity"]}
    assert {"as given", "alpha 0.2", "kappa1 40", "freeze_relu true", "maxing row"} <= names


def test_an_untrained_control_is_never_the_identity():
    task, stack = many.opened(many.Subject("untrained", "zoo:search-demo", "untrained"))
    assert all(block.attn.output.weight.abs().max() > 0 for block in stack.model.blocks)
    assert task.config.n == 65


@pytest.mark.parametrize(
    ("runs", "changes", "words"),
    [
        (("handmade:path-merge",), {}, "Did you mean 'handmade:path-merger'"),
        (("zoo:search-dem",), {}, "Did you mean 'zoo:search-demo'"),
        ((MERGER, MERGER), {}, "their names must differ"),
        ((MERGER,), {"control": True}, "needs a trained run"),
        ((MERGER,), {"at": "9"}, "at: 9 is not possible; allowed: 1, 2, 3, 4, 5"),
        ((MERGER,), {"at": "x"}, "at: 'x' is not possible"),
        ((MERGER,), {"on": "balance"}, "Did you mean 'balanced'"),
        ((MERGER,), {"at": "", "row": 1}, "name one with --on and --at"),
        ((MERGER,), {"row": 1000}, "row: 1000 is not possible"),
        ((MERGER,), {"at": "5", "row": 0}, "all 12 vertex ids are in use"),
        ((MERGER,), {"on": "naive", "at": "2"}, "at: 2 is not possible; allowed: none, since naive has no such axis"),
        ((MERGER,), {"on": ","}, "names no distribution; allowed: naive, star, balanced"),
        ((MERGER,), {"loops": 3}, "loops: handmade:path-merger has no loops"),
        (("zoo:search-demo",), {"loops": 600, "at": "9"}, "minutes of a core; allowed: up to 60"),
        (("zoo:search-demo",), {"loops": 1000, "at": "9"}, "take 3 GiB; allowed: up to 2"),
    ],
)
def test_mistakes_are_named(tmp_path, runs, changes, words):
    asked = options(tmp_path, *runs, **changes)
    with pytest.raises(UsageError, match=words):
        plan_for(asked, Settings(), subjects_of(asked))
    assert not any(tmp_path.iterdir())


def test_no_subject_is_a_mistake():
    with pytest.raises(UsageError, match="name at least one run"):
        subjects_of(ExplainOptions(()))


def test_rows_that_use_every_id_are_left_out_or_patched_with_zero():
    task, _ = many.opened(many.Subject("path-merger", MERGER, "handmade"))
    cell = cells_at(task, ("balanced",), [5])[0]
    rows, skipped = many.rows_for(task, cell, 20, Settings())
    graphs = task.test(cell, task.config.test_rows).source
    assert len(rows) == 20 and skipped > 0 and rows[-1] + 1 == 20 + skipped
    assert all(graphs.vertex_count[row] < graphs.vertices for row in rows)
    assert many.rows_for(task, cell, 20, dataclasses.replace(Settings(), replacement="zero")) == (list(range(20)), 0)


def test_a_distribution_named_twice_counts_once(tmp_path):
    found = look(options(tmp_path, on="balanced, balanced"))
    assert [cell["rows"] for cell in found["models"][0]["cells"]] == [2]


def test_damaged_leftovers_are_made_again(tmp_path):
    found = look(options(tmp_path))
    (picture,) = (tmp_path / "circuits").glob("*.json")
    for damage in (b"", b"[]", b"{}", b"\xff\xfe", picture.read_bytes()[:-30]):
        picture.write_bytes(damage)
        assert look(options(tmp_path)) == found
    picture.with_suffix(".svg").unlink()
    assert look(options(tmp_path)) == found and picture.with_suffix(".svg").exists()
    lines = [json.loads(line) for line in (tmp_path / "inputs.jsonl").read_text().splitlines()]
    for name, value in (("explained", None), ("merges", "x"), ("row", [1]), ("directions", [[1]]), ("operations", 1.5)):
        broken = [dict(line, **{name: value}) for line in lines]
        (tmp_path / "inputs.jsonl").write_text("".join(json.dumps(line) + "\n" for line in broken))
        assert look(options(tmp_path)) == found


def test_inputs_of_an_unknown_plan_are_refused(tmp_path):
    look(options(tmp_path))
    (tmp_path / "plan.json").unlink()
    with pytest.raises(AlgoprobeError, match=r"no plan\.json to say what of"):
        look(options(tmp_path))


def test_labels_that_differ_in_odd_characters_have_drawings_of_their_own():
    cell = Cell("lookahead", 1, "balanced")
    names = {drawing_name(label, cell, 0) for label in ("a b", "a-b", "a/b", "ä b")}
    assert len(names) == 4 and "a-b-balanced-lookahead-1-0" in names
    assert not any(set(name) & set(" /") for name in names)


def test_a_cell_without_a_usable_row_is_said_and_listed(tmp_path, capsys, monkeypatch):
    real = plan_module.rows_for
    monkeypatch.setattr(
        plan_module, "rows_for", lambda task, cell, *rest: ([], 1000) if cell.value == 2 else real(task, cell, *rest)
    )
    found = look(options(tmp_path, at="1,2"))
    assert found["empty"] == [{"label": "path-merger", "cell": "balanced lookahead 2", "skipped": 1000}]
    assert "no test row of balanced lookahead 2" in capsys.readouterr().err
    with pytest.raises(UsageError, match="--replacement zero"):
        look(options(tmp_path / "other", at="2"))


def test_a_model_of_nan_is_an_error(monkeypatch):
    task, stack = many.opened(many.Subject("path-merger", MERGER, "handmade"))
    layout = Layout.of(task.test(task.cells()[0], 20).source, 0, "triples")
    monkeypatch.setattr(stack.model.unembed, "bias", torch.nn.Parameter(stack.model.unembed.bias * torch.nan))
    with pytest.raises(AlgoprobeError, match="logits are not finite"):
        measure(stack, layout, Settings())


def test_a_run_folder_is_no_place_for_circuits(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(UsageError, match="is a run folder"):
        look(options(tmp_path))


@pytest.mark.slow
@pytest.mark.parametrize("delay", [0.0, 2.0, 9.0])
def test_workers_end_with_a_killed_parent(tmp_path, delay):
    command = [sys.executable, "-m", "algoprobe", "explain", "zoo:search-demo", "--rows", "20", "--out", str(tmp_path)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    parent, children = psutil.Process(process.pid), []
    until = time.monotonic() + 60
    while not children and time.monotonic() < until:
        children = parent.children(recursive=True)
        time.sleep(0.05)
    time.sleep(delay)
    children = parent.children(recursive=True)
    process.kill()
    process.wait()
    assert children and not psutil.wait_procs(children, timeout=60)[1]


@pytest.mark.slow
def test_a_killed_worker_is_said_and_the_same_command_goes_on(tmp_path):
    command = [
        sys.executable,
        "-m",
        "algoprobe",
        "explain",
        MERGER,
        "--rows",
        "30",
        "--at",
        "1,3",
        "--out",
        str(tmp_path),
    ]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    until, file = time.monotonic() + 90, tmp_path / "inputs.jsonl"
    while time.monotonic() < until and not (file.exists() and file.read_text().count("\n") > 2):
        time.sleep(0.1)
    workers = [c for c in psutil.Process(process.pid).children() if "spawn_main" in " ".join(c.cmdline())]
    workers[0].kill()
    assert "the same command goes on" in process.communicate(timeout=60)[1] and process.returncode == 1
    assert file.read_text().count("\n") > 2
