"""The instrument against truth: models whose circuit is known by construction."""

from __future__ import annotations

import pytest

from algoprobe.probes.circuits import Settings, Stack, explain, measure
from algoprobe.probes.handmade import deepest_subtree, most_children, path_merger

from .known import graphs_with_a_free_id, merges_of_path_merger

DEFAULT = Settings()


def circuits(model, layouts, settings=DEFAULT):
    stack = Stack(model, 1)
    return [explain(measure(stack, layout, settings)) for layout in layouts]


def check_path_merger(encoding: str, n: int, rows: int) -> int:
    """Every row: explained, and the marked operations are those of the construction; the number of rows."""
    layouts = graphs_with_a_free_id(n, rows, encoding)
    for layout, circuit in zip(layouts, circuits(path_merger(encoding, layouts[0].vertices), layouts)):
        marked = {(e.operation.step, e.operation.destination, e.operation.source) for e in circuit.operations}
        assert marked == merges_of_path_merger(layout)
        assert all(e.operation.sign == 1 and e.accepted for e in circuit.operations)
        assert circuit.explained
    return len(layouts)


@pytest.mark.parametrize(("encoding", "n", "rows"), [("triples", 26, 2), ("packed", 41, 3)])
def test_every_answer_of_the_path_merger_is_explained_by_exactly_its_merges(encoding, n, rows):
    assert check_path_merger(encoding, n, rows) >= 2 * rows


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["triples", "packed"])
def test_the_path_merger_on_many_rows(encoding):
    assert check_path_merger(encoding, 41, 10) >= 50


@pytest.mark.parametrize(("encoding", "rows"), [("triples", 1), ("packed", 5)])
def test_no_answer_of_most_children_is_explained_from_lookahead_3_on(encoding, rows):
    layouts = [layout for l in (3, 4, 5) for layout in graphs_with_a_free_id(41, rows, encoding, lookahead=l)]
    found = circuits(most_children(encoding, layouts[0].vertices), layouts)
    assert len(found) >= 2 * rows and not any(circuit.explained for circuit in found)
    assert all(any(e.accepted for e in circuit.operations) for circuit in found)  # it does merge one hop


def test_what_follows_the_deepest_subtree_is_explained_only_where_that_holds_a_path():
    layouts = graphs_with_a_free_id(41, 3, "packed")
    found = circuits(deepest_subtree("packed", layouts[0].vertices), layouts)
    for layout, circuit in zip(layouts, found):
        if circuit.explained:
            assert layout.goal in layout.reach[circuit.answer]
    assert 0 < sum(circuit.explained for circuit in found) < len(found)


def test_other_readings_keep_the_path_merger_explained():
    layouts = graphs_with_a_free_id(41, 2, "packed")
    model = path_merger("packed", layouts[0].vertices)
    for settings in (Settings(bound="log-weight"), Settings(maxing="row"), Settings(lists="smaller-filled")):
        assert all(circuit.explained for circuit in circuits(model, layouts, settings))


def test_frozen_units_hide_a_set_that_saturates():
    """min(1, 2x) is a pair of ReLUs; frozen open, they hand on 1 whether x is there or not, so that no patch shows."""
    layouts = graphs_with_a_free_id(41, 3, "packed", lookahead=4)
    found = circuits(path_merger("packed", layouts[0].vertices), layouts, Settings(freeze_relu=True))
    assert not any(circuit.explained for circuit in found)
