"""Steps to the goal at every column against plain graph search."""

from __future__ import annotations

import networkx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from algoprobe.tasks.batch import FAR, IGNORE
from algoprobe.tasks.search import SearchConfig, SearchTask
from algoprobe.tasks.search.encoding import encode
from algoprobe.tasks.search.intermediate import steps_to_goal
from algoprobe.tasks.search.opening import distances

from .rows import edges_of, graphs_from


def expected(edges: list[tuple[int, int]], goal: int, encoding: str, columns: int) -> list[int]:
    """The targets of one row, by networkx."""
    graph = networkx.DiGraph(edges)
    graph.add_node(goal)
    away = networkx.single_source_shortest_path_length(graph.reverse(), goal)
    found = []
    for u, v in edges:
        found += [IGNORE, away.get(u, FAR), away.get(v, FAR)] if encoding == "triples" else [away.get(v, FAR)]
    found += [IGNORE] * (5 if encoding == "triples" else 1)
    return [IGNORE] * (columns - len(found)) + found


@given(
    st.integers(5, 150).flatmap(
        lambda V: st.tuples(
            st.just(V),
            st.permutations(range(1, V + 1)),
            st.lists(
                st.lists(st.tuples(st.integers(0, V - 1), st.integers(0, V - 1)), min_size=1, max_size=V),
                min_size=1,
                max_size=3,
            ),
            st.integers(1, V),
        )
    ),
    st.sampled_from(["triples", "packed"]),
)
def test_targets_of_any_graph(drawn, encoding):
    vertices, names, rows, goal = drawn
    rows = [sorted({(names[min(e)], names[max(e)]) for e in row if e[0] != e[1]}) for row in rows]
    rows = [row or [(names[0], names[1])] for row in rows]
    graphs = graphs_from([(row, names[0], goal) for row in rows], vertices)
    batch = encode(graphs, encoding, np.arange(len(rows)))
    columns = batch.tokens.shape[1]
    found = steps_to_goal(graphs, encoding, columns)
    assert found.dtype == np.int16
    assert found.tolist() == [expected(row, goal, encoding, columns) for row in rows]


@pytest.mark.parametrize("encoding", ["triples", "packed"])
@pytest.mark.parametrize("distribution", ["balanced", "naive", "star"])
def test_targets_of_drawn_graphs(encoding, distribution):
    task = SearchTask(SearchConfig(n=65, encoding=encoding, distribution=distribution, test_rows=20))
    batch = task.sample("train", 0, np.arange(100))
    found = task.intermediate(batch)
    assert found.keys() == {"steps_to_goal"}
    steps, graphs = found["steps_to_goal"], batch.source
    columns = batch.tokens.shape[1]
    for row in range(len(batch)):
        assert steps[row].tolist() == expected(edges_of(graphs, row), int(graphs.goal[row]), encoding, columns)
    # At every supervised column stands the vertex that its number is about.
    away = distances(graphs, "goal")
    rows, places = np.nonzero(steps != IGNORE)
    vertices = batch.tokens[rows, places, -1]
    assert (steps[rows, places] == np.where(away < 0, FAR, away)[rows, vertices]).all()
    assert (steps == FAR).any() and (steps == 0).any() and steps.min() == IGNORE


def test_targets_do_not_depend_on_the_rows_beside():
    task = SearchTask(SearchConfig(n=128, encoding="triples", test_rows=20))
    batch = task.sample("train", 0, np.arange(64))
    whole = task.intermediate(batch)["steps_to_goal"]
    for row in (0, 17, 63):
        alone = task.sample("train", 0, np.array([row]))
        steps = task.intermediate(alone)["steps_to_goal"][0]
        assert steps.tolist() == whole[row, len(whole[row]) - len(steps) :].tolist()
