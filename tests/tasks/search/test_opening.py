"""Partners, kinds and targets of search rows against plain graph algorithms."""

from __future__ import annotations

import itertools

import networkx
import numpy as np
import pytest

from algoprobe.core.errors import UsageError
from algoprobe.tasks.openable import Openable
from algoprobe.tasks.search import SearchConfig, SearchTask
from algoprobe.tasks.search.encoding import decode
from algoprobe.tasks.search.opening import PADDING, QUERY, distances, edge_at


def task_of(encoding: str, distribution: str = "balanced") -> SearchTask:
    return SearchTask(SearchConfig(n=65, encoding=encoding, distribution=distribution, test_rows=20))


def graph_of(source, row: int) -> networkx.DiGraph:
    graph = networkx.DiGraph()
    graph.add_edges_from(source.edges[row, : source.edge_count[row]].tolist())
    return graph


@pytest.mark.parametrize("encoding", ["triples", "packed"])
@pytest.mark.parametrize("distribution", ["balanced", "naive", "star"])
def test_partners_differ_in_their_goal_alone_and_share_no_answer(encoding, distribution):
    task = task_of(encoding, distribution)
    assert isinstance(task, Openable)
    pair = task.pair(task.sample("validation", 0, np.arange(60)))
    clean, other = pair.clean, pair.corrupted
    assert clean.tokens.shape == other.tokens.shape and (clean.lengths == other.lengths).all()
    assert not (clean.accepted & other.accepted).any() and other.accepted.any((1, 2)).all()
    assert ((clean.tokens != other.tokens).sum((1, 2)) == 1).all()
    again = decode(other.tokens, encoding, 20)
    assert (again.right == other.source.right).all() and (again.lookahead == other.axes["lookahead"]).all()
    assert (again.path_length == other.source.path_length).all() and (again.label == other.targets[:, 0]).all()
    total = sum(mask.astype(int) for mask in pair.columns.values())
    real = np.arange(clean.tokens.shape[1]) >= clean.tokens.shape[1] - clean.lengths[:, None]
    assert (total == real).all()
    each = 3 if encoding == "triples" else 1
    assert (pair.columns["corrupted path"].sum(1) >= each * other.source.path_length).all()
    if distribution == "star":
        assert (clean.source.path_length == other.source.path_length).all()


def test_distances_and_kinds_are_those_of_the_graph():
    task = task_of("packed", "naive")
    batch = task.sample("validation", 0, np.arange(60))
    source, kinds = batch.source, task.column_kinds(batch)
    ahead, behind = distances(source, "start"), distances(source, "goal")
    at = edge_at(source, "packed", batch.tokens.shape[1])
    assert (kinds["query"] == (at == QUERY)).all() and (kinds["query"].sum(1) == 1).all()
    assert (sum(kind.astype(int) for kind in kinds.values()) == (at != PADDING)).all()
    for row in range(len(batch)):
        graph, start, goal = graph_of(source, row), int(source.start[row]), int(source.goal[row])
        from_start = networkx.single_source_shortest_path_length(graph, start)
        to_goal = networkx.single_source_shortest_path_length(graph.reverse(), goal)
        assert [ahead[row, v] for v in range(21)] == [from_start.get(v, -1) for v in range(21)]
        assert [behind[row, v] for v in range(21)] == [to_goal.get(v, -1) for v in range(21)]
        shortest = {e for path in networkx.all_shortest_paths(graph, start, goal) for e in itertools.pairwise(path)}
        on_path = kinds["path, first edge"] | kinds["path, later edge"]
        found = {tuple(batch.tokens[row, c].tolist()) for c in np.flatnonzero(on_path[row])}
        assert found == shortest
        for c in np.flatnonzero(kinds["unreachable edge"][row]):
            assert int(batch.tokens[row, c, 0]) not in from_start


@pytest.mark.parametrize("encoding", ["triples", "packed"])
def test_column_targets_stand_once_an_edge(encoding):
    task = task_of(encoding)
    batch = task.sample("validation", 0, np.arange(40))
    targets = task.column_targets(batch)
    assert set(targets) == {f"{name}_{k}" for name in ("from_start", "to_goal", "path_back") for k in range(10)}
    for name, values in targets.items():
        assert ((~np.isnan(values)).sum(1) == batch.source.edge_count).all() or name.startswith("path_back")
    ends = targets["to_goal_0"] == 1
    assert (batch.tokens[..., -1][ends] == np.repeat(batch.source.goal, ends.sum(1))).all()
    assert (np.nan_to_num(targets["to_goal_9"]) >= np.nan_to_num(targets["to_goal_1"])).all()
    for row in range(len(batch)):
        graph, start, goal = graph_of(batch.source, row), int(batch.source.start[row]), int(batch.source.goal[row])
        paths = list(networkx.all_shortest_paths(graph, start, goal))
        for k in range(10):
            there = {path[-1 - k] for path in paths if k < len(path)}
            found = targets[f"path_back_{k}"][row]
            assert np.isnan(found[:-1]).all()
            assert {found[-1]} == there if len(there) == 1 else np.isnan(found[-1])


def test_rows_without_a_second_branch_are_left_out_and_none_at_all_is_an_error():
    task = task_of("packed", "naive")
    tokens = np.array([[[1, 2], [1, 3], [21, 22]], [[1, 2], [2, 3], [21, 22]]])
    from algoprobe.tasks.search.encoding import encode

    batch = encode(decode(tokens, "packed", 20), "packed", np.arange(2))
    pair = task.pair(batch)
    assert pair.clean.index.tolist() == [0] and pair.corrupted.source.goal.tolist() == [3]
    with pytest.raises(UsageError, match="none of the 1 rows has a branch"):
        task.pair(encode(decode(tokens[1:], "packed", 20), "packed", np.arange(1)))
