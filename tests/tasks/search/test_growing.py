"""Graphs smaller than the input allows, and a curriculum that lets them grow."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from algoprobe.core.errors import UsageError
from algoprobe.tasks.search import SearchConfig, SearchTask
from algoprobe.tasks.search.leaks import _lists, _sorted_lists
from algoprobe.tasks.search.reserve import reserved

ROWS = np.arange(300)


def config(**fields) -> SearchConfig:
    return SearchConfig(**{"n": 65, "encoding": "packed", "test_rows": 20, "naive_share": 0.2, "ids": 30} | fields)


@given(most=st.integers(9, 20), lookahead=st.integers(1, 4))
def test_training_graphs_have_at_most_so_many_vertices_and_edges(most, lookahead):
    task = SearchTask(config(most=most, lookahead=lookahead))
    batch = task.sample("train", 0, ROWS)
    assert batch.axes["vertices"].max() <= most and batch.axes["edges"].max() <= most
    assert batch.axes["edges"].max() >= most - 2
    assert batch.tokens.shape[1] == batch.axes["edges"].max() + 1  # smaller graphs are shorter rows
    assert batch.axes["lookahead"].max() <= max(lookahead, most)
    assert batch.source.edges.max() > 20  # named from all of `ids`


def test_most_vertices_is_the_whole_to_the_bit():
    whole, same = SearchTask(config()), SearchTask(config(most=20))
    assert whole.config.train_digest == same.config.train_digest
    assert (whole.sample("train", 0, ROWS).tokens == same.sample("train", 0, ROWS).tokens).all()
    assert whole.config.train_digest != config(most=19).train_digest


def test_stages_grow_and_the_last_is_the_task():
    task = SearchTask(config(grow=3.0))
    sizes = [task.at_stage(stage).config.most for stage in range(1, 10)]
    assert sizes == [12, 12, 12, 12, 15, 18, 20, 20, None]
    last, plain = task.at_stage(9), SearchTask(config())
    assert (last.sample("train", 0, ROWS).tokens == plain.sample("train", 0, ROWS).tokens).all()
    assert task.sample("train", 0, ROWS).axes["vertices"].max() == 20  # without a stage: the whole
    assert SearchTask(config(grow=3.0, most=16)).at_stage(6).config.most == 16


def test_test_rows_do_not_care_and_stay_reserved():
    task, plain = SearchTask(config(grow=3.0)), SearchTask(config())
    early = task.at_stage(2)
    assert reserved(early.config) is reserved(plain.config)
    for cell in plain.cells():
        assert (early.test(cell, 20).tokens == plain.test(cell, 20).tokens).all()
    assert early.sizes == plain.sizes
    assert task.at_size(41).config.most is None


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"most": 21}, r"task\.most: 21 is not possible; allowed: 19 to 20"),
        ({"most": 3, "lookahead": 1}, r"task\.most: 3 is not possible; allowed: 4 to 20"),
        ({"most": 8, "lookahead": 4}, r"task\.most: 8 is not possible; allowed: 9 to 20"),
        ({"grow": 2.0}, r"task\.grow: 2\.0 is not possible; allowed: 2\.5 to 1000"),
    ],
)
def test_impossible_sizes_are_named(fields, message):
    with pytest.raises(UsageError, match=message):
        config(**fields)


def test_leaks_and_card_of_smaller_training_graphs():
    """Training rows narrower than test rows are compared with them all the same, and a copied one is found."""
    task = SearchTask(config(n=41, ids=None, most=7, lookahead=3))
    found, card = task.leaks(0, 500), task.card(0, 100)
    assert found["training_rows"] == 500 and found["equal"] == found["equal_up_to_edge_order"] == 0
    assert max(map(int, card["histograms"]["vertices"])) == 7

    test = task.test(task.cells()[0], 20).source
    small = test[test.edge_count <= 7]
    narrow = replace(small, edges=np.ascontiguousarray(small.edges[:, :7]))
    assert 0 < len(small) < 20 and _lists(narrow).dtype != _lists(test).dtype
    assert np.isin(_lists(narrow, 12), _lists(test, 12)).all()
    assert np.isin(_sorted_lists(narrow, 12), _sorted_lists(test, 12)).all()
