"""Leak report: what do training rows have of the test rows?

A row that equals a test row is redrawn or set apart, so none may be left but single facts, which are trained on by
design. There is no such thing as rows equal up to renaming: what a name stands for is what is learned, and the only
renaming of a random graph that keeps its facts is none. What a test row can share with training rows are its parts: its
relations in their order, from another head; its facts, each inside some training row of two or more hops; its two ends,
joined by other relations. These are left in, and counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Int

from .baselines import counted_rows
from .chains import Chains
from .reserve import STANDARD, TRAINED, cell_chains, cells_of

if TYPE_CHECKING:
    from .task import HopsTask


def leaks(task: HopsTask, seed: int, rows: int) -> dict[str, Any]:
    """The leak report of `rows` training rows, and of each cell's parts in the whole training set, as JSON values.

    Of an endless training stream 100,000 rows stand for the whole.
    """
    config = task.config
    train = task.chains("train", seed, np.arange(rows))
    names = [name for name in STANDARD[config.setting] if name not in TRAINED]
    cells = {cell: cell_chains(config, cell, config.test_rows) for name in names for cell in cells_of(name, config)}
    most = max([train.relations.shape[1], *(chains.relations.shape[1] for chains in cells.values())])
    items, sequences = _rows(train, most, heads=True), _rows(train, most, heads=False)
    tests = list(cells.values()) or [train[:0]]
    longer = train.hops > 1
    parts = Parts(task)
    return {
        "config": config.train_digest,
        "seed": seed,
        "training_rows": rows,
        "reserved_rows": sum(map(len, cells.values())),
        "single_facts": int((~longer).sum()),
        "draws": int(train.attempts.sum()),
        "draws_dropped_as_reserved": int(train.attempts.sum()) - rows,
        "equal_test_rows": int(np.isin(items, np.concatenate([_rows(t, most, heads=True) for t in tests])).sum()),
        "same_relations": int(
            (longer & np.isin(sequences, np.concatenate([_rows(t, most, heads=False) for t in tests]))).sum()
        ),
        "test_rows_by_cell": [parts.of(cell.name, chains) for cell, chains in cells.items()],
    }


def _rows(chains: Chains, most: int, heads: bool) -> np.ndarray:
    """Each row as one comparable item: its relations, and its head or none. Uses none of the sampler's hashes."""
    table = np.zeros((len(chains), most + 1), np.int32)
    table[:, 0] = chains.head if heads else 0
    given = min(most, chains.relations.shape[1])  # the rest is 0 in rows that are no longer than `most`
    table[:, 1 : 1 + given] = chains.relations[:, :given]
    return table.view(np.dtype((np.void, table.shape[1] * 4)))[:, 0]


def _facts(chains: Chains) -> Int[np.ndarray, "batch most"]:
    """Each hop's fact as a number, 0 after the last."""
    here = chains.entities[:, :-1].astype(np.int64) * (chains.relation_count + 1) + chains.relations
    return np.where(chains.relations > 0, here, 0)


class Parts:
    """What the training rows of two and more hops are made of."""

    def __init__(self, task: HopsTask) -> None:
        sequences: dict[int, list[np.ndarray]] = {}
        ends: dict[int, list[np.ndarray]] = {}
        composed: list[np.ndarray] = [np.zeros(1, np.int64)]
        for chains in counted_rows(task.config):
            for hops in np.unique(chains.hops[chains.hops > 1]).tolist():
                some = chains[chains.hops == hops]
                sequences.setdefault(hops, []).append(np.unique(_rows(some, hops, heads=False)))
                ends.setdefault(hops, []).append(np.unique(_ends(some)))
            composed.append(np.unique(_facts(chains[chains.hops > 1])))
        self.sequences, self.ends = sequences, ends
        self.composed = np.unique(np.concatenate(composed))

    def of(self, name: str, chains: Chains) -> dict[str, Any]:
        """Of the rows of one cell, all equally long: how many are distinct, how many have their parts in training."""
        hops = int(chains.hops[0])
        rows, sequences = (_rows(chains, hops, heads=heads) for heads in (True, False))
        trained = self.sequences.get(hops)
        seen = np.isin(sequences, np.concatenate(trained)) if trained else np.zeros(len(chains), np.bool_)
        joined = np.isin(_ends(chains), np.concatenate([[-1], *self.ends.get(hops, [])]))
        return {
            "cell": name,
            "rows": len(chains),
            "distinct": len(np.unique(rows)),
            "relation_sequences": len(np.unique(sequences)),
            "relation_sequence_trained": int(seen.sum()),
            "every_fact_trained_in_a_chain": int(np.isin(_facts(chains), self.composed).all(1).sum()),
            "ends_trained": int(joined.sum()),
        }


def _ends(chains: Chains) -> Int[np.ndarray, "batch"]:
    return chains.head.astype(np.int64) * (chains.entity_count + 1) + chains.answer
