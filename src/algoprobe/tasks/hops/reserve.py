"""Test rows by cell, and the fixed rows of a config: which row of a set is which chain.

Two-hop cells: `id`, `ood`, `first-ood`, `second-ood`, and `atomic`, the facts, all of which are trained on; on request
also `id-atomic`, `ood-atomic` and `trained`, pairs that are trained on. K-hop cells: `walks` of 2, 3, … hops, and
`atomic`. Of each number of hops the first distinct walks are the test rows, the next ones validate, the next train.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from jaxtyping import Int

from algoprobe.core.errors import outside, unknown
from algoprobe.core.permutation import places
from algoprobe.core.stream import Stream
from algoprobe.tasks.task import Cell

from .chains import Chains
from .config import GraphFields, HopsConfig
from .sampling import first_distinct, walks
from .splits import chains_of, pairs_of, shuffled

STANDARD = {"two-hop": ("id", "ood", "first-ood", "second-ood", "atomic"), "k-hop": ("walks", "atomic")}
"""The test distributions of each setting that are scored unless others are named."""
FURTHER = {"two-hop": ("id-atomic", "ood-atomic", "trained"), "k-hop": ()}
"""Those that are scored when they are named: all of trained rows."""
TRAINED = ("atomic", "id-atomic", "ood-atomic", "trained")
"""Distributions of rows that are trained on."""


def group_of(config: HopsConfig, name: str) -> Int[np.ndarray, "rows"]:
    """The numbers of a two-hop group's rows, of facts or codes of pairs, in their order."""
    pairs = pairs_of(config)
    if name == "trained":
        return pairs.train
    if name in ("id-atomic", "ood-atomic"):
        return pairs.facts[pairs.fact_is_ood[pairs.facts] == (name == "ood-atomic")]
    return pairs.facts if name == "atomic" else getattr(pairs, name.replace("-", "_"))


def cells_of(distribution: str, config: HopsConfig) -> list[Cell]:
    """The test cells of one distribution that have rows at these sizes."""
    known = STANDARD[config.setting] + FURTHER[config.setting]
    if distribution not in known:
        raise unknown("on", distribution, known)
    if distribution == "walks":
        return [Cell("hops", k, "walks") for k in range(2, config.n + 1)]
    there = config.setting == "k-hop" or len(group_of(config, distribution))
    return [Cell("group", None, distribution)] if there else []


def cell_chains(config: HopsConfig, cell: Cell, rows: int) -> Chains:
    """The first `rows` rows of `cell`, or all that there are when it has fewer."""
    cells = [known for name in STANDARD[config.setting] + FURTHER[config.setting] for known in cells_of(name, config)]
    if cell not in cells:
        raise unknown("cell", cell.name, [known.name for known in cells])
    if not 1 <= rows <= config.test_rows:
        raise outside("rows", rows, f"1 to {config.test_rows} (task.test_rows, the test rows of each cell)")
    if config.setting == "two-hop":
        numbers = group_of(config, cell.distribution)[:rows]
        return chains_of(config, numbers, np.full(len(numbers), "atomic" in cell.distribution))
    fields = config.graph_fields
    if cell.value is None:
        numbers, hops = shuffled(Stream("hops", fields.digest, "fact order", 0).key, np.arange(config.facts))[:rows], 1
    else:
        numbers, hops = first_distinct(fields, cell.value, config.test_rows)[:rows], cell.value
    return walks(fields, np.full(len(numbers), hops), numbers)


@lru_cache(maxsize=16)
def kept_walks(fields: GraphFields, hops: int, first: int, count: int) -> Int[np.ndarray, "hops_less_1 {count}"]:
    """For 2, 3, … `hops` hops the numbers of `count` distinct walks after the first `first` of them."""
    if hops == 1:
        return np.zeros((0, count), np.int64)
    return np.stack([first_distinct(fields, k, first + count)[first:] for k in range(2, hops + 1)])


def training_size(config: HopsConfig) -> int:
    """Rows of the fixed training set: every fact, and the pairs or walks."""
    return config.facts + (config.train_pairs if config.setting == "two-hop" else (config.hops - 1) * config.train_rows)


def training_rows(config: HopsConfig, places_in_set: Int[np.ndarray, "batch"]) -> Chains:
    """Rows of the fixed training set: the facts in their order, then pairs, or walks of 2, 3, … hops."""
    beyond = places_in_set - config.facts
    is_fact = beyond < 0
    at = np.maximum(beyond, 0)
    if config.setting == "two-hop":
        return chains_of(config, np.where(is_fact, places_in_set, pairs_of(config).train[at]), is_fact)
    if is_fact.all():
        return walks(config.graph_fields, np.ones(len(at), np.int64), places_in_set)
    kept = kept_walks(config.graph_fields, config.hops, config.test_rows + config.validation_rows, config.train_rows)
    hops = at // config.train_rows
    numbers = np.where(is_fact, places_in_set, kept[hops, at % config.train_rows])
    return walks(config.graph_fields, np.where(is_fact, 1, hops + 2), numbers)


def training_stream(config: HopsConfig, key: int, indices: Int[np.ndarray, "batch"]) -> Chains:
    """The fixed set in the order of `key`: another one each epoch (see `core.permutation`)."""
    return training_rows(config, places(key, indices, training_size(config)))
