"""Several goals for one graph, and goals moved along their paths."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from algoprobe.core.errors import UsageError
from algoprobe.tasks.search import SearchConfig, SearchTask, reference
from algoprobe.tasks.search.graphs import Graphs
from algoprobe.tasks.search.leaks import _join
from algoprobe.tasks.search.questions import draw_questions
from algoprobe.tasks.search.sampling import draw_graphs

from .rows import edges_of, equal

GOALS = 4


def task(**fields: object) -> SearchTask:
    return SearchTask(SearchConfig(**{"n": 65, "test_rows": 20, **fields}))


def row_of(graphs: Graphs, row: int) -> tuple[frozenset[tuple[int, int]], int, int]:
    return frozenset(edges_of(graphs, row)), int(graphs.start[row]), int(graphs.goal[row])


def allowed_goals(edges: list[tuple[int, int]], start: int, most: int, kept: set) -> set[int]:
    """Vertices that may be asked for, by the plain reference."""
    reached = reference.descendants(reference.children_of(edges), start)
    return {
        g for g in reached if reference.lookahead(edges, start, g) <= most and (frozenset(edges), start, g) not in kept
    }


@settings(max_examples=12)
@given(
    st.sampled_from(("balanced", "naive", "star")),
    st.sampled_from((23, 65, 128)),
    st.sampled_from((None, 2)),
    st.sampled_from((0.0, 0.7)),
    st.integers(0, 2**40),
)
def test_neighbouring_rows_ask_about_one_graph(distribution, n, lookahead, along_path, first) -> None:
    made = task(n=n, ids=60, distribution=distribution, lookahead=lookahead, goals=GOALS, along_path=along_path)
    graphs = made.graphs("train", 0, np.arange(GOALS * first, GOALS * (first + 15)))
    tests = _join([made.test(cell, 20).source for cell in made.cells(("balanced", "naive", "star"))])
    kept = {row_of(tests, row) for row in range(len(tests))}
    for row in range(0, len(graphs), GOALS):
        edges, start = edges_of(graphs, row), int(graphs.start[row])
        same = [i for i in range(row, row + GOALS) if edges_of(graphs, i) == edges and graphs.start[i] == start]
        goals = [int(graphs.goal[i]) for i in same]
        assert same == list(range(row, row + len(same))) and len(set(goals)) == len(goals)
        allowed = allowed_goals(edges, start, made.config.lookahead_max, kept)
        assert set(goals[1:]) <= allowed
        if not along_path:
            assert len(goals) == min(GOALS, len(allowed | {goals[0]}))
        assert not any(row_of(graphs, i) in kept for i in range(row, row + GOALS))


def test_further_goals_are_uniform() -> None:
    made = task(n=41, goals=2, naive_share=0.3)
    graphs = made.graphs("train", 0, np.arange(8000))
    ranks: dict[int, list[int]] = {}
    for row in range(0, len(graphs), 2):
        edges, start, own = edges_of(graphs, row), int(graphs.start[row]), int(graphs.goal[row])
        if edges_of(graphs, row + 1) == edges:
            among = sorted(allowed_goals(edges, start, 5, set()) - {own})
            ranks.setdefault(len(among), []).append(among.index(int(graphs.goal[row + 1])))
    often = {count: found for count, found in ranks.items() if len(found) >= 150}
    assert len(often) >= 8
    for count, found in often.items():
        shares = np.bincount(found, minlength=count) / len(found)
        assert np.abs(shares - 1 / count).max() < 4.5 * np.sqrt(1 / count / len(found)), count


def test_the_first_question_is_the_graphs_own_and_fresh_graphs_fill_up() -> None:
    plan = task(distribution="star", lookahead=2).plan
    asked, stuck = draw_questions(plan, 7, np.arange(4000), goals=GOALS)
    plain, _ = draw_graphs(plan, 7, np.arange(1000))
    assert stuck == -1 and equal(asked[np.arange(0, 4000, GOALS)], plain)
    # A star of one arm of one vertex has a single goal: its other rows are the goals of graphs that recur nowhere.
    lonely = np.flatnonzero(plain.edge_count == 1)
    rows = (GOALS * lonely[:, None] + np.arange(1, GOALS)).ravel()
    fresh = asked[rows]
    assert len(rows) > 30 and (fresh.edge_count > 1).mean() > 0.9
    assert len({row_of(fresh, row) for row in range(len(fresh))}) > 0.9 * len(fresh)
    own = np.bincount(plain.lookahead, minlength=3) / len(plain)
    assert np.bincount(fresh.lookahead, minlength=3) / len(fresh) == pytest.approx(own, abs=0.15)


MIXED = task(goals=3, along_path=0.5, naive_share=0.3, n=32)


@given(st.lists(st.integers(0, 60) | st.integers(0, 2**62), min_size=1, max_size=30), st.randoms(use_true_random=False))
def test_a_row_depends_on_its_index_alone(indices: list[int], rng) -> None:
    whole = MIXED.graphs("train", 5, np.array(indices))
    order = list(range(len(indices)))
    rng.shuffle(order)
    assert equal(MIXED.graphs("train", 5, np.array(indices)[order]), whole[np.array(order)])
    assert equal(MIXED.graphs("train", 5, np.array(indices[:1])), whole[:1])


@pytest.mark.parametrize("size", [1, 7, 64])
def test_batches_of_any_size_hold_the_same_rows(size: int) -> None:
    whole = MIXED.graphs("train", 0, np.arange(128))
    parts = [MIXED.graphs("train", 0, np.arange(at, min(at + size, 128))) for at in range(0, 128, size)]
    assert equal(_join(parts), whole)


def test_moved_goals_stand_on_the_shortest_path_at_a_uniform_position() -> None:
    plan = task(naive_share=0.5).plan
    plain, _ = draw_graphs(plan, 3, np.arange(6000), naive_share=0.5)
    moved, _ = draw_questions(plan, 3, np.arange(6000), naive_share=0.5, along_path=1.0)
    assert np.array_equal(plain.edges, moved.edges) and np.array_equal(plain.start, moved.start)
    for row in range(600):
        edges, start, own = edges_of(plain, row), int(plain.start[row]), int(plain.goal[row])
        on_path = {v for path in reference.shortest_paths(edges, start, own) for v in path[1:]}
        assert int(moved.goal[row]) in on_path
        assert nx.shortest_path_length(nx.DiGraph(edges), start, int(moved.goal[row])) == moved.path_length[row]
    for distance in (2, 5, 8):
        shares = np.bincount(moved.path_length[plain.path_length == distance], minlength=distance + 1)
        assert shares[0] == 0 and shares[1:] / shares.sum() == pytest.approx(np.full(distance, 1 / distance), abs=0.09)
    still = moved.goal == plain.goal
    assert np.array_equal(moved.label[still], plain.label[still])
    for name in ("right", "lookahead", "path_length"):
        assert np.array_equal(getattr(moved, name)[still], getattr(plain, name)[still])


def test_moved_goals_need_less_lookahead() -> None:
    plain, some, all_ = (task(along_path=p).graphs("train", 0, np.arange(20_000)) for p in (0.0, 0.5, 1.0))
    means = [graphs.lookahead.mean() for graphs in (plain, some, all_)]
    assert means[0] == pytest.approx(4.5, abs=0.1) and means[2] < 3.2
    assert means[1] == pytest.approx((means[0] + means[2]) / 2, abs=0.1)
    assert all_.lookahead.max() == 9
    # A label stays uniform among the right answers.
    several = task(distribution="naive", along_path=1.0).graphs("train", 0, np.arange(20_000))
    two = np.flatnonzero(np.bitwise_count(several.right[:, 0]) == 2)
    smallest = [several.fields_of(int(row))["accepted"][0] for row in two]
    assert (several.label[two] == smallest).mean() == pytest.approx(0.5, abs=0.04)


@pytest.mark.parametrize("distribution", ["balanced", "naive", "star"])
def test_no_reserved_row_is_ever_drawn(distribution: str) -> None:
    made = task(n=23, distribution=distribution, test_rows=150, goals=3, along_path=0.5)
    tests = _join([made.test(cell, 150).source for cell in made.cells(("balanced", "naive", "star"))])
    kept, dropped = {row_of(tests, row) for row in range(len(tests))}, 0
    for split in ("train", "validation"):
        graphs = made.graphs(split, 0, np.arange(6000))
        dropped += int(graphs.reserved_hits.reshape(-1, 3)[:, 1:].sum())
        assert not any(row_of(graphs, row) in kept for row in range(len(graphs)))
    assert dropped > 0


def test_stages_bound_every_question() -> None:
    made = task(goals=GOALS, along_path=0.3)
    for stage in (1, 3):
        graphs = made.at_stage(stage).graphs("train", 0, np.arange(4000))
        assert graphs.lookahead.max() == stage and made.at_stage(stage).config.goals == GOALS


def test_digests_change_only_with_the_choice() -> None:
    plain = SearchConfig()
    assert (plain.train_digest, plain.test_digest) == ("4ade5b6c1295023a", "fa701d9842c1b3bb")
    others = [SearchConfig(goals=2), SearchConfig(along_path=0.5), SearchConfig(ids=50), SearchConfig(goals=3)]
    assert len({config.train_digest for config in [plain, *others]}) == 5
    assert [config.test_digest == plain.test_digest for config in others] == [True, True, False, True]
    assert SearchConfig(ids=41).train_digest == plain.train_digest


def test_reserving_everything_says_so() -> None:
    with pytest.raises(UsageError, match="nothing to train on"):
        task(n=14, test_rows=6, goals=2).sample("train", 0, np.arange(50))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"goals": 0}, r"task\.goals: 0 is not possible; allowed: 1 to 1000"),
        ({"along_path": 1.5}, r"task\.along_path: 1\.5 is not possible; allowed: 0 to 1"),
        ({"along_path": float("nan")}, r"task\.along_path: nan"),
    ],
)
def test_impossible_values_are_named(fields: dict, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        SearchConfig(**fields)
