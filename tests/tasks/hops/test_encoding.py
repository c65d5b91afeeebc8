"""Tokens follow the documented layout, and come back."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from algoprobe.core.errors import UsageError
from algoprobe.tasks.hops import HopsConfig, HopsTask
from algoprobe.tasks.hops.encoding import decode

from .sizes import CHAINS, FRESH, PARTIAL

LAYOUTS = [
    *(replace(PARTIAL, answer_at=layout) for layout in ("query", "last", "padded")),
    *(replace(CHAINS, answer_at=layout) for layout in ("query", "last")),
    FRESH,
]


@pytest.mark.parametrize("config", LAYOUTS, ids=lambda config: f"{config.setting} {config.answer_at}")
def test_round_trip(config: HopsConfig) -> None:
    task = HopsTask(config)
    for batch in (task.sample("train", 0, np.arange(200)), *(task.test(cell, 10) for cell in task.cells())):
        found, rows = decode(batch.tokens, config), batch.source
        most = int(rows.hops.max())
        assert np.array_equal(found.hops, rows.hops) and np.array_equal(found.answer, rows.answer)
        assert np.array_equal(found.relations[:, :most], rows.relations[:, :most])
        assert np.array_equal(found.entities[:, : most + 1], rows.entities[:, : most + 1])


@pytest.mark.parametrize("config", LAYOUTS, ids=lambda config: f"{config.setting} {config.answer_at}")
def test_the_layout(config: HopsConfig) -> None:
    task, E, query = HopsTask(config), config.entities, config.entities + config.relations + 1
    batch = task.sample("train", 0, np.arange(200))
    width = batch.tokens.shape[1]
    for row in range(200):
        chain = batch.source.fields_of(row)
        line = [chain["head"], *(E + relation for relation in chain["relations"])]
        if config.setting == "two-hop" and config.answer_at != "last":
            line += [query] * (3 - len(line))
        line += [query] * (config.answer_at == "query")
        assert batch.tokens[row, :, 0].tolist() == [0] * (width - len(line)) + line
        assert batch.lengths[row] == len(line)
    assert task.sizes.length >= width and task.sizes.align == "right"
    assert task.sizes.vocabulary == task.sizes.outputs == query + 1
    assert batch.targets.max() <= E and batch.targets.min() >= 1


def test_what_does_not_follow_the_layout_is_named() -> None:
    task = HopsTask(PARTIAL)
    good = task.sample("train", 0, np.arange(4)).tokens
    missing = task.sample("train", 0, np.arange(4)).tokens
    absent = set(range(41, 49)) - {40 + int(r) for r in task.test(task.cells()[-1], 60).source.relations[:, 0]}
    assert not absent  # every relation occurs, so only one of a head's own can be missing
    from algoprobe.tasks.hops.reference import facts_of

    head = int(missing[2, 0, 0])
    missing[2, 1, 0] = 40 + min(set(range(1, 9)) - set(facts_of(PARTIAL)[head]))
    for row, column, token in ((1, 0, 41), (3, 1, 5), (0, 3, 3), (1, 1, 0)):
        wrong = good.copy()
        wrong[row, column, 0] = token
        with pytest.raises(UsageError, match=f"tokens: row {row} does not follow"):
            decode(wrong, PARTIAL)
    with pytest.raises(UsageError, match="tokens: row 2 does not follow"):
        decode(missing, PARTIAL)
