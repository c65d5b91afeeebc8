"""Rows of tokens: their layout, and the way back to graphs."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from algoprobe.core.errors import UsageError
from algoprobe.tasks.search import SearchConfig, SearchTask
from algoprobe.tasks.search.encoding import decode
from algoprobe.tasks.search.solver import unpack

from .rows import edges_of


def task(encoding: str, **fields: object) -> SearchTask:
    return SearchTask(SearchConfig(encoding=encoding, **{"test_rows": 10, **fields}))


def test_triples_layout() -> None:
    made = task("triples")
    batch = made.sample("train", 0, np.arange(64))
    assert (made.sizes.vocabulary, made.sizes.length, made.sizes.outputs, made.sizes.fields) == (46, 128, 46, 1)
    assert made.sizes.align == "right" and batch.tokens.dtype == np.int16 and batch.targets.dtype == np.int64
    graphs = batch.source
    assert batch.tokens.shape == (64, 3 * graphs.edge_count.max() + 5, 1)
    for row in range(64):
        s, g = int(graphs.start[row]), int(graphs.goal[row])
        expected = [44] * (batch.tokens.shape[1] - int(batch.lengths[row]))
        for u, v in edges_of(graphs, row):
            expected += [43, u, v]
        expected += [45, s, g, 42, s]
        assert batch.tokens[row, :, 0].tolist() == expected


def test_a_row_of_41_edges_fills_128_columns() -> None:
    batch = task("triples").sample("train", 0, np.arange(4096))
    assert batch.tokens.shape[1] == 128 and batch.lengths.max() == 128


def test_packed_layout() -> None:
    made = task("packed")
    batch = made.sample("train", 0, np.arange(64))
    assert (made.sizes.vocabulary, made.sizes.length, made.sizes.outputs, made.sizes.fields) == (83, 42, 42, 2)
    graphs = batch.source
    for row in range(64):
        padding = [[0, 0]] * (batch.tokens.shape[1] - int(batch.lengths[row]))
        query = [[41 + int(graphs.start[row]), 41 + int(graphs.goal[row])]]
        assert batch.tokens[row].tolist() == padding + [list(edge) for edge in edges_of(graphs, row)] + query


@given(
    st.sampled_from(("triples", "packed")),
    st.sampled_from(("balanced", "naive", "star")),
    st.sampled_from((26, 128, 230)),
    st.integers(0, 10**9),
)
def test_round_trip(encoding: str, distribution: str, n: int, first: int) -> None:
    batch = task(encoding, n=n, distribution=distribution).sample("train", 0, np.arange(first, first + 16))
    graphs, back = batch.source, decode(batch.tokens, encoding, batch.source.vertices)
    for field in dataclasses.fields(graphs):
        if field.name not in ("label", "attempts", "reserved_hits"):
            assert np.array_equal(getattr(back, field.name), getattr(graphs, field.name)), field.name
    smallest = unpack(graphs.right, graphs.vertices).argmax(1)
    assert np.array_equal(back.label, smallest)


def test_both_encodings_hold_the_same_rows() -> None:
    triples, packed = (task(encoding).sample("train", 7, np.arange(200)) for encoding in ("triples", "packed"))
    assert np.array_equal(triples.source.edges, packed.source.edges)
    assert np.array_equal(triples.targets, packed.targets)
    assert np.array_equal(triples.accepted[:, :, :42], packed.accepted) and not triples.accepted[:, :, 42:].any()
    assert np.array_equal(packed.accepted[:, 0], unpack(packed.source.right, 41))
    assert np.take_along_axis(triples.accepted[:, 0], triples.targets, 1).all()
    assert set(triples.axes) >= {"lookahead", "path_length", "edges", "vertices"}


def test_grade_accepts_every_right_answer_and_no_other() -> None:
    made = task("packed", distribution="naive")
    batch = made.sample("train", 0, np.arange(300))
    for answer in range(42):
        graded = made.grade(batch, np.full((300, 1), answer))
        assert graded.shape == (300,) and np.array_equal(graded, batch.accepted[:, 0, answer])
    assert made.grade(batch, batch.targets).all()


@pytest.mark.parametrize("encoding", ["triples", "packed"])
def test_malformed_rows_are_refused(encoding: str) -> None:
    tokens = task(encoding).sample("train", 0, np.arange(4)).tokens.astype(np.int64)
    for column, value in ((-1, 0), (-1, 99), (-2, 99)):
        wrong = tokens.copy()
        wrong[2, column] = value
        with pytest.raises(UsageError, match="row 2"):
            decode(wrong, encoding, 41)
    with pytest.raises(UsageError, match="packed"):
        decode(tokens, "pack", 41)


def test_answers_of_any_array_type_are_graded_and_logits_are_refused() -> None:
    import torch

    from algoprobe.core.errors import UsageError
    from algoprobe.tasks.search import SearchTask

    task = SearchTask(SearchConfig(n=35, test_rows=5, encoding="packed"))
    batch = task.sample("train", 0, np.arange(16))
    tensors = next(iter(task.dataset(16)))
    for answers in (batch.targets, batch.targets[:, 0], torch.from_numpy(batch.targets), batch.targets.tolist()):
        assert task.grade(batch, answers).all() and task.grade(tensors, answers).all()
    for wrong in (np.zeros((16, 11), np.int64), np.zeros(16), np.zeros(15, np.int64)):
        with pytest.raises(UsageError, match=r"answers: .*whole numbers of shape \[16\]"):
            task.grade(batch, wrong)
