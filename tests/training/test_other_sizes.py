"""A model tested on graphs of other sizes than it was trained on."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from algoprobe.cli import main
from algoprobe.core.errors import UsageError
from algoprobe.tasks.search import SearchConfig, SearchTask
from algoprobe.training.evaluation import evaluate_folder

from .tiny import run, tiny

IDS = 12


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    """Five vertices in training, twelve ids, several goals a graph."""
    path = tmp_path_factory.mktemp("sizes") / "packed"
    made = tiny(curriculum=replace(tiny().train.curriculum, on=True, gate=0.01, every=7, rows=16))
    run(replace(made, task=replace(made.task, ids=IDS, goals=3, along_path=0.25)), path)
    return path


def test_eval_on_larger_graphs(capsys, trained):
    assert (
        main(["eval", str(trained), "--n", "41", "--on", "balanced", "--at", "1,4..5", "--rows", "15", "--json"]) == 0
    )
    found = json.loads(capsys.readouterr().out)
    assert found["n"] == 41 and found["model"] == str(trained)
    assert [(cell["value"], cell["rows"]) for cell in found["cells"]] == [(1, 15), (4, 15), (5, 15)]
    larger = SearchTask(SearchConfig(n=41, ids=IDS, encoding="packed", test_rows=20))
    for cell in found["cells"]:
        batch = larger.test(larger.cells(("balanced",))[cell["value"] - 1], 15)
        assert cell["chance"] == pytest.approx(larger.baselines(batch)["chance"].mean())
    assert batch.lengths.max() > SearchTask(SearchConfig(n=20, encoding="packed", test_rows=20)).sizes.length


def test_the_size_of_training_is_the_default(trained):
    found, same = evaluate_folder(trained), evaluate_folder(trained, n=20)
    assert found == same and found["n"] == 20
    assert [cell["value"] for cell in found["cells"]] == [1, 2, None]
    assert evaluate_folder(trained, at=(2,))["cells"] == found["cells"][1:2]
    assert [cell["value"] for cell in evaluate_folder(trained, n=17)["cells"]] == [1]


@pytest.mark.parametrize(
    "arguments, message",
    [
        (
            ["--n", "44"],
            "n: 44 is not possible; allowed: 14 to 43 (the vertex ids are 1 to 12; train with more task.ids",
        ),
        (["--loops", "0"], "loops: '0' is not possible; write 8, 4,8,16 or 4..20"),
        (["--n", "3"], "n: 3 is not possible; allowed: 14 to 43"),
        (["--n", "41", "--at", "6"], "at: 6 is not possible; allowed: 1, 2, 3, 4, 5"),
        (["--on", "naive", "--at", "1"], "at: 1 is not possible; allowed: none, since naive"),
        (["--n", "41", "--save"], "save: what a run keeps is of the size it trained at"),
        (["--at", "1", "--save"], "save: what a run keeps has every cell"),
    ],
)
def test_what_cannot_be_asked_is_named(capsys, trained, arguments, message):
    assert main(["eval", str(trained), *arguments]) == 2
    out = capsys.readouterr()
    assert message in out.err and out.out == ""


@pytest.mark.parametrize(("encoding", "position", "fits"), [("triples", "learned", False), ("triples", "none", True)])
def test_positions_end_where_training_rows_do(tmp_path, encoding, position, fits):
    made = tiny(examples=32)
    model = replace(made.model, position=position, inject=False)
    run(
        replace(made, task=replace(made.task, ids=IDS, encoding=encoding), model=model),
        tmp_path,
        checkpoint_seconds=1e9,
    )
    if fits:
        assert len(evaluate_folder(tmp_path, n=41, rows=5)["cells"]) == 6
    else:
        with pytest.raises(UsageError, match=r"n: 41 is not possible; allowed: at most 20.*model\.position 'learned'"):
            evaluate_folder(tmp_path, n=41, rows=5)
    assert len(evaluate_folder(tmp_path, n=17, rows=5)["cells"]) == 1
