"""Vertices named from a wider range than 1..V: rows, tokens, test rows, and everything that reads names."""

from __future__ import annotations

import json

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from algoprobe.core.errors import UsageError
from algoprobe.tasks.batch import FAR
from algoprobe.tasks.search import SearchConfig, SearchTask
from algoprobe.tasks.search.baselines import baselines
from algoprobe.tasks.search.encoding import decode
from algoprobe.tasks.search.leaks import _join
from algoprobe.tasks.search.reference import right_answers
from algoprobe.tasks.search.solver import solve

from .rows import edges_of, equal


def task(**fields: object) -> SearchTask:
    return SearchTask(SearchConfig(**{"n": 65, "ids": 130, "test_rows": 20, **fields}))


def test_names_are_uniform_and_distinct() -> None:
    graphs = task(ids=40).graphs("train", 0, np.arange(40_000))
    for ends in (graphs.start, graphs.goal, graphs.edges[:, 0, 0]):
        shares = np.bincount(ends, minlength=41) / len(graphs)
        assert shares[0] == 0 and shares[1:] == pytest.approx(np.full(40, 1 / 40), abs=0.004)
    for row in range(500):
        assert len({v for edge in edges_of(graphs, row) for v in edge}) == graphs.vertex_count[row] <= 20


@pytest.mark.parametrize(
    ("encoding", "vocabulary", "length", "outputs"), [("packed", 261, 21, 131), ("triples", 135, 65, 135)]
)
def test_sizes_follow_the_ids_and_length_follows_n(encoding: str, vocabulary: int, length: int, outputs: int) -> None:
    made = task(encoding=encoding)
    assert (made.sizes.vocabulary, made.sizes.length, made.sizes.outputs) == (vocabulary, length, outputs)
    batch = made.sample("train", 0, np.arange(2000))
    assert batch.tokens.max() < vocabulary and batch.tokens.shape[1] <= length
    assert batch.accepted.shape[2] == outputs and made.grade(batch, batch.targets).all()


@given(st.sampled_from(("triples", "packed")), st.sampled_from((20, 63, 64, 130, 1000)), st.integers(0, 10**9))
def test_round_trip(encoding: str, ids: int, first: int) -> None:
    batch = task(encoding=encoding, ids=ids).sample("train", 0, np.arange(first, first + 16))
    graphs, back = batch.source, decode(batch.tokens, encoding, ids)
    assert np.array_equal(back.edges[:, :20], graphs.edges) and not back.edges[:, 20:].any()
    for name in ("edge_count", "start", "goal", "right", "lookahead", "vertex_count", "path_length", "vertices"):
        assert np.array_equal(getattr(back, name), getattr(graphs, name)), name


@pytest.mark.parametrize("distribution", ["naive", "balanced", "star"])
def test_all_that_reads_names_reads_large_ones(distribution: str) -> None:
    made = task(distribution=distribution, encoding="packed")
    batch = made.sample("train", 0, np.arange(60))
    graphs, chance = batch.source, baselines(batch.source)["chance"]
    steps, kinds = made.intermediate(batch)["steps_to_goal"], made.column_kinds(batch)
    found = solve(graphs.edges, graphs.edge_count, graphs.start, graphs.goal, graphs.vertices)
    assert np.array_equal(found.right, graphs.right) and graphs.edges.max() > 64
    assert (sum(kind.astype(int) for kind in kinds.values()).sum(1) == batch.lengths).all()
    for row in range(60):
        edges, s, g = edges_of(graphs, row), int(graphs.start[row]), int(graphs.goal[row])
        graph, right = nx.DiGraph(edges), right_answers(edges, s, g)
        assert chance[row] == pytest.approx(len(right) / graph.out_degree(s))
        assert graphs.fields_of(row)["accepted"] == sorted(right)
        far = {v: nx.shortest_path_length(graph, v, g) if nx.has_path(graph, v, g) else FAR for v in graph}
        assert steps[row, -1 - len(edges) : -1].tolist() == [far[v] for _, v in edges]
        assert "<svg" in made.draw(made.worked(batch, row, batch.targets[row]))
    pair = made.pair(made.sample("train", 0, np.arange(200)))
    assert not (pair.clean.accepted & pair.corrupted.accepted).any()
    card, leaks = made.card(0, 300), made.leaks(0, 300)
    json.dumps([card, leaks])
    assert sum(card["histograms"]["in_degree"].values()) == round(300 * card["means"]["vertices"])
    assert leaks["equal"] == leaks["equal_up_to_edge_order"] == 0 and leaks["equal_up_to_renaming"] > 0
    assert leaks["renaming_confirmed"]["isomorphic"] == leaks["renaming_confirmed"]["checked"]


def test_test_rows_are_of_their_size_and_ids() -> None:
    plain, named, same = task(ids=None), task(), task(ids=20)
    for cell in plain.cells(("balanced", "naive", "star"))[::4]:
        graphs = named.test(cell, 20).source
        assert graphs.edges.max() > 20 and graphs.edges.shape == (20, 20, 2)
        assert not equal(plain.test(cell, 20).source, graphs)
        assert equal(plain.test(cell, 20).source, same.test(cell, 20).source)
        assert equal(graphs, task(distribution="star", goals=3, along_path=0.5).test(cell, 20).source)
    assert equal(plain.graphs("train", 0, np.arange(50)), same.graphs("train", 0, np.arange(50)))


def test_no_reserved_row_is_ever_drawn() -> None:
    made = task(n=20, ids=6, test_rows=300)
    test = _join([made.test(cell, 300).source for cell in made.cells(("balanced", "naive", "star"))])
    kept = {(frozenset(edges_of(test, row)), int(test.start[row]), int(test.goal[row])) for row in range(len(test))}
    graphs = made.graphs("train", 0, np.arange(5000))
    assert graphs.reserved_hits.sum() > 0
    for row in range(len(graphs)):
        assert (frozenset(edges_of(graphs, row)), int(graphs.start[row]), int(graphs.goal[row])) not in kept


def test_the_same_task_at_another_size() -> None:
    made = task(lookahead=7, encoding="packed")
    for n, limit in ((32, 4), (128, 20), (397, 64)):
        other = made.at_size(n)
        assert other.config == SearchConfig(n=n, ids=130, encoding="packed", test_rows=20)
        assert other.sizes.vocabulary == made.sizes.vocabulary and other.sizes.outputs == made.sizes.outputs
        assert other.cells()[-2].value == limit and len(other.test(other.cells()[-2], 5)) == 5
    assert task(ids=None).at_size(41).config.ids == 20
    for n, message in (
        (398, r"n: 398 .* 14 to 397 \(the vertex ids are 1 to 130"),
        (13, "n: 13"),
        (10**6, "n: 1000000"),
    ):
        with pytest.raises(UsageError, match=message):
            made.at_size(n)


def test_the_smallest_size_is_that_of_the_training_rows() -> None:
    """The message names `n`, which was asked for, and not a field of the run."""
    for share, least in ((0.0, 14), (0.2, 17)):
        task = SearchTask(SearchConfig(n=41, naive_share=share, test_rows=20))
        assert task.at_size(least).config.n == least
        with pytest.raises(UsageError, match=f"^n: {least - 1} is not possible; allowed: {least} to 43"):
            task.at_size(least - 1)
    with pytest.raises(UsageError, match=r"on: 'naive' is not possible; allowed: balanced \(at these sizes"):
        SearchTask(SearchConfig(n=14, test_rows=20)).cells(("balanced", "naive"))
    assert SearchTask(SearchConfig(n=41)).counted == ("steps_to_goal",)


@pytest.mark.parametrize("ids", [19, 1001, 0, -1])
def test_impossible_ids_are_named(ids: int) -> None:
    with pytest.raises(UsageError, match=rf"task\.ids: {ids} is not possible; allowed: 20 to 1000"):
        SearchConfig(n=65, ids=ids)
