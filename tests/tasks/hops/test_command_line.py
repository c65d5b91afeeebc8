"""Both settings from the command line: train, eval, report, lens."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from algoprobe.cli import main
from algoprobe.core.run import RunFolder
from algoprobe.report.facts import leaks
from algoprobe.report.runs import load

SHORT = ["--train.examples", "1024", "--train.batch", "64", "--model.width", "16", "--train.validate-rows", "64"]
SHORT += ["--train.validate-every", "512", "--train.curriculum.every", "4", "--train.curriculum.rows", "32"]
CHAINS = ["--task.test-rows", "40", "--task.hops-max-test", "6", "--train.curriculum.gate", "0.001"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    assert main(["train", "hops-deep", *SHORT, *CHAINS, "--run", str(folder / "k")]) == 0
    assert main(["train", "hops-two", *SHORT, "--task.test-rows", "40", "--run", str(folder / "two")]) == 0
    return folder


def said(capsys, *arguments: str) -> tuple[int, str, str]:
    code = main(list(arguments))
    out = capsys.readouterr()
    return code, out.out, out.err


def test_train_leaves_a_scored_run(runs):
    for name, cells in (("k", 6), ("two", 5)):
        folder = RunFolder(runs / name)
        assert folder.record["status"] == "finished" and folder.record["leaks"]["equal_test_rows"] == 0
        assert len(folder.read("evaluation.json")["cells"]) == cells
        assert {"head", "relations", "entities", "accepted", "answer"} <= load(runs / name).examples[0].keys()
        assert any("validation" in line for line in folder.metrics)


def test_eval(capsys, runs):
    code, out, _ = said(capsys, "eval", str(runs / "k"), "--json", "--rows", "20", "--at", "2,5..6")
    found = json.loads(out)
    assert code == 0 and found["n"] == 6
    assert [(c["axis"], c["value"], c["distribution"], c["rows"]) for c in found["cells"]] == [
        ("hops", hops, "walks", 20) for hops in (2, 5, 6)
    ]
    assert all(cell["chance"] == pytest.approx(1 / 30) for cell in found["cells"])
    code, out, _ = said(capsys, "eval", str(runs / "two"), "--json", "--on", "ood,trained,ood-atomic")
    cells = json.loads(out)["cells"]
    assert code == 0 and [cell["distribution"] for cell in cells] == ["ood", "trained", "ood-atomic"]
    for arguments, message in (
        (["two", "--n", "3"], "n: 3 is not possible; allowed: 2"),
        (["two", "--at", "2"], "at: 2 is not possible; allowed: none, since id, ood, first-ood, second-ood, atomic"),
        (["k", "--on", "balanced"], "on: 'balanced' is unknown; allowed: walks, atomic"),
        (["k", "--n", "1001"], "n: 1001 is not possible; allowed: 2 to 1000"),
    ):
        code, out, err = said(capsys, "eval", str(runs / arguments[0]), *arguments[1:])
        assert code == 2 and message in err and out == ""


def test_report(capsys, runs, tmp_path):
    for name in ("k", "two"):
        code, _, _ = said(capsys, "report", str(runs / name), "--out", str(tmp_path / name))
        page = (tmp_path / name / "index.html").read_text()
        assert code == 0 and "data:image/svg+xml" in page and "relations" in page
        assert "of them equal a test row" in page and ("k-hop rows" if name == "k" else "two-hop rows") in page
        sentences, _ = leaks(load(runs / name))
        assert len(sentences) == 4
    assert said(capsys, "report", str(runs / "k"), str(runs / "two"), "--out", str(tmp_path / "both"))[0] == 0


@pytest.mark.parametrize("kind", ["logit", "patch", "pattern", "probe"])
def test_lenses(capsys, runs, kind):
    rows = ["--target", "after_1", "--rows", "60"] if kind == "probe" else ["--on", "atomic", "--rows", "30"]
    code, out, err = said(capsys, "lens", kind, str(runs / "two"), "--json", *rows)
    assert code == 0, err
    assert json.loads(out)["rows"]


def test_what_cannot_be_asked_is_named(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for arguments, message in (
        (["hops-two", "--train.curriculum.on"], "no order of difficulty (task.setting 'two-hop')"),
        (["hops-two", "--task.phi", "8"], "task.phi: 8.0 is not possible; allowed: at most 7.6"),
        (["hops-deep", "--train.curriculum.start", "9"], "train.curriculum.start: 9 is not possible; allowed: 1 to 5"),
    ):
        code, out, err = said(capsys, "train", *arguments)
        assert code == 2 and message in err and out == ""
    assert list(tmp_path.iterdir()) == []


def test_help_shows_the_options_of_the_presets_task_and_loads_nothing_heavy():
    code = (
        "import sys, json\n"
        "from algoprobe.cli import main\n"
        "try: main(['train', 'hops-deep', '--help'])\n"
        "except SystemExit: pass\n"
        "print(json.dumps([name for name in ('torch', 'numba') if name in sys.modules]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    shown, heavy = done.stdout.rsplit("\n", 2)[:2]
    assert json.loads(heavy) == []
    assert "--task.hops-max-test" in shown and "--task.lookahead" not in shown and "--task.n " not in shown


def test_distributions_without_rows_are_told(capsys, runs, tmp_path):
    path = str(tmp_path / "no-ood")
    code, _, err = said(
        capsys, "train", "hops-two", *SHORT, "--task.test-rows", "40", "--task.ood-share", "0", "--run", path
    )
    assert code == 0, err
    for command in (["eval", path], ["lens", "logit", path], ["lens", "probe", path]):
        code, out, err = said(capsys, *command, "--on", "ood")
        assert code == 2 and "on: 'ood' is not possible; allowed: id, atomic (at these sizes" in err and out == ""
    code, out, _ = said(capsys, "eval", path, "--json", "--on", "id,id", "--rows", "10")
    assert code == 0 and len(json.loads(out)["cells"]) == 1


@pytest.mark.parametrize(
    "preset, arguments, message",
    [
        (
            "hops-deep",
            ["--train.auxiliary.target", "steps_to_goal"],
            "train.auxiliary.target: 'steps_to_goal' is unknown",
        ),
        ("hops-deep", ["--task.hops", "1", "--train.curriculum.start", "1"], "(task.setting 'k-hop', task.hops 1)"),
        ("hops-deep", ["--task.entities", "2"], "task.test_rows: 200 is not possible; allowed: at most 1 with 200"),
        (
            "hops-deep",
            ["--task.entities", "3", "--task.test-rows", "20"],
            "task.validation_rows: 200 is not possible; allowed: at most 130 with 20 test rows (half of the 300 rows",
        ),
        (
            "hops-two",
            ["--task.validation-rows", "5000"],
            "task.validation_rows: 5000 is not possible; allowed: at most 432 (3672 pairs of ID facts",
        ),
        (
            "hops-two",
            ["--task.test-share", "0.9999", "--task.phi", "1"],
            "task.test_share: 0.9999 is not possible",
        ),
        (
            "hops-two",
            ["--task.ood-share", "0.998", "--task.phi", "1"],
            "task.ood_share: 0.998 is not possible",
        ),
    ],
)
def test_what_cannot_be_is_told_before_any_work_with_what_can(capsys, tmp_path, preset, arguments, message):
    code, out, err = said(capsys, "train", preset, *arguments, "--run", str(tmp_path / "run"))
    assert code == 2 and message in err and out == "" and not (tmp_path / "run").exists()
