"""Shortcuts that follow no chain, as the probability that each answers a row right (ties: the expectation).

`chance`: a uniformly random entity. Three name the commonest answer among the training rows of as many hops that have
the same last relation (`last_relation`), head and last relation (`head_and_last_relation`), or last two relations
(`last_two_relations`); where no training row has, chance. `tail_of_head`: the tail of the head under the last relation,
as if there were one hop; chance where there is no such fact. Of single facts two of these are the fact itself.

Without a fixed training set 100,000 rows of the card's stream are counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from jaxtyping import Float, Int

from algoprobe.core.stream import Stream

from .chains import Chains
from .config import HopsConfig
from .graph import graph_of
from .reserve import training_rows, training_size
from .sampling import fresh

COUNTED = 100_000
BLOCK = 50_000


def counted_rows(config: HopsConfig) -> Iterator[Chains]:
    """Every row of the fixed training set once, or the first rows of an endless one, in blocks."""
    if config.fresh and config.setting == "k-hop":
        key = Stream("hops", config.train_digest, "card", 0).key
        for start in range(0, COUNTED, BLOCK):
            yield fresh(config, key, np.arange(start, start + BLOCK))
    else:
        size = training_size(config)
        for start in range(0, size, BLOCK):
            yield training_rows(config, np.arange(start, min(start + BLOCK, size)))


def keys_of(chains: Chains) -> dict[str, Int[np.ndarray, "batch"]]:
    """What each shortcut looks at, as one number a row."""
    E, R = chains.entity_count + 1, chains.relation_count + 1
    last, before, hops = chains.relation_from_end(1), chains.relation_from_end(2), chains.hops.astype(np.int64)
    return {
        "last_relation": hops * R + last,
        "head_and_last_relation": (hops * E + chains.head) * R + last,
        "last_two_relations": (hops * R + before) * R + last,
    }


@dataclass(frozen=True)
class Table:
    """How often each answer stands with each key, and how often the commonest does."""

    codes: Int[np.ndarray, "codes"]
    """Key · (entities + 1) + answer, sorted."""
    counts: Int[np.ndarray, "codes"]
    keys: Int[np.ndarray, "keys"]
    most: Int[np.ndarray, "keys"]
    """Count of the commonest answer of each key."""
    ties: Int[np.ndarray, "keys"]
    """Answers that are so common."""
    entities: int

    @classmethod
    def of(cls, keys: Int[np.ndarray, "rows"], answers: Int[np.ndarray, "rows"], entities: int) -> Table:
        """The table of some rows."""
        codes, counts = np.unique(keys * (entities + 1) + answers, return_counts=True)
        found, start = np.unique(codes // (entities + 1), return_index=True)
        most = np.maximum.reduceat(counts, start)
        ties = np.add.reduceat(
            (counts == np.repeat(most, np.diff(np.append(start, len(codes))))).astype(np.int64), start
        )
        return cls(codes, counts, found, most, ties, entities)

    def right(self, keys: Int[np.ndarray, "batch"], answers: Int[np.ndarray, "batch"]) -> Float[np.ndarray, "batch"]:
        """Probability that a uniform one of the commonest answers is the right one; 1/E for a key that is not there."""
        codes = keys * (self.entities + 1) + answers
        at, place = (np.searchsorted(a, b) for a, b in ((self.codes, codes), (self.keys, keys)))
        at, place = np.minimum(at, len(self.codes) - 1), np.minimum(place, len(self.keys) - 1)
        count = np.where(self.codes[at] == codes, self.counts[at], 0)
        known = self.keys[place] == keys
        return np.where(known, (count == self.most[place]) / self.ties[place], 1.0 / self.entities)


def tables(config: HopsConfig) -> dict[str, Table]:
    """The tables of the training rows of `config`."""
    return _tables(config.train_digest, replace(config, hops_max_test=None, answer_at="query"))


@lru_cache(maxsize=8)
def _tables(train_digest: str, config: HopsConfig) -> dict[str, Table]:
    blocks = [(keys_of(chains), chains.answer.astype(np.int64)) for chains in counted_rows(config)]
    answers = np.concatenate([answer for _, answer in blocks])
    return {
        name: Table.of(np.concatenate([keys[name] for keys, _ in blocks]), answers, config.entities)
        for name in blocks[0][0]
    }


def baselines(chains: Chains, config: HopsConfig) -> dict[str, Float[np.ndarray, "batch"]]:
    """Probability of a right answer, for each shortcut and row."""
    answers, chance = chains.answer.astype(np.int64), np.full(len(chains), 1.0 / config.entities)
    found, known = {"chance": chance}, tables(config)
    for name, keys in keys_of(chains).items():
        found[name] = known[name].right(keys, answers)
    tail = graph_of(config.graph_fields).step[chains.head - 1, chains.relation_from_end(1) - 1] + 1
    found["tail_of_head"] = np.where(tail == 0, chance, tail == answers)
    return found
