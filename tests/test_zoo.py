"""Committed models load, are small, and answer as their records say."""

from __future__ import annotations

import pytest

from algoprobe.core.run import RunFolder, resource
from algoprobe.training.evaluation import evaluate_folder
from algoprobe.training.export import LIMIT, export

MODELS = sorted(path.parent for path in resource("zoo").glob("*/config.json"))


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.name)
def test_a_committed_model_answers_as_recorded(path):
    folder = RunFolder(path)
    assert folder.file("model.safetensors").stat().st_size <= LIMIT
    assert folder.record["status"] == "finished" and folder.record["command"].startswith("algoprobe train ")
    assert f"`{path.name}`" in (path.parent / "README.md").read_text()
    recorded = {(c["axis"], c["value"], c["distribution"]): c for c in folder.read("evaluation.json")["cells"]}
    for cell in evaluate_folder(f"zoo:{path.name}", rows=200)["cells"]:
        was = recorded[cell["axis"], cell["value"], cell["distribution"]]
        # The first 200 of the recorded rows: five standard deviations of such a sample, and the last bit of a sum.
        spread = 5 * (was["accuracy"] * (1 - was["accuracy"]) / 200) ** 0.5 + 0.01
        assert abs(cell["accuracy"] - was["accuracy"]) <= spread
        assert cell["chance"] == pytest.approx(was["chance"], abs=0.15)


def test_an_exported_run_does_not_say_where_it_stood(tmp_path):
    export("zoo:hops-two", tmp_path / "mine")
    assert RunFolder(tmp_path / "mine").read("evaluation.json")["model"] == "mine"


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.name)
def test_a_committed_model_names_no_place_on_a_machine(path):
    assert not RunFolder(path).read("evaluation.json")["model"].startswith("/")


def test_there_is_a_zoo():
    assert {"search-demo", "search-demo-naive", "hops-two", "hops-deep"} <= {path.name for path in MODELS}
