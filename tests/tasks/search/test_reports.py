"""Baselines, certificates, leak report, card, drawing."""

from __future__ import annotations

import json
import random
import xml.etree.ElementTree as ElementTree

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from algoprobe.tasks.search import SearchConfig, SearchTask
from algoprobe.tasks.search.baselines import baselines
from algoprobe.tasks.search.canonical import certificates, isomorphic
from algoprobe.tasks.search.drawing import draw
from algoprobe.tasks.search.graphs import Graphs
from algoprobe.tasks.search.reference import right_answers
from algoprobe.tasks.search.sampling import row_hashes

from .rows import edges_of, graphs_from


@pytest.mark.parametrize("distribution", ["naive", "balanced", "star"])
def test_baselines_against_brute_force(distribution: str) -> None:
    graphs = SearchTask(SearchConfig(distribution=distribution, test_rows=10)).graphs("train", 0, np.arange(200))
    found = baselines(graphs)
    for row in range(len(graphs)):
        edges, s, g = edges_of(graphs, row), int(graphs.start[row]), int(graphs.goal[row])
        graph = nx.DiGraph(edges)
        children, right = list(graph.successors(s)), right_answers(edges, s, g)
        chance = len(right) / len(children)
        assert found["chance"][row] == pytest.approx(chance)
        assert found["goal_if_adjacent"][row] == pytest.approx(1.0 if g in children else chance)
        depth = {c: nx.dag_longest_path_length(graph.subgraph({c} | nx.descendants(graph, c))) for c in children}
        for name, score in (("most_children", dict(graph.out_degree(children))), ("deepest_subtree", depth)):
            best = [c for c in children if score[c] == max(score.values())]
            assert found[name][row] == pytest.approx(len(right & set(best)) / len(best))


def renamed(graphs: Graphs, rng: random.Random) -> Graphs:
    """The same graphs with other names and edge order."""
    V, rows = graphs.vertices, []
    for row in range(len(graphs)):
        names = [0, *rng.sample(range(1, V + 1), V)]
        edges = [(names[u], names[v]) for u, v in edges_of(graphs, row)]
        rng.shuffle(edges)
        rows.append((edges, names[int(graphs.start[row])], names[int(graphs.goal[row])]))
    return graphs_from(rows, V)


@given(st.sampled_from(("naive", "balanced", "star")), st.sampled_from((26, 128, 230)), st.integers(0, 10**6))
def test_certificates_do_not_see_names_or_order(distribution: str, n: int, first: int) -> None:
    task = SearchTask(SearchConfig(n=n, distribution=distribution, test_rows=10))
    graphs = task.graphs("train", 0, np.arange(first, first + 8))
    other = renamed(graphs, random.Random(first))
    assert np.array_equal(certificates(graphs), certificates(other))
    assert all(isomorphic(graphs, other, row, row) for row in range(8))


def test_certificates_equal_isomorphism_on_small_graphs() -> None:
    graphs = SearchTask(SearchConfig(n=32, distribution="naive", test_rows=10)).graphs("train", 0, np.arange(70))
    marks = certificates(graphs)
    pairs = [(i, j) for i in range(70) for j in range(i)]
    same = [marks[i] == marks[j] for i, j in pairs]
    assert same == [isomorphic(graphs, graphs, i, j) for i, j in pairs]
    assert any(same) and not all(same)


def test_certificates_tell_apart_what_differs() -> None:
    path, reverse = [(1, 2), (2, 3), (1, 4)], [(2, 1), (3, 2), (4, 1)]
    rows = [
        (path, 1, 3),
        (path, 1, 2),
        (path, 1, 4),
        (reverse, 3, 1),
        ([(1, 2), (2, 3), (1, 4), (4, 3)], 1, 3),
        ([(1, 2), (2, 3), (1, 4), (2, 4)], 1, 3),
    ]
    assert len(set(certificates(graphs_from(rows, 6)).tolist())) == len(rows)


def test_row_hash_ignores_edge_order_only() -> None:
    edges = [(1, 2), (2, 3), (1, 4)]
    rows = [(edges, 1, 3), (edges[::-1], 1, 3), (edges, 1, 2)]
    rows += [([(1, 2), (2, 3), (1, 5)], 1, 3), ([(2, 1), *edges[1:]], 2, 3)]
    first, reordered, *others = row_hashes(graphs_from(rows, 6)).tolist()
    assert first == reordered and len({first, *others}) == len(others) + 1


def test_leak_report() -> None:
    report = SearchTask(SearchConfig(n=26, test_rows=100)).leaks(0, 3000)
    json.dumps(report)
    assert report["training_rows"] == 3000 and report["draws_dropped_as_test_rows"] > 0
    assert report["equal"] == report["equal_up_to_edge_order"] == 0
    assert report["equal_up_to_renaming"] > 2000
    assert report["renaming_confirmed"]["checked"] == report["renaming_confirmed"]["isomorphic"] == 50
    assert sum(rows for rows, _ in report["renaming_by_vertices"].values()) == 3000
    assert sum(hits for _, hits in report["renaming_by_vertices"].values()) == report["equal_up_to_renaming"]
    assert all(cell["distinct_up_to_edge_order"] == cell["rows"] == 100 for cell in report["test_rows_by_cell"])
    assert report["reserved_rows"] == 100 * len(report["test_rows_by_cell"])


def test_the_leak_report_sees_leaks() -> None:
    """Rows of a stream that knows no reserved rows do leak at this size, and the report's own comparison finds them."""
    from algoprobe.tasks.search.leaks import _join, _lists, _sorted_lists
    from algoprobe.tasks.search.reserve import cell_graphs
    from algoprobe.tasks.search.sampling import draw_graphs

    task = SearchTask(SearchConfig(n=23, test_rows=100))
    test = _join([cell_graphs(task.config, cell, 100) for cell in task.cells()])
    free, _ = draw_graphs(task.plan, 1, np.arange(20000))
    by_order = np.isin(_sorted_lists(free), _sorted_lists(test)).sum()
    exactly = np.isin(_lists(free), _lists(test)).sum()
    assert 0 < exactly < by_order
    assert by_order == np.isin(row_hashes(free), row_hashes(test)).sum()


@pytest.mark.parametrize("distribution", ["naive", "balanced", "star"])
def test_card(distribution: str) -> None:
    task = SearchTask(SearchConfig(distribution=distribution, test_rows=10))
    card = json.loads(json.dumps(task.card(0, 2000)))
    assert card["vertices"] == 41 and card["lookahead_limit"] == 20 and card["rows"] == 2000
    for name in ("edges", "vertices", "children_of_start", "path_length", "lookahead", "right_answers", "attempts"):
        assert sum(card["histograms"][name].values()) == 2000
    vertices = card["means"]["vertices"] * 2000
    for name in ("in_degree", "out_degree"):
        assert sum(card["histograms"][name].values()) == round(vertices)
    assert {"chance", "goal_if_adjacent", "most_children", "deepest_subtree"} == set(card["baselines"])


@pytest.mark.parametrize("distribution", ["naive", "balanced", "star"])
def test_drawings_are_well_formed(distribution: str) -> None:
    task = SearchTask(SearchConfig(distribution=distribution, test_rows=10))
    batch = task.sample("example", 0, np.arange(20))
    for row in range(20):
        worked = json.loads(json.dumps(task.worked(batch, row, batch.targets[row])))
        tree = ElementTree.fromstring(task.draw(worked))
        texts = ["".join(node.itertext()) for node in tree.iter("{http://www.w3.org/2000/svg}text")]
        vertices = {v for edge in worked["edges"] for v in edge}
        assert {str(v) for v in vertices} <= set(texts)
        assert any("right" in text for text in texts)
        drawn = [node for node in tree.iter() if node.get("class", "").startswith("edge")]
        assert len(drawn) == len(worked["edges"]) + 1


def test_drawing_marks_wrong_and_foreign_answers() -> None:
    row = {"edges": [[1, 2], [1, 3], [2, 4]], "start": 1, "goal": 4, "accepted": [2]}
    assert "ring" not in draw(row).split("</style>")[1]
    wrong = draw({**row, "answer": 3})
    assert "wrong" in wrong.split("</style>")[1] and wrong.count('class="ring wrong"') == 2
    # A token that is no vertex of the graph is named in the legend alone.
    assert draw({**row, "answer": 44}).count('class="ring wrong"') == 1
    assert draw({**row, "answer": 2}) == draw({**row, "answer": 2})
