from __future__ import annotations

import os
import signal
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from algoprobe.core.errors import AlgoprobeError, Interrupted, UsageError
from algoprobe.core.files import read_json, write_json
from algoprobe.core.run import RunFolder
from algoprobe.training import loop
from algoprobe.training.config import LoopsConfig, OptimiserConfig
from algoprobe.training.load import load_run
from algoprobe.training.log import whole_log
from algoprobe.training.snapshots import snapshot_steps

from .tiny import OPEN, RECIPES, Silent, run, tiny


def weights(path) -> dict[str, torch.Tensor]:
    return load_file(RunFolder(path).file("model.safetensors"))


def equal(a, b) -> bool:
    return all(torch.equal(a[name], b[name]) for name in a)


def spied(monkeypatch, experiment, path):
    """Train, noting the starting weights, the rows and the loops of every step."""
    seen = {"start": None, "tokens": [], "loops": []}
    update = loop.update

    def spy(model, optimisers, batch, loops, *rest):
        if seen["start"] is None:
            seen["start"] = {name: p.detach().clone() for name, p in model.named_parameters()}
        seen["tokens"].append(batch.tokens.copy())
        seen["loops"].append(loops)
        return update(model, optimisers, batch, loops, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(loop, "update", spy)
        run(experiment, path, checkpoint_seconds=1e9)
    return seen


def test_each_seed_has_its_own_effect_and_no_other(monkeypatch, tmp_path):
    base = tiny(loops=LoopsConfig(draw="uniform", low=1, high=6))
    seen = {"base": spied(monkeypatch, base, tmp_path / "base")}
    for name in ("data", "init", "train"):
        other = replace(base, seeds=replace(base.seeds, **{name: 1}))
        seen[name] = spied(monkeypatch, other, tmp_path / name)

    def same(name: str) -> tuple[bool, bool, bool]:
        a, b = seen["base"], seen[name]
        rows = all(x.shape == y.shape and np.array_equal(x, y) for x, y in zip(a["tokens"], b["tokens"]))
        return rows, equal(a["start"], b["start"]), a["loops"] == b["loops"]

    assert same("data") == (False, True, True)
    assert same("init") == (True, False, True)
    assert same("train") == (True, True, False)
    run(base, tmp_path / "again", checkpoint_seconds=1e9)
    assert equal(weights(tmp_path / "base"), weights(tmp_path / "again"))
    for name in ("data", "init", "train"):
        assert not equal(weights(tmp_path / "base"), weights(tmp_path / name))


def test_how_often_it_saves_changes_nothing(tmp_path):
    run(RECIPES["plain"], tmp_path / "a", checkpoint_seconds=0)
    run(RECIPES["plain"], tmp_path / "b", checkpoint_seconds=1e9)
    assert equal(weights(tmp_path / "a"), weights(tmp_path / "b"))


def test_a_signal_saves_and_the_same_command_goes_on(monkeypatch, tmp_path):
    run(RECIPES["plain"], tmp_path / "whole", checkpoint_seconds=1e9)
    update, steps = loop.update, []

    def interrupt(*arguments):
        steps.append(1)
        if len(steps) == 13:
            os.kill(os.getpid(), signal.SIGINT)
        return update(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(loop, "update", interrupt)
        with pytest.raises(Interrupted, match="saved at 208 examples"):
            run(RECIPES["plain"], tmp_path / "cut", checkpoint_seconds=1e9)
    folder = RunFolder(tmp_path / "cut")
    assert folder.record["status"] == "interrupted" and folder.record["examples"] == 208
    assert load_run(folder.path).model is not None
    run(RECIPES["plain"], folder.path)
    assert equal(weights(tmp_path / "whole"), weights(folder.path))


def test_a_finished_run_is_left_alone(tmp_path):
    run(RECIPES["plain"], tmp_path)
    before = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir() if path.name != "lock"}
    run(RECIPES["plain"], tmp_path)
    assert before == {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir() if path.name != "lock"}


def test_a_folder_of_another_config_is_refused(tmp_path):
    run(RECIPES["plain"], tmp_path)
    with pytest.raises(UsageError, match="holds a run of another config"):
        run(RECIPES["muon"], tmp_path)


def damage(path, how: str) -> None:
    data = bytearray(path.read_bytes())
    if how == "cut":
        path.write_bytes(data[: len(data) // 2])
    elif how == "empty":
        path.write_bytes(b"")
    else:
        data[len(data) // 2] ^= 0x10
        path.write_bytes(data)


@pytest.mark.parametrize("how", ["cut", "flip", "empty"])
@pytest.mark.parametrize("name", ["state.pt", "model.safetensors", "config.json"])
def test_damaged_files_are_never_used(tmp_path, name, how, monkeypatch):
    folder = RunFolder(tmp_path)
    monkeypatch.setattr(loop.State, "save", interrupted_after(loop.State.save, 20))
    with pytest.raises(KeyboardInterrupt):
        run(RECIPES["plain"], tmp_path)
    monkeypatch.undo()
    damage(folder.file(name), how)
    use = load_run if name == "model.safetensors" else lambda path: run(RECIPES["plain"], path)
    with pytest.raises(AlgoprobeError, match=rf"{name}.*(damaged|another config)|another config"):
        use(tmp_path)


def interrupted_after(save, number):
    calls = []

    def wrapped(self, status):
        save(self, status)
        calls.append(status)
        if len(calls) == number:
            raise KeyboardInterrupt

    return wrapped


def test_a_full_disk_keeps_the_last_checkpoint(tmp_path, monkeypatch):
    import errno

    from algoprobe.core import files

    folder, calls, replace_file = RunFolder(tmp_path), [], os.replace

    def full(*arguments):
        calls.append(1)
        if len(calls) > 40:
            raise OSError(errno.ENOSPC, "No space left on device")
        return replace_file(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(files.os, "replace", full)
        with pytest.raises(AlgoprobeError, match="the disk is full"):
            run(RECIPES["plain"], tmp_path)
    assert load_run(tmp_path).folder.path == tmp_path
    run(RECIPES["plain"], tmp_path)
    run(RECIPES["plain"], tmp_path / "whole")
    assert equal(weights(tmp_path), weights(tmp_path / "whole"))
    assert folder.record["status"] == "finished"


def test_divergence_stops_with_an_error_and_keeps_good_weights(tmp_path):
    wild = tiny(optimiser=OptimiserConfig(lr=1e30), warmup=0, clip=None)
    with pytest.raises(AlgoprobeError, match="not finite"):
        run(wild, tmp_path, checkpoint_seconds=1e9)
    assert RunFolder(tmp_path).record["status"] == "running" and not RunFolder(tmp_path).has("state.pt")


def test_the_record_says_how_it_was_made(tmp_path):
    run(tiny(curriculum=OPEN, loops=LoopsConfig(draw="uniform", low=1, high=4, follow_stage=True)), tmp_path)
    record = RunFolder(tmp_path).record
    assert {"command", "git", "versions", "machine", "precision", "card", "leaks", "parameters"} <= record.keys()
    assert record["examples"] == 480 and record["cpu_seconds"] > 0
    assert record["loops"] == 5 and record["stage"] == 2  # the middle of 1 + 2 .. 4 + 2, rounded up
    config = read_json(tmp_path / "config.json")
    write_json(tmp_path / "config.json", config | {"digest": "changed"})
    assert load_run(tmp_path).loops == 5


def half_way(monkeypatch, path, saves: int = 20) -> RunFolder:
    """A run that stopped after some checkpoints."""
    with monkeypatch.context() as patch:
        patch.setattr(loop.State, "save", interrupted_after(loop.State.save, saves))
        with pytest.raises(KeyboardInterrupt):
            run(RECIPES["plain"], path)
    return RunFolder(path)


def test_another_runs_state_and_weights_are_refused(monkeypatch, tmp_path):
    folder = half_way(monkeypatch, tmp_path / "a")
    other = replace(RECIPES["plain"], seeds=replace(RECIPES["plain"].seeds, data=5))
    run(other, tmp_path / "b")
    for name, use in (("state.pt", lambda path: run(RECIPES["plain"], path)), ("model.safetensors", load_run)):
        folder.file(name).write_bytes((tmp_path / "b" / name).read_bytes())
        with pytest.raises(AlgoprobeError, match=rf"{name} belongs to another config"):
            use(folder.path)


@pytest.mark.parametrize(
    "change", [{"step": 10**9}, {"model": {}}, {"window": {"a": 1}}, {"optimisers": []}, {"curriculum": {"stage": 99}}]
)
def test_a_state_whose_parts_do_not_fit_is_named(monkeypatch, tmp_path, change):
    folder = half_way(monkeypatch, tmp_path)
    state = torch.load(folder.file("state.pt"), weights_only=True)
    torch.save(state | change, folder.file("state.pt"))
    with pytest.raises(AlgoprobeError, match=r"state\.pt is damaged") as error:
        run(RECIPES["plain"], tmp_path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("state", [{"a": 1}, [1, 2], 3])
def test_a_state_that_is_none_is_named(tmp_path, state):
    run(RECIPES["plain"], tmp_path)
    torch.save(state, RunFolder(tmp_path).file("state.pt"))
    with pytest.raises(AlgoprobeError, match=r"state\.pt is damaged \(it holds no training state\)"):
        run(RECIPES["plain"], tmp_path)


class Heard(Silent):
    def __init__(self) -> None:
        self.said: list[str] = []

    def say(self, text: str) -> None:
        self.said.append(text)


@pytest.mark.parametrize("left", [None, "{}"])
def test_a_lost_record_and_lost_curves_are_noticed(monkeypatch, tmp_path, left):
    folder, heard = half_way(monkeypatch, tmp_path), Heard()
    for name in ("record.json", "metrics.jsonl"):
        folder.file(name).unlink()
    if left is not None:
        folder.file("record.json").write_text(left)
    loop.train(RECIPES["plain"], folder, heard, command="algoprobe train x")
    assert any("record.json was lost" in text for text in heard.said)
    assert any("metrics.jsonl has lost lines" in text for text in heard.said)
    assert {"command", "card", "leaks", "precision", "status"} <= folder.record.keys()


def test_what_a_finished_run_lost_is_written_again(tmp_path):
    folder = RunFolder(tmp_path)
    run(RECIPES["plain"], tmp_path)
    before = folder.file("model.safetensors").read_bytes()
    for damaged in (b"", before[:-9], None):
        folder.file("model.safetensors").unlink() if damaged is None else folder.file("model.safetensors").write_bytes(
            damaged
        )
        run(RECIPES["plain"], tmp_path)
        assert folder.file("model.safetensors").read_bytes() == before


@pytest.mark.parametrize("value", ["null", "[]", "[1]", '"x"'])
@pytest.mark.parametrize("name", ["config.json", "record.json"])
def test_json_of_the_wrong_kind_is_damage(tmp_path, name, value):
    run(RECIPES["plain"], tmp_path)
    RunFolder(tmp_path).file(name).write_text(value)
    for use in (load_run, lambda path: run(RECIPES["plain"], path)):
        with pytest.raises(AlgoprobeError, match=rf"{name} is damaged"):
            use(tmp_path)


@pytest.mark.parametrize("loops", ["x", 0, -3])
def test_a_record_with_impossible_loops_is_damage(tmp_path, loops):
    run(RECIPES["plain"], tmp_path)
    folder = RunFolder(tmp_path)
    folder.write("record.json", folder.record | {"loops": loops})
    with pytest.raises(AlgoprobeError, match=r"record\.json is damaged: loops is"):
        load_run(tmp_path)


def test_a_curriculum_that_ends_ends_the_run(tmp_path):
    experiment = RECIPES["curriculum that ends"]
    run(experiment, tmp_path)
    folder, config = RunFolder(tmp_path), experiment.train.curriculum
    record, looks = folder.record, [line for line in folder.metrics if "next_stage" in line]
    steps = record["examples"] // experiment.train.batch
    assert record["status"] == "finished" and steps < experiment.train.steps and steps == looks[-1]["step"]
    stages = experiment.task.build().stages()
    assert record["passed"] == record["stage"] == stages == len(looks) and steps == stages * config.every
    assert "validation" in folder.metrics[-1] and snapshot_steps(folder, experiment.train)[-1] == steps
    assert whole_log(experiment, folder) == folder.metrics
    kept = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.name != "lock"}
    run(experiment, tmp_path)  # it is trained already, and stays as it is
    assert kept == {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.name != "lock"}


def test_each_stage_begins_with_a_new_optimiser(monkeypatch, tmp_path):
    made, build = [], loop.build
    monkeypatch.setattr(loop, "build", lambda *arguments: made.append(1) or build(*arguments))
    run(RECIPES["curriculum that ends"], tmp_path)
    assert len(made) == 1 + RunFolder(tmp_path).record["passed"]
