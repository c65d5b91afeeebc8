"""The command line as people and scripts meet it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from algoprobe.cli import main
from algoprobe.core.run import RunFolder

TINY = ["--task.n", "20", "--task.test-rows", "20", "--train.examples", "256", "--train.batch", "16"]
TINY += ["--train.validate-rows", "16", "--model.width", "16", "--model.heads", "2", "--train.validate-every", "128"]


def words(capsys, *arguments: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of one command."""
    try:
        code = main(list(arguments))
    except SystemExit as stop:
        code = stop.code
    out = capsys.readouterr()
    return code, out.out, out.err


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "tiny"
    assert main(["train", "search-demo-balanced", *TINY, "--run", str(folder)]) == 0
    return folder


def test_help_of_everything(capsys):
    code, out, _ = words(capsys, "--help")
    assert code == 0 and all(
        name in out for name in ("train", "eval", "lens", "report", "list", "doctor", "bench", "study")
    )
    for command in ("train", "eval", "lens", "halt", "report", "export", "list", "doctor", "bench", "study"):
        code, out, _ = words(capsys, command, "--help")
        assert code == 0 and out
    _, out, _ = words(capsys, "train", "search-paper", "--help")
    assert "--task.distribution" in out and "(default: 128)" in out and "883" in out


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["tarin"], "command: 'tarin' is unknown; allowed: train, eval"),
        (["train", "search-papr"], "Did you mean 'search-paper'?"),
        (["train", "search-paper", "--task.lookahead", "21"], "task.lookahead: 21 is not possible; allowed: 1 to 20"),
        (["train", "search-paper", "--task.n", "8"], "task.n: 8 is not possible"),
        (["train", "search-paper", "--train.device", "cuda:7"], "device: 'cuda:7' is not on this machine"),
        (["train", "search-paper", "--train.device", "gpu"], "device: 'gpu' is unknown; allowed: auto, cpu"),
        (["train", "search-demo-balanced", "--model.heads", "5"], "a divisor of the model width 64"),
        (["train", "search-demo-naive", "--train.curriculum.on"], "train.curriculum.on: True is not possible"),
        (["train", "search-paper", "--train.batch", "0"], "train.batch: 0 is not possible; allowed: 1 to 1048576"),
        (["train", "search-demo-balanced", "--train.loops.high", "1000000000"], "train.loops.high: 1000000000"),
        (["train", "search-demo-balanced", "--model.width", "10000000"], "model.width: 10000000"),
        (["eval", "runs/none"], "'runs/none' is not there"),
        (["eval", "zoo:serch"], "'zoo:serch' is not in the zoo"),
        (["eval", ""], "'' is no name"),
        (["train", "here/nothing"], "'here/nothing' has no config.json"),
        (["train", "search-paper", "--run", ""], "run: '.' is not possible"),
        (["train", "search-paper", "--checkpoint-seconds", "nan"], "checkpoint_seconds: nan"),
        (["train", "search-paper", "--train.optimiser.lr", "inf"], "train.optimiser.lr: inf"),
        (["train", "search-paper", "--train.device", "cpu:3"], "device: 'cpu:3' is unknown"),
        (["report"], "name at least one run"),
        (["study", "search-fig22"], "Did you mean 'search-fig2'?"),
        (["study", "search-fig2", "--models", "balnced"], "models: 'balnced' is unknown"),
        (["study", "search-fig2", "--seeds", "0"], "seeds: 0 is not possible"),
        (["bench", "sampilng"], "Did you mean 'sampling'?"),
    ],
)
def test_wrong_use_exits_with_two_before_any_work(capsys, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    code, out, err = words(capsys, *arguments)
    assert code == 2 and message in err and out == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("arguments", [["--task.distribtion", "naive"], ["--task.n", "many"], ["--train.batch"]])
def test_unknown_and_ill_typed_options_exit_with_two(capsys, arguments):
    code, _, err = words(capsys, "train", "search-paper", *arguments)
    assert code == 2 and arguments[0] in err


def test_train_evaluate_report(capsys, trained, tmp_path):
    assert RunFolder(trained).record["status"] == "finished"
    code, out, _ = words(capsys, "eval", str(trained), "--json", "--rows", "10")
    found = json.loads(out)
    assert code == 0 and found["model"] == str(trained)
    names = [(cell["axis"], cell["value"]) for cell in found["cells"]]
    assert names == [("lookahead", 1), ("lookahead", 2), ("naive", None)]
    wanted = {"axis", "value", "accuracy", "low", "high", "chance", "shortcut", "rows", "loops", "seeds"}
    assert all(wanted <= cell.keys() and cell["rows"] == 10 for cell in found["cells"])
    code, out, _ = words(capsys, "report", str(trained), "--out", str(tmp_path / "page"))
    page = tmp_path / "page" / "index.html"
    assert code == 0 and out.strip() == str(page) and "<svg" in page.read_text()


def test_eval_on_other_distributions_and_loops(capsys, trained):
    code, out, _ = words(capsys, "eval", str(trained), "--on", "star,naive", "--loops", "1,3..4", "--json")
    cells = json.loads(out)["cells"]
    assert code == 0 and {cell["distribution"] for cell in cells} == {"star", "naive"}
    assert {cell["loops"] for cell in cells} == {1, 3, 4}
    for mistake, message in (
        (["--on", "stars"], "'star'"),
        (["--loops", "a"], "4..20"),
        (["--loops", "1..999999999"], "1 to 10000"),
        (["--rows", "21"], "1 to 20"),
    ):
        code, out, err = words(capsys, "eval", str(trained), *mistake)
        assert code == 2 and message in err and out == ""


def test_an_unfinished_run_is_evaluated_with_a_note_and_listed_as_such(capsys, trained, tmp_path, monkeypatch):
    import shutil

    monkeypatch.chdir(tmp_path)
    copy = RunFolder(tmp_path / "runs" / "tiny" / "0123")
    shutil.copytree(trained, copy.path)
    copy.write("record.json", copy.record | {"status": "interrupted"})
    code, out, err = words(capsys, "eval", str(copy.path), "--rows", "5", "--json")
    assert code == 0 and "is not finished (status: interrupted)" in err and json.loads(out)
    _, out, _ = words(capsys, "list", "--json")
    (row,) = json.loads(out)["runs"]
    assert row["name"] == "runs/tiny/0123" and row["summary"].startswith("interrupted, 256 examples, algoprobe train")


def test_eval_table_and_saved_sweep(capsys, trained):
    code, out, _ = words(capsys, "eval", str(trained), "--loops", "1..3", "--save")
    assert code == 0 and "naive" in out and "chance" in out
    kept = RunFolder(trained).read("evaluation.json")
    assert {cell["loops"] for cell in kept["sweep"]} == {1, 2, 3} and len(kept["cells"]) == 3


def test_a_run_goes_on_by_its_path(capsys, trained):
    code, out, err = words(capsys, "train", str(trained))
    assert code == 0 and "trained already" in err and out.strip() == str(trained)


def test_the_recorded_command_makes_the_run_again(trained):
    import shlex

    from algoprobe.core.config import digest
    from algoprobe.studies.registry import find_preset
    from algoprobe.training.load import read_experiment

    command = shlex.split(RunFolder(trained).record["command"])
    assert command[:3] == ["algoprobe", "train", "search-demo-balanced"]
    again = trained.parent / "again"
    assert main([*command[1:], "--run", str(again), "--no-evaluate"]) == 0
    assert digest(read_experiment(RunFolder(again))) == digest(read_experiment(RunFolder(trained)))
    assert digest(find_preset("search-demo-balanced").make()) != digest(read_experiment(RunFolder(trained)))


def test_an_exported_run_gives_the_same_answers(capsys, trained, tmp_path):
    code, out, _ = words(capsys, "export", str(trained), str(tmp_path / "kept"), "--json")
    assert code == 0 and json.loads(out)["rows"] == 60
    cells = [json.loads(words(capsys, "eval", str(at), "--json")[1])["cells"] for at in (trained, tmp_path / "kept")]
    assert cells[0] == cells[1]
    assert not (tmp_path / "kept" / "state.pt").exists()
    code, _, err = words(capsys, "export", str(trained), str(tmp_path / "kept"))
    assert code == 2 and "not an empty folder" in err


def test_list_and_doctor_as_json(capsys):
    code, out, _ = words(capsys, "list", "--json")
    found = json.loads(out)
    assert code == 0 and "search-paper" in [p["name"] for p in found["presets"]]
    assert "zoo:search-demo" in found["zoo"]
    assert {"sampling", "step"} <= set(found["benchmarks"])
    code, out, _ = words(capsys, "doctor", "--json")
    assert code == 0 and all(check["ok"] for check in json.loads(out)["checks"])


def test_damaged_weights_exit_with_one(capsys, trained, tmp_path):
    import shutil

    copy = tmp_path / "copy"
    shutil.copytree(trained, copy)
    path = copy / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-7])
    code, out, err = words(capsys, "eval", str(copy), "--json")
    assert code == 1 and "model.safetensors is damaged" in err and out == ""


def test_one_other_number_of_loops_is_a_sweep_and_leaves_the_cells(capsys, trained):
    before = RunFolder(trained).read("evaluation.json")["cells"]
    assert words(capsys, "eval", str(trained), "--save", "--loops", "1", "--rows", "5")[0] == 0
    kept = RunFolder(trained).read("evaluation.json")
    assert kept["cells"] == before and {cell["loops"] for cell in kept["sweep"]} == {1}


@pytest.mark.parametrize("extra", [["--rows", "10"], ["--on", "naive"]])
def test_a_kept_evaluation_is_never_replaced_by_less(capsys, trained, extra):
    before = RunFolder(trained).read("evaluation.json")
    code, _, err = words(capsys, "eval", str(trained), "--save", *extra)
    assert code == 2 and "save: " in err and RunFolder(trained).read("evaluation.json") == before


def test_a_full_disk_while_exporting_leaves_nothing(capsys, trained, tmp_path, monkeypatch):
    import errno
    import shutil

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "copyfile", full)
        code, _, err = words(capsys, "export", str(trained), str(tmp_path / "kept"))
    assert code == 1 and "the disk is full" in err and list(tmp_path.iterdir()) == []
    (tmp_path / "file").touch()
    code, _, err = words(capsys, "export", str(trained), str(tmp_path / "file"))
    assert code == 2 and "not an empty folder" in err


@pytest.mark.parametrize("name", ["evaluation.json", "metrics.jsonl", "record.json"])
@pytest.mark.parametrize(
    "value", ['{"cells": [{"accu', "[1]\n[2]\n", '{"loops": "x", "card": 5, "cells": [{"accuracy": "x"}]}\n']
)
def test_no_damage_ends_in_a_traceback(capsys, trained, tmp_path, name, value):
    import shutil

    copy = tmp_path / "copy"
    shutil.copytree(trained, copy)
    (copy / name).write_text(value)
    for command in (
        ["eval", str(copy), "--rows", "5"],
        ["report", str(copy)],
        ["export", str(copy), str(tmp_path / "e")],
    ):
        code, _, err = words(capsys, *command)
        assert code in (0, 1, 2) and len(err.strip().splitlines()) <= 1, err


def tiny_process(folder, *extra: str, **options) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "algoprobe", "train", "search-demo-balanced", *TINY, "--run", str(folder), *extra]
    return subprocess.run(command, timeout=300, **options)


def test_training_goes_on_when_nobody_listens(tmp_path):
    with open("/dev/full", "w") as full:
        assert tiny_process(tmp_path / "run", stderr=full, stdout=subprocess.DEVNULL).returncode == 0
    assert RunFolder(tmp_path / "run").record["status"] == "finished"
    with open("/dev/full", "w") as full:
        done = tiny_process(tmp_path / "run", stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1 and "Traceback" not in done.stderr


def test_a_bench_that_breaks_its_promise_exits_with_one(capsys, monkeypatch, tmp_path):
    promise = {"name": "x", "value": 1.0, "unit": "s", "baseline": 2.0, "ratio": 2.0, "target": 4.0, "machine": "m"}
    monkeypatch.setattr("algoprobe.core.run.resource", lambda kind: tmp_path)
    for holds, expected in ((True, 0), (False, 1), (None, 0)):
        (tmp_path / "fake.py").write_text(f"def run():\n    return [{promise | {'holds': holds}!r}]\n")
        code, out, _ = words(capsys, "bench", "fake", "--json")
        assert code == expected and json.loads(out)["promises"][0]["holds"] is holds
        assert words(capsys, "bench")[0] == expected


def test_ctrl_c_saves_says_how_to_go_on_and_goes_on(tmp_path):
    command = [sys.executable, "-m", "algoprobe", "train", "search-demo-balanced", *TINY]
    command += ["--train.examples", "20000", "--run", str(tmp_path / "run"), "--no-evaluate"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=dict(os.environ))
    folder = RunFolder(tmp_path / "run")
    for _ in range(600):
        if folder.metrics:
            break
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130 and "the same command goes on from there" in err
    assert folder.record["status"] == "interrupted"
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and "going on" in done.stderr
    assert folder.record["status"] == "finished"
