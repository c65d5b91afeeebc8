"""What is drawn has the distribution it should: against a plain reference and against measured statistics."""

from __future__ import annotations

import random

import numpy as np
import pytest

from algoprobe.tasks.search import SearchConfig, SearchTask, reference
from algoprobe.tasks.search.baselines import baselines
from algoprobe.tasks.search.card import degrees
from algoprobe.tasks.search.graphs import Graphs
from algoprobe.tasks.search.solver import solve, unpack

from .rows import graphs_from

V = 41
KERNEL_ROWS, REFERENCE_ROWS = 40_000, 2_500


def features(graphs: Graphs) -> dict[str, np.ndarray]:
    """Numbers of each row whose distributions are compared."""
    at = np.arange(len(graphs))
    entering, leaving = degrees(graphs, 1), degrees(graphs, 0)
    return {
        "edges": graphs.edge_count,
        "vertices": graphs.vertex_count,
        "lookahead": graphs.lookahead,
        "path_length": graphs.path_length,
        "children": leaving[at, graphs.start],
        "parents": entering[at, graphs.start],
        "parents_of_goal": entering[at, graphs.goal],
        "children_of_goal": leaving[at, graphs.goal],
        "largest_in_degree": entering.max(1),
        "largest_out_degree": leaving.max(1),
        "answers": unpack(graphs.right, graphs.vertices).sum(1),
    }


def sampled(rows: int = KERNEL_ROWS, **fields: object) -> Graphs:
    return SearchTask(SearchConfig(**{"test_rows": 50, **fields})).graphs("card", 1, np.arange(rows))


def same_distribution(kernel: dict[str, np.ndarray], plain: dict[str, np.ndarray]) -> None:
    """Largest distance of the distribution functions below the 1e-4 point of Kolmogorov and Smirnov."""
    for name, ours in kernel.items():
        theirs = plain[name]
        top = int(max(ours.max(), theirs.max())) + 1
        gap = np.abs(
            np.cumsum(np.bincount(ours, minlength=top)) / len(ours)
            - np.cumsum(np.bincount(theirs, minlength=top)) / len(theirs)
        ).max()
        assert gap < 2.23 * np.sqrt(1 / len(ours) + 1 / len(theirs)), name


def named(rows: list) -> Graphs:
    return graphs_from([([(u + 1, v + 1) for u, v in edges], s + 1, g + 1) for edges, s, g in rows], V)


@pytest.mark.parametrize("in_degree", [3, 4])
def test_naive_equals_the_reference(in_degree: int) -> None:
    rng = random.Random(1)
    plain = named([reference.naive(rng, V, in_degree) for _ in range(REFERENCE_ROWS)])
    same_distribution(features(sampled(distribution="naive", in_degree=in_degree)), features(plain))


@pytest.mark.parametrize(("mix", "chain"), [("uniform", True), ("paper", True), ("uniform", False)])
def test_balanced_equals_the_reference(mix: str, chain: bool) -> None:
    rng = random.Random(2)
    rows = []
    for _ in range(REFERENCE_ROWS):
        wanted = rng.randint(0, 20) if mix == "uniform" else None
        rows.append(reference.balanced(rng, V, wanted, 20, chain))
    same_distribution(features(sampled(mix=mix, chain=chain)), features(named(rows)))


def test_star_equals_the_reference() -> None:
    rng = random.Random(3)
    plain = named([reference.star(rng, V, 20) for _ in range(REFERENCE_ROWS)])
    same_distribution(features(sampled(distribution="star")), features(plain))


@pytest.mark.parametrize("value", [1, 4, 12, None])
def test_test_rows_equal_the_reference(value: int | None) -> None:
    rng = random.Random(4)
    task = SearchTask(SearchConfig(test_rows=4000))
    (cell,) = [cell for cell in task.cells() if cell.value == value]
    rows = 600
    plain = [
        reference.naive(rng, V, test=True) if value is None else reference.balanced(rng, V, value, 20, test=True)
        for _ in range(rows)
    ]
    same_distribution(features(task.test(cell, 4000).source), features(named(plain)))


def test_naive_statistics() -> None:
    """As measured on the authors' generator, which wrote one row for each shortest path: its means weight graphs so."""
    graphs = sampled(distribution="naive")
    found = solve(graphs.edges, graphs.edge_count, graphs.start, graphs.goal, V)
    weight = found.shortest_paths / found.shortest_paths.sum()
    measured, scores = features(graphs), baselines(graphs)
    assert (weight * measured["edges"]).sum() == pytest.approx(18.0, abs=0.4)
    assert (weight * measured["vertices"]).sum() == pytest.approx(13.4, abs=0.3)
    assert (weight * (measured["answers"] > 1)).sum() == pytest.approx(0.25, abs=0.015)
    assert (weight * scores["chance"]).sum() == pytest.approx(0.545, abs=0.015)
    assert (weight * scores["goal_if_adjacent"]).sum() == pytest.approx(0.775, abs=0.015)
    assert (weight * scores["most_children"]).sum() == pytest.approx(0.76, abs=0.015)
    assert (weight * scores["deepest_subtree"]).sum() == pytest.approx(0.78, abs=0.015)
    shares = np.bincount(graphs.lookahead, weights=weight, minlength=10)
    assert shares[:5] == pytest.approx([0.16, 0.52, 0.24, 0.075, 0.01], abs=0.025)
    assert shares[7:].sum() < 0.001
    assert measured["largest_in_degree"].max() == 3
    # One row a graph, as sampled.
    assert scores["chance"].mean() == pytest.approx(0.538, abs=0.008)


def test_balanced_statistics() -> None:
    """As measured on the authors' generator."""
    graphs = sampled()
    measured, scores = features(graphs), baselines(graphs)
    assert measured["edges"].mean() == pytest.approx(30.4, abs=0.4)
    assert measured["vertices"].mean() == pytest.approx(30.8, abs=0.4)
    assert measured["children"].mean() == pytest.approx(4.3, abs=0.2)
    assert measured["answers"].mean() == pytest.approx(1.05, abs=0.02)
    assert (measured["parents"] > 0).mean() == pytest.approx(0.38, abs=0.015)
    assert scores["chance"].mean() == pytest.approx(0.40, abs=0.01)
    assert scores["goal_if_adjacent"].mean() == pytest.approx(0.44, abs=0.01)
    assert scores["most_children"].mean() == pytest.approx(0.41, abs=0.02)
    assert scores["deepest_subtree"].mean() == pytest.approx(0.27, abs=0.02)
    entering = degrees(graphs, 1)
    assert (entering == 1).sum() / (entering > 0).sum() == pytest.approx(0.98, abs=0.01)
    shares = np.bincount(graphs.lookahead, minlength=21) / len(graphs)
    assert shares == pytest.approx(np.full(21, 1 / 21), abs=0.006)


def test_paper_mix_shares() -> None:
    """The mix of the paper's runs, as measured on the authors' generator."""
    shares = np.bincount(sampled(mix="paper").lookahead, minlength=21) / KERNEL_ROWS
    assert shares[0] == pytest.approx(0.04, abs=0.01)
    assert shares[1:8] == pytest.approx(np.full(7, 0.065), abs=0.015)
    assert shares[8:11] == pytest.approx(np.full(3, 0.05), abs=0.01)
    assert shares[11:20] == pytest.approx(np.full(9, 0.036), abs=0.013)
    assert shares[20] == pytest.approx(0.05, abs=0.01)
    restricted = np.bincount(sampled(mix="paper", lookahead=12).lookahead, minlength=13) / KERNEL_ROWS
    assert restricted[1:8] == pytest.approx(np.full(7, 0.09), abs=0.02)
    assert restricted[8:13].min() > 0.045 and restricted[8:13].max() < 0.085


def test_chance_on_test_rows() -> None:
    """As measured on the authors' test rows; naive was 0.37 there, ours and the reference sampler's is 0.354."""
    expected = [0.08, 0.12, 0.16, 0.20, 0.23, 0.28, 0.31, 0.31, 0.35, 0.34, 0.41, 0.41, 0.40, *[0.50] * 7]
    task = SearchTask(SearchConfig())
    for cell in task.cells():
        chance = task.baselines(task.test(cell, 1000))["chance"].mean()
        assert chance == pytest.approx(0.354 if cell.value is None else expected[cell.value - 1], abs=0.022)


def test_naive_share() -> None:
    mixed = sampled(distribution="star", naive_share=0.25)
    # Stars have in-degree 1; nearly every naive graph of some size has more.
    large = mixed.vertex_count >= 6
    naive = sampled(distribution="naive")
    star = sampled(distribution="star")
    expected = 0.25 * (naive.vertex_count >= 6).mean() + 0.75 * (star.vertex_count >= 6).mean()
    assert large.mean() == pytest.approx(expected, abs=0.01)
    many = degrees(mixed, 1).max(1) > 1
    assert many.mean() == pytest.approx(0.25 * (degrees(naive, 1).max(1) > 1).mean(), abs=0.01)


def test_ids_and_edge_order_are_uniform() -> None:
    graphs = sampled()
    starts = np.bincount(graphs.start, minlength=V + 1)[1:] / len(graphs)
    assert starts == pytest.approx(np.full(V, 1 / V), abs=0.005)
    # The first edge into the goal's branch is no likelier to stand early than late.
    leaves_start = graphs.edges[:, :, 0] == graphs.start[:, None]
    where = (np.arange(V) / (graphs.edge_count[:, None] - 1).clip(1))[leaves_start]
    assert where.mean() == pytest.approx(0.5, abs=0.01)
    several = unpack(graphs.right, V).sum(1) > 1
    smallest = np.array([row.argmax() for row in unpack(graphs.right, V)[several]])
    two = unpack(graphs.right, V)[several].sum(1) == 2
    assert (graphs.label[several][two] == smallest[two]).mean() == pytest.approx(0.5, abs=0.06)
