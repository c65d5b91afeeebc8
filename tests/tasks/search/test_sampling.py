"""Laws that every drawn row obeys, whatever the config."""

from __future__ import annotations

import itertools

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from algoprobe.core.errors import UsageError
from algoprobe.tasks.search import SearchConfig, SearchTask, reference
from algoprobe.tasks.search.leaks import _join
from algoprobe.tasks.search.reserve import cell_graphs, cells_of
from algoprobe.tasks.search.sampling import row_hashes
from algoprobe.tasks.search.solver import solve, unpack

from .rows import edges_of

ROWS = 40


@st.composite
def configs(draw: st.DrawFn) -> SearchConfig:
    n = draw(st.sampled_from((23, 32, 60, 128, 205)))
    limit = SearchConfig(n=n).lookahead_limit
    return SearchConfig(
        n=n,
        ids=draw(st.sampled_from((None, 67, 150))),
        distribution=draw(st.sampled_from(("naive", "star", "balanced"))),
        lookahead=draw(st.none() | st.integers(1, limit)),
        mix=draw(st.sampled_from(("uniform", "paper"))),
        in_degree=draw(st.sampled_from((3, 4))),
        chain=draw(st.booleans()),
        naive_share=draw(st.sampled_from((0.0, 0.5))),
        goals=draw(st.sampled_from((1, 4))),
        along_path=draw(st.sampled_from((0.0, 0.5))),
        test_edges=draw(st.sampled_from(("shuffled", "grouped"))),
        test_rows=20,
    )


@settings(max_examples=40)
@given(configs(), st.integers(0, 2**40))
def test_every_row_is_a_solved_acyclic_graph(config: SearchConfig, first: int) -> None:
    task = SearchTask(config)
    graphs = task.graphs("train", 0, np.arange(first, first + ROWS))
    answers = unpack(graphs.right, graphs.vertices)
    for row in range(ROWS):
        edges, s, g = edges_of(graphs, row), int(graphs.start[row]), int(graphs.goal[row])
        graph = nx.DiGraph(edges)
        assert nx.is_directed_acyclic_graph(graph)
        assert len(set(edges)) == len(edges) <= config.vertices
        assert min(graph) >= 1 and max(graph) <= config.largest_id
        assert len(graph) == graphs.vertex_count[row]
        assert s != g
        assert nx.shortest_path_length(graph, s, g) == graphs.path_length[row]
        right = {c for c in graph.successors(s) if nx.has_path(graph, c, g)}
        assert set(np.flatnonzero(answers[row]).tolist()) == right
        assert int(graphs.label[row]) in right
        assert reference.lookahead(edges, s, g) == graphs.lookahead[row]
        assert graphs.lookahead[row] <= config.lookahead_max or config.naive_share or config.distribution == "naive"
        assert not graphs.edges[row, len(edges) :].any()


@pytest.mark.parametrize("distribution", ["naive", "star", "balanced"])
def test_solver_agrees_with_networkx_and_the_reference(distribution: str) -> None:
    graphs = SearchTask(SearchConfig(distribution=distribution, test_rows=10)).graphs("example", 3, np.arange(150))
    found = solve(graphs.edges, graphs.edge_count, graphs.start, graphs.goal, graphs.vertices)
    for name in ("right", "lookahead", "path_length", "vertex_count"):
        assert np.array_equal(getattr(found, name), getattr(graphs, name))
    for row in range(len(graphs)):
        edges, s, g = edges_of(graphs, row), int(graphs.start[row]), int(graphs.goal[row])
        assert found.shortest_paths[row] == len(list(nx.all_shortest_paths(nx.DiGraph(edges), s, g)))
        assert found.paths[row] == reference.path_count(edges, s, g)


def test_solver_on_an_unreachable_goal() -> None:
    edges = np.array([[[1, 2], [1, 3], [4, 5]]], np.int16)
    one = np.array([1], np.int32)
    found = solve(edges, 3 * one, one, 5 * one, 6)
    assert found.path_length[0] == -1 and found.lookahead[0] == -1 and found.right[0, 0] == 0


@pytest.mark.parametrize(("n", "test_edges"), [(26, "shuffled"), (128, "grouped"), (128, "shuffled"), (230, "grouped")])
def test_test_rows_obey_their_filters(n: int, test_edges: str) -> None:
    config = SearchConfig(n=n, test_edges=test_edges, test_rows=12)
    for distribution in ("balanced", "naive", "star"):
        for cell in cells_of(distribution, config):
            graphs = cell_graphs(config, cell, 12)
            assert len(np.unique(row_hashes(graphs))) == 12
            for row in range(12):
                edges, s, g = edges_of(graphs, row), int(graphs.start[row]), int(graphs.goal[row])
                longer_than = 2 if cell.value is None else min(cell.value, 2)
                if distribution == "star":
                    longer_than = 1
                assert reference._is_test_row(edges, s, g, longer_than)
                assert cell.value is None or reference.lookahead(edges, s, g) == cell.value == graphs.lookahead[row]
                right = set(np.flatnonzero(unpack(graphs.right, graphs.vertices)[row]).tolist())
                assert right == reference.right_answers(edges, s, g) == {int(graphs.label[row])}
                if test_edges == "grouped":
                    sources = [u for u, _ in edges]
                    changes = sum(a != b for a, b in itertools.pairwise(sources))
                    assert changes + 1 == len(set(sources))


def test_the_first_test_rows_do_not_depend_on_how_many_are_reserved_or_on_training() -> None:
    few = SearchTask(SearchConfig(n=62, test_rows=30))
    many = SearchTask(SearchConfig(n=62, test_rows=60, distribution="star", lookahead=3, encoding="packed"))
    for cell in few.cells(("balanced", "naive", "star")):
        assert np.array_equal(few.test(cell, 30).source.edges, many.test(cell, 60).source.edges[:30])
    with pytest.raises(UsageError, match="test_rows"):
        few.test(few.cells()[0], 31)


@pytest.mark.parametrize("distribution", ["balanced", "star", "naive"])
def test_no_reserved_row_is_ever_drawn(distribution: str) -> None:
    config = SearchConfig(n=23, distribution=distribution, test_rows=150)
    task = SearchTask(config)
    cells = [cell for name in ("balanced", "naive", "star") for cell in cells_of(name, config)]
    test = _join([cell_graphs(config, cell, 150) for cell in cells])
    kept = {(frozenset(edges_of(test, row)), int(test.start[row]), int(test.goal[row])) for row in range(len(test))}
    dropped = 0
    for split in ("train", "validation"):
        graphs = task.graphs(split, 0, np.arange(4000))
        dropped += int(graphs.reserved_hits.sum())
        for row in range(len(graphs)):
            assert (frozenset(edges_of(graphs, row)), int(graphs.start[row]), int(graphs.goal[row])) not in kept
    assert dropped > 0


def test_tiny_sizes() -> None:
    assert SearchTask(SearchConfig(n=14, test_rows=2)).cells() == cells_of("balanced", SearchConfig(n=14))
    assert not cells_of("naive", SearchConfig(n=14)) and not cells_of("naive", SearchConfig(n=17))
    assert cells_of("naive", SearchConfig(n=20))
    for n in range(14, 21):
        for distribution in ("balanced", "star", "naive"):
            if n < 17 and distribution == "naive":
                with pytest.raises(UsageError, match="17 and more"):
                    SearchConfig(n=n, distribution=distribution)
                continue
            task = SearchTask(SearchConfig(n=n, distribution=distribution, test_rows=2))
            assert len(task.sample("train", 0, np.arange(200))) == 200
            for cell in task.cells(("balanced", "star")) + cells_of("naive", task.config):
                assert len(task.test(cell, 2)) == 2


def test_a_cell_that_cannot_be_filled_says_so() -> None:
    with pytest.raises(UsageError, match=r"task.test_rows: 1000 .* n = 14.* only 6 rows"):
        SearchTask(SearchConfig(n=14)).sample("train", 0, np.arange(1))


def test_reserving_everything_says_so() -> None:
    task = SearchTask(SearchConfig(n=14, test_rows=6))
    with pytest.raises(UsageError, match="nothing to train on"):
        task.sample("train", 0, np.arange(50))


@pytest.mark.parametrize("distribution", ["balanced", "naive", "star"])
def test_large_sizes(distribution: str) -> None:
    config = SearchConfig(n=500, distribution=distribution, test_rows=2)
    task = SearchTask(config)
    graphs = task.graphs("train", 0, np.arange(200))
    found = solve(graphs.edges, graphs.edge_count, graphs.start, graphs.goal, graphs.vertices)
    assert np.array_equal(found.right, graphs.right) and np.array_equal(found.lookahead, graphs.lookahead)
    assert np.array_equal(found.path_length, graphs.path_length)
    assert len(task.test(task.cells()[-1], 2)) == 2 and graphs.edge_count.max() > 64


def test_unknown_names_are_usage_errors() -> None:
    task = SearchTask(SearchConfig(test_rows=5))
    with pytest.raises(UsageError, match="Did you mean 'validation'"):
        task.sample("validatoin", 0, np.arange(1))
    with pytest.raises(UsageError, match="cell"):
        task.sample("test", 0, np.arange(1))
    with pytest.raises(UsageError, match="balanced"):
        task.cells(("balance",))
    with pytest.raises(UsageError, match="1 to 20"):
        task.at_stage(21)
