"""The two cures at demo size: small budgets, wide margins. Seconds to a minute a run; `make test-slow`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from algoprobe.studies.comparison import changed, with_seed
from algoprobe.studies.hops_two import Groups, rows_of
from algoprobe.studies.registry import find_preset
from algoprobe.training.config import Experiment
from algoprobe.training.evaluation import evaluate, open_run
from algoprobe.training.load import TrainedRun
from tests.training.tiny import run

pytestmark = pytest.mark.slow


def trained(experiment: Experiment, folder: Path) -> TrainedRun:
    run(experiment, folder, checkpoint_seconds=1e9)
    return open_run(folder)


def ood(name: str, examples: int, folder: Path) -> tuple[float, float, int]:
    """Right answers among rows with both hops OOD over three seeds, the worst ID accuracy, and how many rows."""
    right = rows = 0
    known = 1.0
    for seed in range(3):
        experiment = changed(rows_of("laptop")[name].make(), train={"examples": examples, "snapshots": 0})
        opened = trained(with_seed(experiment, seed), folder / f"{name}-{seed}")
        found = Groups.of(opened).accuracy(opened)
        right += found["ood"]["accuracy"] * found["ood"]["rows"]
        rows += found["ood"]["rows"]
        known = min(known, found["id"]["accuracy"])
    return right / rows, known, rows


def test_untied_blocks_and_a_single_pass_do_not_compose_facts_seen_only_alone(tmp_path):
    untied, known, rows = ood("2 untied layers", 1_000_000, tmp_path)
    assert untied <= 0.05 and known >= 0.9 and rows >= 100  # it composes those it has seen composed
    single, _, _ = ood("R = 1", 500_000, tmp_path)
    assert single <= 0.05


def test_the_cure_composes_them(tmp_path):
    cured, known, _ = ood("reset", 1_200_000, tmp_path)
    assert cured >= 0.8 and known >= 0.95


def test_the_cure_goes_deeper_than_in_training_one_hop_a_loop(tmp_path):
    experiment = changed(find_preset("hops-deep").make(), task={"hops_max_test": 12}, train={"examples": 400_000})
    opened = trained(experiment, tmp_path)
    cells = [cell for cell in opened.task.cells() if cell.axis == "hops"]
    found = evaluate(opened.model, opened.task, cells, 200, opened.arithmetic, range(1, 33))
    at = {(cell["value"], cell["loops"]): cell for cell in found}
    for hops in range(2, 13):
        few = [at[hops, loops] for loops in range(1, hops)]
        assert max(cell["accuracy"] - cell["chance"] for cell in few) <= 0.05
        enough = np.array([at[hops, loops]["accuracy"] for loops in range(hops, 33)])
        assert hops > 10 or enough.min() >= 0.95  # twice the five hops of training, and flat from there to 32 loops
