"""Models built by hand compute what they say."""

from __future__ import annotations

import numpy as np
import pytest

from algoprobe.probes.handmade import deepest_subtree, most_children, path_merger

from .circuits.known import graphs_with_a_free_id, logits, ways

ENCODINGS = ("triples", "packed")


def depth(layout, vertex: int) -> int:
    return max((1 + depth(layout, child) for child in layout.children.get(vertex, ())), default=0)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_the_path_merger_counts_ways_to_the_goal(encoding):
    for layout in graphs_with_a_free_id(41, 20, encoding):
        expected = np.zeros(layout.vertices + 1)
        for child, count in ways(layout).items():
            expected[child] = count
        np.testing.assert_allclose(
            logits(path_merger(encoding, layout.vertices), layout), expected, rtol=2e-3, atol=1e-3
        )


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_the_path_merger_answers_every_row_at_two_sizes(encoding):
    for n in (26, 65):
        layouts = graphs_with_a_free_id(n, 20, encoding)
        model = path_merger(encoding, layouts[0].vertices)
        for layout in layouts:
            answer = int(logits(model, layout).argmax())
            assert answer in layout.children[layout.start] and layout.goal in layout.reach[answer]


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_most_children_counts_children(encoding):
    for layout in graphs_with_a_free_id(41, 10, encoding):
        found = logits(most_children(encoding, layout.vertices), layout)
        for child in layout.children[layout.start]:
            assert found[child] == pytest.approx(1 + len(layout.children.get(child, ())), abs=1e-2)
        assert (found > 0.5).sum() == len(layout.children[layout.start])


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_deepest_subtree_measures_depth_up_to_its_cap(encoding):
    for layout in graphs_with_a_free_id(41, 10, encoding):
        found = logits(deepest_subtree(encoding, layout.vertices, depth=3), layout)
        for child in layout.children[layout.start]:
            assert found[child] == pytest.approx(1 + min(3, depth(layout, child)), abs=1e-2)
