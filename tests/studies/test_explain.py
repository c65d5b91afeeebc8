"""Many inputs: shares, saving as one goes, the same result from any number of workers, mistakes in words."""

from __future__ import annotations

import dataclasses
import json

import pytest

from algoprobe.core.errors import AlgoprobeError, UsageError
from algoprobe.options import ExplainOptions
from algoprobe.probes.circuit_settings import Settings
from algoprobe.studies import circuits as many
from algoprobe.studies.explain import explain_all
from algoprobe.studies.explain_plan import plan_for, subjects_of

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
        ((MERGER, MERGER), {}, "not all different"),
        ((MERGER,), {"control": True}, "needs a trained run"),
        ((MERGER,), {"at": "9"}, "at: 9 is not possible; allowed: 1, 2, 3, 4, 5"),
        ((MERGER,), {"at": "x"}, "at: 'x' is not possible"),
        ((MERGER,), {"on": "balance"}, "Did you mean 'balanced'"),
        ((MERGER,), {"at": "", "row": 1}, "name one with --on and --at"),
        ((MERGER,), {"row": 1000}, "row: 1000 is not possible"),
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
    cell = many.cells_for(task, ("balanced",), [5])[0]
    rows, skipped = many.rows_for(task, cell, 20, Settings())
    graphs = task.test(cell, task.config.test_rows).source
    assert len(rows) == 20 and skipped > 0 and rows[-1] + 1 == 20 + skipped
    assert all(graphs.vertex_count[row] < graphs.vertices for row in rows)
    assert many.rows_for(task, cell, 20, dataclasses.replace(Settings(), replacement="zero")) == (list(range(20)), 0)
