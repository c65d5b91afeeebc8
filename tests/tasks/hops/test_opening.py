"""What lenses ask of the task: partners, kinds of columns, facts about columns."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from algoprobe.core.errors import UsageError
from algoprobe.tasks.hops import HopsConfig, HopsTask
from algoprobe.tasks.hops.reference import answer, facts_of
from algoprobe.tasks.openable import Openable

from .sizes import CHAINS, PARTIAL


@pytest.mark.parametrize("config", [PARTIAL, replace(PARTIAL, answer_at="last"), CHAINS], ids=["pad", "last", "chains"])
def test_pairs_differ_in_the_first_fact_alone(config: HopsConfig) -> None:
    task, facts = HopsTask(config), facts_of(config)
    assert isinstance(task, Openable)
    batch = task.sample("train", 0, np.arange(100))
    pair = task.pair(batch)
    assert len(pair.clean) == len(pair.corrupted) >= 95
    assert np.array_equal(pair.clean.lengths, pair.corrupted.lengths)
    assert not (pair.clean.accepted & pair.corrupted.accepted).any()
    clean, moved = pair.clean.source, pair.corrupted.source
    assert np.array_equal(clean.relations[:, 1:], moved.relations[:, 1:]) and (clean.head != moved.head).all()
    for row in range(len(moved)):
        relations = tuple(moved.relations[row, : moved.hops[row]].tolist())
        assert answer(facts, int(moved.head[row]), relations) == moved.answer[row] == pair.corrupted.targets[row, 0]
    for found in (pair.columns, task.column_kinds(batch)):
        rows = pair.clean if found is pair.columns else batch
        real = rows.tokens[..., 0] > 0
        assert np.array_equal(np.stack(list(found.values())).sum(0), real.astype(int))
    again = task.pair(task.sample("train", 0, np.arange(50, 100)))
    assert np.array_equal(again.corrupted.targets[-10:], pair.corrupted.targets[-10:])


def test_column_targets_are_the_entities_on_the_way() -> None:
    for config in (PARTIAL, CHAINS, replace(CHAINS, answer_at="last")):
        task = HopsTask(config)
        batch = task.sample("train", 0, np.arange(60))
        found, kinds = task.column_targets(batch), task.column_kinds(batch)
        for row in range(60):
            entities = batch.source.fields_of(row)["entities"]
            for j, entity in enumerate(entities[1:], 1):
                assert found["reached"][row, kinds[f"relation {j}"][row]].tolist() == [entity]
                assert found[f"after_{j}"][row, -1] == entity
            assert np.isfinite(found["reached"][row]).sum() == len(entities) - 1
        assert task.intermediate(batch) == {}


def test_rows_without_partners_are_named() -> None:
    # All facts of a graph lead to the same entity.
    one_tail = next(c for c in (HopsConfig(**ONE_RELATION, graph=graph) for graph in range(5000)) if same_tail(c))
    task = HopsTask(one_tail)
    with pytest.raises(UsageError, match="none of the 1 rows has a partner"):
        task.pair(task.test(task.cells()[0], 1))


ONE_RELATION = {
    "setting": "k-hop",
    "entities": 4,
    "relations": 1,
    "out_degree": 1,
    "hops": 2,
    "fresh": True,
    "test_rows": 1,
    "validation_rows": 1,
}


def same_tail(config: HopsConfig) -> bool:
    return len({tail for of_head in facts_of(config).values() for tail in of_head.values()}) == 1
