"""Rows and sums that teach multiplication, and the committed models; seconds to a minute each; `make test-slow`."""

from __future__ import annotations

import numpy as np
import pytest

from algoprobe.studies import mult_tree
from algoprobe.studies.comparison import changed
from algoprobe.studies.registry import find_preset
from algoprobe.training.config import Experiment
from algoprobe.training.evaluation import evaluate_folder
from tests.training.tiny import run

pytestmark = pytest.mark.slow


def cells(experiment: Experiment, folder) -> dict[int | None, float]:
    """Accuracy of the whole product (None) and of each digit."""
    run(experiment, folder, checkpoint_seconds=1e9)
    return {cell["value"]: cell["accuracy"] for cell in evaluate_folder(folder, rows=1000)["cells"]}


def small(name: str) -> Experiment:
    """A preset on three digits times three."""
    few = {"examples": 120_000, "validate_every": 60_000}
    return changed(find_preset(name).make(), task={"digits": 3}, model={"width": 64}, train=few)


def test_sparse_rows_and_sums_teach_what_plain_training_misses(tmp_path):
    solved = cells(small("mult-auxiliary"), tmp_path / "auxiliary")
    plain = cells(small("mult-plain"), tmp_path / "plain")
    assert solved[None] >= 0.9
    assert plain[None] <= 0.75 and plain[2] <= 0.75 and min(plain[0], plain[1], plain[5]) >= 0.95


@pytest.mark.parametrize(
    ("name", "product", "middle"),
    [
        ("mult-4x4", (0.99, 1.0), (0.99, 1.0)),
        ("mult-4x4-plain", (0.0, 0.01), (0.0, 0.2)),
        ("mult-plain", (0.0, 0.15), (0.1, 0.4)),
        ("mult-auxiliary", (0.95, 1.0), (0.95, 1.0)),
        ("mult-implicit", (0.95, 1.0), (0.95, 1.0)),
    ],
)
def test_the_committed_models_solve_it_or_miss_the_middle(name: str, product: tuple, middle: tuple):
    found = {cell["value"]: cell for cell in evaluate_folder(f"zoo:{name}", rows=2000)["cells"]}
    assert product[0] <= found[None]["accuracy"] <= product[1] and found[None]["shortcut"] < 0.01
    assert middle[0] <= found[3]["accuracy"] <= middle[1]
    assert min(found[k]["accuracy"] for k in (0, 1, 7)) >= 0.95


def test_the_solving_model_needs_every_digit_and_the_failing_one_none():
    from algoprobe.options import LensOptions
    from algoprobe.probes.inputs import Inputs
    from algoprobe.studies.lens_kinds import Subject
    from algoprobe.training.evaluation import open_run

    for name, least, most in (("mult-auxiliary", 7, 8), ("mult-plain", 0, 1)):
        opened = open_run(f"zoo:{name}")
        batch = opened.task.test(opened.task.cells()[0], 200)
        options = LensOptions(kind="tree", run=f"zoo:{name}")
        subject = Subject(opened.model, opened.task, batch, Inputs.of(batch, opened.model), opened.loops, options)
        seen = mult_tree.tree_reads(subject)
        lost = [cell["lost"] for cell in mult_tree.of_middle(mult_tree.needed(seen), seen.middle)]
        assert least <= np.sum(np.array(lost) >= mult_tree.VITAL) <= most
