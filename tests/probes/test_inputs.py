from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from algoprobe.core.errors import UsageError
from algoprobe.probes.inputs import Inputs, accuracy_of, loops_of, right, target_log_probability
from algoprobe.tasks.batch import IGNORE, Batch
from tests.probes.small import PLAIN, SMALL, build


def two_columns() -> Inputs:
    """Three rows whose last two columns are read; the second row counts one of them, the third none."""
    targets = np.array([[0, 1], [IGNORE, 2], [IGNORE, IGNORE]])
    accepted = np.zeros((3, 2, 4), bool)
    accepted[0, 0, [0, 3]], accepted[0, 1, 1], accepted[1, 1, 2] = True, True, True
    tokens = np.zeros((3, 5, 1), np.int16)
    batch = Batch(tokens, np.array([5, 3, 4]), targets, accepted, {}, np.arange(3))
    return Inputs.of(batch, build(SMALL, PLAIN))


def test_columns_are_numbered_from_the_aligned_end():
    inputs = two_columns()
    assert inputs.real("right").int().tolist() == [[1] * 5, [0, 0, 1, 1, 1], [0, 1, 1, 1, 1]]
    assert inputs.real("left").int().tolist() == [[1] * 5, [1, 1, 1, 0, 0], [1, 1, 1, 1, 0]]
    assert inputs.names("right") == [-5, -4, -3, -2, -1] and inputs.names("left") == [0, 1, 2, 3, 4]
    assert inputs.read == 2 and len(inputs) == 3


def test_a_row_is_right_where_every_counted_column_has_an_accepted_answer():
    inputs = two_columns()
    logits = torch.zeros(3, 2, 4)
    logits[0, 0, 3], logits[0, 1, 1], logits[1, 1, 0] = 1, 1, 1
    assert right(logits, inputs).tolist() == [True, False, True]
    logits[0, 1, 2] = 2
    assert right(logits, inputs).tolist() == [False, False, True]
    found = target_log_probability(torch.zeros(3, 2, 4), inputs)
    assert found[:2].tolist() == pytest.approx([-math.log(4)] * 2) and found[2] == 0
    assert accuracy_of(right(logits, inputs))["accuracy"] == pytest.approx(1 / 3)


def test_loops():
    model = build(SMALL, PLAIN)
    assert loops_of(model, None) == 1 and loops_of(model, 7) == 7
    with pytest.raises(UsageError, match="loops: 0 is not possible; allowed: 1 and more"):
        loops_of(model, 0)
