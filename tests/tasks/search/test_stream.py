"""A row is a pure function of its key: any batch size, order, worker."""

from __future__ import annotations

import itertools
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DataLoader

from algoprobe.tasks.search import SearchConfig, SearchTask

from .rows import equal

TASK = SearchTask(SearchConfig(test_rows=10, naive_share=0.2))


@given(st.lists(st.integers(0, 2**62), min_size=1, max_size=30, unique=True), st.randoms(use_true_random=False))
def test_a_row_depends_on_its_index_alone(indices: list[int], rng) -> None:
    whole = TASK.graphs("train", 5, np.array(indices))
    order = list(range(len(indices)))
    rng.shuffle(order)
    mixed = TASK.graphs("train", 5, np.array(indices)[order])
    assert equal(mixed, whole[np.array(order)])


@pytest.mark.parametrize("encoding", ["triples", "packed"])
def test_any_row_can_be_made_again(encoding: str) -> None:
    task = SearchTask(SearchConfig(test_rows=10, encoding=encoding))
    batch = task.sample("train", 3, np.arange(1000, 1032))
    for row in range(32):
        again = task.sample("train", 3, batch.index[row : row + 1])
        length = int(again.lengths[0])
        assert again.tokens.shape[1] == length == batch.lengths[row]
        assert np.array_equal(again.tokens[0], batch.tokens[row, -length:])
        assert np.array_equal(again.accepted[0], batch.accepted[row])
        assert again.targets[0, 0] == batch.targets[row, 0]
        assert all(again.axes[name][0] == batch.axes[name][row] for name in batch.axes)


def test_streams_differ_by_seed_split_config_and_stage() -> None:
    indices = np.arange(50)
    base = TASK.graphs("train", 0, indices)
    others = [
        TASK.graphs("train", 1, indices),
        TASK.graphs("validation", 0, indices),
        TASK.at_stage(3).graphs("train", 0, indices),
        SearchTask(SearchConfig(test_rows=11, naive_share=0.2)).graphs("train", 0, indices),
    ]
    for other in others:
        assert not np.array_equal(base.edges, other.edges)


def test_stages_limit_the_lookahead_and_keep_the_test_rows() -> None:
    task = SearchTask(SearchConfig(n=62, test_rows=10, lookahead=6))
    assert task.stages() == 6 and SearchTask(SearchConfig(distribution="naive", test_rows=10)).stages() == 1
    for stage in range(1, 7):
        staged = task.at_stage(stage)
        assert staged.graphs("train", 0, np.arange(300)).lookahead.max() == stage
        cell = task.cells()[-2]
        assert equal(staged.test(cell, 10).source, task.test(cell, 10).source)


def test_batches_walk_through_the_stream() -> None:
    first, second, third = itertools.islice(TASK.batches(16, seed=2), 3)
    assert np.array_equal(np.concatenate([first.index, second.index, third.index]), np.arange(48))
    resumed = next(iter(TASK.batches(16, seed=2, start=2)))
    assert np.array_equal(resumed.tokens, third.tokens)
    assert np.array_equal(TASK.sample("train", 2, np.arange(48)).targets[32:], third.targets)


@pytest.mark.filterwarnings("ignore:This DataLoader will create")
@pytest.mark.parametrize("workers", [0, 1, 2, 3])
def test_a_loader_gives_the_same_batches_with_any_number_of_workers(workers: int) -> None:
    dataset = TASK.dataset(8, seed=4, start=5, batches=7)
    # Fresh processes: a forked one could inherit locks of threads that run here.
    context = "spawn" if workers else None
    loader = DataLoader(dataset, batch_size=None, num_workers=workers, multiprocessing_context=context)
    got = list(loader)
    expected = list(itertools.islice(TASK.batches(8, seed=4, start=5), 7))
    assert len(got) == 7
    for ours, theirs in zip(got, expected):
        assert np.array_equal(ours["tokens"].numpy(), theirs.tokens)
        assert np.array_equal(ours["index"].numpy(), theirs.index)
        assert np.array_equal(ours["accepted"].numpy(), theirs.accepted)


def test_the_package_loads_neither_torch_nor_numba() -> None:
    code = (
        "import sys, algoprobe.tasks.search as s; s.SearchConfig();"
        "assert not {'torch', 'numba'} & set(sys.modules);"
        "s.SearchTask; assert 'torch' not in sys.modules and 'numba' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
