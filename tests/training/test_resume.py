"""Kill -9 at any moment, run the same again: the same bits."""

from __future__ import annotations

import multiprocessing
import random
import signal
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file

from algoprobe.core.run import RunFolder

from .tiny import RECIPES, run

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["algoprobe.training.loop", "algoprobe.tasks.search.task", "tests.training.tiny"])
TIMES = ("rate", "cpu_seconds", "wall_seconds")


def in_a_process(*arguments) -> int:
    """Exit code of `run` in a fresh process."""
    process = CONTEXT.Process(target=run, args=arguments)
    process.start()
    process.join(120)
    return process.exitcode


def with_precision(name: str, precision: str):
    experiment = RECIPES[name]
    return replace(experiment, train=replace(experiment.train, precision=precision))


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    """Folder of an undisturbed run of each recipe, made once."""
    made = {}

    def folder(name: str, precision: str) -> RunFolder:
        if (name, precision) not in made:
            path = tmp_path_factory.mktemp("reference")
            assert in_a_process(with_precision(name, precision), path, None, 1e9) == 0
            made[name, precision] = RunFolder(path)
        return made[name, precision]

    return folder


def assert_same_run(a: RunFolder, b: RunFolder) -> None:
    """Bit-equal weights and equal metrics, times apart."""
    one, two = load_file(a.file("model.safetensors")), load_file(b.file("model.safetensors"))
    assert one.keys() == two.keys()
    assert all(torch.equal(one[name].view(torch.int32), two[name].view(torch.int32)) for name in one)
    lines = [[{k: v for k, v in line.items() if k not in TIMES} for line in folder.metrics] for folder in (a, b)]
    assert lines[0] == lines[1]
    assert a.record["examples"] == b.record["examples"] and a.record["status"] == b.record["status"] == "finished"


def moments(name: str) -> list[tuple[str, int]]:
    """A random step (drawn once for each recipe), inside both parts of a checkpoint, at a rename, at a new stage."""
    found = [("step", random.Random(name).randint(2, 29)), ("state.pt", 5), ("model.safetensors", 9), ("rename", 25)]
    return found + ([("stage", 2)] if "curriculum" in name or "loops" in name else [])


CASES = [(name, "bfloat16", kill) for name in RECIPES for kill in moments(name)]
CASES += [(name, "float32", kill) for name in RECIPES for kill in moments(name)[:1]]


@pytest.mark.parametrize(
    "name, precision, kill", CASES, ids=lambda v: "-".join(map(str, v)) if isinstance(v, tuple) else v
)
def test_killed_and_started_again_ends_in_the_same_bits(name, precision, kill, reference, tmp_path):
    experiment = with_precision(name, precision)
    assert in_a_process(experiment, tmp_path, kill) == -signal.SIGKILL
    assert in_a_process(experiment, tmp_path) == 0
    assert_same_run(reference(name, precision), RunFolder(tmp_path))
    assert not list(tmp_path.glob(".*.tmp"))


def test_a_run_killed_again_and_again_gets_there(reference, tmp_path):
    experiment = with_precision("curriculum", "bfloat16")
    for _ in range(10):
        if in_a_process(experiment, tmp_path, ("step", 5)) == 0:
            break
    assert_same_run(reference("curriculum", "bfloat16"), RunFolder(tmp_path))


def test_the_curriculum_really_moves(reference):
    stages = [line["next_stage"] for line in reference("curriculum", "bfloat16").metrics if "next_stage" in line]
    assert len(set(stages)) >= 2
