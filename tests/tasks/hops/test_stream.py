"""A row is a pure function of its key: any batch size, any order, and the reference in plain Python says the same."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from algoprobe.core.permutation import places
from algoprobe.core.stream import Stream
from algoprobe.tasks.hops import HopsConfig, HopsTask
from algoprobe.tasks.hops.graph import graph_of
from algoprobe.tasks.hops.reference import answer, distinct_walks, facts_of, permuted, training_place
from algoprobe.tasks.hops.reserve import kept_walks, training_size
from algoprobe.tasks.hops.sampling import first_distinct, walks

from .sizes import ALL, CHAINS, FRESH, PARTIAL

SPLITS = ("train", "validation", "card", "example")


@pytest.mark.parametrize("name", ALL)
@given(
    split=st.sampled_from(SPLITS),
    indices=st.lists(st.integers(0, 2**62), min_size=1, max_size=20, unique=True),
    rng=st.randoms(use_true_random=False),
)
def test_a_row_depends_on_its_index_alone(name: str, split: str, indices: list[int], rng) -> None:
    task = HopsTask(ALL[name])
    whole = task.sample(split, 5, np.array(indices))
    order = list(range(len(indices)))
    rng.shuffle(order)
    for rows in (np.array(order), np.array(order)[: (len(order) + 1) // 2]):
        again = task.sample(split, 5, np.array(indices)[rows])
        width = again.tokens.shape[1]
        assert np.array_equal(again.tokens, whole.tokens[rows][:, -width:])
        assert (whole.tokens[rows][:, :-width] == 0).all()
        assert np.array_equal(again.targets, whole.targets[rows]) and np.array_equal(again.lengths, whole.lengths[rows])
        assert np.array_equal(again.accepted, whole.accepted[rows]) and np.array_equal(again.index, whole.index[rows])
        assert np.array_equal(again.axes["hops"], whole.axes["hops"][rows])


def texts(task: HopsTask, split: str, seed: int) -> list:
    batch = task.sample(split, seed, np.arange(200))
    return [row[row > 0].tolist() for row in batch.tokens[..., 0]]


def test_streams_differ_by_seed_split_config_and_stage() -> None:
    for config in ALL.values():
        task = HopsTask(config)
        base = texts(task, "train", 0)
        others = [
            texts(task, "train", 1),
            texts(task, "validation", 0),
            texts(HopsTask(replace(config, graph=1)), "train", 0),
        ]
        if config.setting == "k-hop":
            others.append(texts(task.at_stage(3), "train", 0))
        assert base == texts(HopsTask(config), "train", 0) and all(base != other for other in others)


def test_the_layout_changes_no_chain() -> None:
    for config, layout in ((PARTIAL, "last"), (PARTIAL, "padded"), (CHAINS, "last")):
        one, other = HopsTask(config), HopsTask(replace(config, answer_at=layout))
        assert one.sizes != other.sizes
        a, b = (task.chains("train", 0, np.arange(50)) for task in (one, other))
        assert np.array_equal(a.entities, b.entities) and np.array_equal(a.relations, b.relations)


@given(st.integers(0, 2**64 - 1), st.integers(1, 3000), st.integers(0, 10**6))
def test_permutations_of_a_fixed_set(key: int, size: int, epoch: int) -> None:
    found = places(key, epoch * size + np.arange(size), size)
    assert np.array_equal(np.sort(found), np.arange(size))
    for at in range(0, size, 1 + size // 7):
        assert found[at] == training_place(key, epoch * size + at, size)
    assert sorted(permuted(key, at, min(size, 50)) for at in range(min(size, 50))) == list(range(min(size, 50)))


@pytest.mark.parametrize("config", [PARTIAL, CHAINS], ids=["partial", "chains"])
def test_an_epoch_holds_every_training_row_once(config: HopsConfig) -> None:
    task, size = HopsTask(config), training_size(config)
    first, second = (task.sample("train", 3, np.arange(e * size, (e + 1) * size)).tokens[..., 0] for e in (0, 1))
    assert len(np.unique(first, axis=0)) == size
    assert np.array_equal(np.unique(first, axis=0), np.unique(second, axis=0)) and not np.array_equal(first, second)
    # Another seed changes the order alone.
    third = task.sample("train", 4, np.arange(size)).tokens[..., 0]
    assert np.array_equal(np.unique(first, axis=0), np.unique(third, axis=0)) and not np.array_equal(first, third)


@pytest.mark.parametrize("config", [PARTIAL, CHAINS, replace(PARTIAL, out_degree=8)], ids=["partial", "chains", "full"])
def test_the_facts_are_the_reference(config: HopsConfig) -> None:
    facts, graph = facts_of(config), graph_of(config.graph_fields)
    for head in range(config.entities):
        found = zip((graph.relation[head] + 1).tolist(), (graph.tail[head] + 1).tolist())
        assert dict(found) == facts[head + 1] and len(facts[head + 1]) == config.out_degree
        for relation in range(1, config.relations + 1):
            assert graph.step[head, relation - 1] + 1 == facts[head + 1].get(relation, 0)
    if config.tails == "permutation":
        for relation in range(1, config.relations + 1):
            assert sorted(facts[head][relation] for head in facts) == sorted(facts)


@pytest.mark.parametrize("hops", [2, 3, 8])
def test_walks_are_the_reference(hops: int) -> None:
    facts, fields = facts_of(CHAINS), CHAINS.graph_fields
    wanted = distinct_walks(CHAINS, facts, hops, 200)
    found = walks(fields, np.full(200, hops), first_distinct(fields, hops, 200))
    for row, (head, relations) in enumerate(wanted):
        assert (int(found.head[row]), tuple(found.relations[row].tolist())) == (head, relations)
        assert int(found.answer[row]) == answer(facts, head, relations)
    assert np.array_equal(first_distinct(fields, hops, 50), first_distinct(fields, hops, 200)[:50])
    if hops <= CHAINS.hops:
        assert np.array_equal(
            first_distinct(fields, hops, 200)[80:], kept_walks(fields, CHAINS.hops, 80, 120)[hops - 2]
        )


def test_fixed_training_rows_follow_the_documented_order() -> None:
    facts, task, size = facts_of(CHAINS), HopsTask(CHAINS), training_size(CHAINS)
    key = Stream("hops", CHAINS.train_digest, "train", 7).key
    indices = np.array([0, 1, 5, size - 1, size, 3 * size + 11, 10**12])
    chains = task.chains("train", 7, indices)
    sets = {hops: distinct_walks(CHAINS, facts, hops, 200) for hops in range(2, 6)}
    for row, index in enumerate(indices.tolist()):
        at = training_place(key, index, size)
        if at < 80:
            head = at // 4 + 1
            wanted = head, (sorted(facts[head])[at % 4],)
        else:
            wanted = sets[2 + (at - 80) // 120][80 + (at - 80) % 120]
        hops = int(chains.hops[row])
        assert (int(chains.head[row]), tuple(chains.relations[row, :hops].tolist())) == wanted


def test_stages_and_sizes_keep_the_test_rows() -> None:
    for config in (CHAINS, FRESH):
        task = HopsTask(config)
        assert task.stages() == 5 and task.ordered
        for stage in range(1, 6):
            staged = task.at_stage(stage)
            hops = staged.sample("train", 0, np.arange(400)).axes["hops"]
            assert set(hops.tolist()) == set(range(1, stage + 1))
            assert set(staged.sample("validation", 0, np.arange(400)).axes["hops"].tolist()) == set(hops.tolist())
            assert staged.cells() == task.cells() and staged.config.n == 8
        larger = task.at_size(12)
        for cell in task.cells():
            same = task.test(cell, 50).tokens
            assert np.array_equal(task.at_stage(2).test(cell, 50).tokens, same)
            assert np.array_equal(larger.test(cell, 50).tokens, same)
        assert larger.cells()[-2].value == 12 and larger.sizes.vocabulary == task.sizes.vocabulary
        assert np.array_equal(
            larger.sample("train", 0, np.arange(9)).tokens, task.sample("train", 0, np.arange(9)).tokens
        )
    two = HopsTask(PARTIAL)
    assert two.stages() == 1 and two.at_stage(1) is two and two.ordered


def test_the_package_loads_neither_torch_nor_numba() -> None:
    code = (
        "import sys, algoprobe.tasks.hops as h; h.HopsConfig();"
        "assert not {'torch', 'numba'} & set(sys.modules);"
        "h.HopsTask; assert 'torch' not in sys.modules and 'numba' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
