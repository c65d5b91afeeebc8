from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from safetensors.torch import load_file

from algoprobe.core.errors import AlgoprobeError
from algoprobe.core.run import RunFolder
from algoprobe.training.config import TrainConfig
from algoprobe.training.load import load_run
from algoprobe.training.snapshots import load_snapshot, marks, snapshot_file, snapshot_steps

from .tiny import run, tiny


@pytest.mark.parametrize(("steps", "count"), [(1000, 6), (200, 2), (10_000, 40), (7, 3)])
def test_marks_are_a_constant_factor_apart_and_end_at_the_end(steps, count):
    found = sorted(marks(TrainConfig(examples=steps * 128, snapshots=count)))
    assert found[0] == max(1, round(steps / 200)) and found[-1] == steps and len(found) <= count
    factor = (steps / max(1.0, steps / 200)) ** (1 / (count - 1))
    for one, two in pairwise(found):
        assert two / one == pytest.approx(factor, abs=(1 + factor) / one)


def test_few_or_no_snapshots():
    assert marks(TrainConfig(snapshots=0)) == frozenset()
    assert marks(TrainConfig(examples=1280, snapshots=1)) == {10}


def test_weights_are_kept_on_the_way(tmp_path):
    run(tiny(snapshots=4), tmp_path)
    folder = RunFolder(tmp_path)
    steps = snapshot_steps(folder, tiny(snapshots=4).train)
    assert steps == sorted(marks(tiny(snapshots=4).train)) == [1, 3, 10, 30]
    last, final = load_file(snapshot_file(folder, 30)), load_file(folder.file("model.safetensors"))
    assert all(torch.equal(last[name], final[name]) for name in final)
    opened = load_run(tmp_path)
    before = opened.model.blocks[0].mlp.input.weight.clone()
    load_snapshot(opened, 1)
    assert not torch.equal(before, opened.model.blocks[0].mlp.input.weight)
    # The state after ten steps of a run that ends there is that of the snapshot, but for the learning rate's decay.
    run(tiny(examples=160, snapshots=0, schedule="constant"), tmp_path / "short")
    short = load_file(tmp_path / "short" / "model.safetensors")
    assert all(torch.equal(short[name], value) for name, value in load_file(snapshot_file(folder, 10)).items())


def test_a_run_without_snapshots_says_so(tmp_path):
    run(tiny(), tmp_path)
    with pytest.raises(AlgoprobeError, match="has no snapshots; train with"):
        snapshot_steps(RunFolder(tmp_path), tiny().train)


def test_a_lost_snapshot_is_noticed(tmp_path):
    run(tiny(snapshots=4), tmp_path)
    snapshot_file(RunFolder(tmp_path), 3).unlink()
    with pytest.raises(AlgoprobeError, match="has lost the snapshot after step 3"):
        snapshot_steps(RunFolder(tmp_path), tiny(snapshots=4).train)


def test_a_file_in_the_way_of_snapshots_is_known_before_any_work(tmp_path):
    (tmp_path / "snapshots").write_text("")
    with pytest.raises(AlgoprobeError, match="a file of that name is in the way"):
        run(tiny(snapshots=4), tmp_path)
    assert RunFolder(tmp_path).metrics == []
