"""Hops rows for lenses: corrupted partners, kinds of columns, and the entity reached after each hop."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float, Int

from algoprobe.core.errors import UsageError
from algoprobe.core.stream import Stream
from algoprobe.tasks.batch import Batch
from algoprobe.tasks.openable import Pair

from .chains import Chains
from .config import HopsConfig
from .encoding import encode
from .graph import graph_of, random_words, whole_below

TRIES = 300
"""Partners tried for a row before it counts as having none."""


def column_kinds(batch: Batch, config: HopsConfig) -> dict[str, Bool[np.ndarray, "batch columns"]]:
    """`head`, `relation 1`, `relation 2`, …, and `query` where rows have one."""
    tokens, relation = batch.tokens[..., 0], relation_at(batch, config)
    kinds = {"head": (tokens > 0) & (tokens <= config.entities)}
    kinds |= {f"relation {j}": relation == j for j in range(1, int(relation.max(initial=0)) + 1)}
    query = tokens == config.vocabulary - 1
    return kinds | ({"query": query} if query.any() else {})


def relation_at(batch: Batch, config: HopsConfig) -> Int[np.ndarray, "batch columns"]:
    """Which relation of its row stands in each column, from 1; 0 where none does."""
    tokens = batch.tokens[..., 0]
    is_relation = (tokens > config.entities) & (tokens < config.vocabulary - 1)
    return np.where(is_relation, is_relation.cumsum(1), 0)


def column_targets(batch: Batch, config: HopsConfig) -> dict[str, Float[np.ndarray, "batch columns"]]:
    """Entity names: `reached` at every relation, the entity it leads to; `after_j` at the last column, for each hop j.

    In a model that follows one fact after the other, `after_1` is the bridge of a two-hop row.
    """
    chains, relation = batch.source, relation_at(batch, config)
    led = np.take_along_axis(chains.entities, np.minimum(relation, chains.entities.shape[1] - 1), axis=1)
    found = {"reached": np.where(relation > 0, led, np.nan)}
    for j in range(1, int(chains.hops.max(initial=1)) + 1):
        values = np.full(relation.shape, np.nan)
        values[:, -1] = np.where(chains.hops >= j, chains.entities[:, j], np.nan)
        found[f"after_{j}"] = values
    return found


def pair(batch: Batch, config: HopsConfig) -> Pair:
    """Each row beside one of another head and first relation, the other relations the same, with another answer.

    The partner is the first of a stream of random facts, which the row's index names, from which the other relations
    lead somewhere else. Rows without one in 300 are left out. Source: activation patching in arXiv 2604.07822, App. E.
    """
    chains, graph = batch.source, graph_of(config.graph_fields)
    relations, degree = chains.relations.astype(np.int64) - 1, config.out_degree
    rest = relations.copy()
    rest[:, 0] = -1
    partner = np.full(len(chains), -1)
    led = np.zeros(chains.entities.shape, np.int64)
    for turn in range(TRIES):
        open_rows = np.flatnonzero(partner < 0)
        if not len(open_rows):
            break
        key = Stream("hops", config.graph_fields.digest, "partners", turn).key
        fact = whole_below(random_words(key, batch.index[open_rows], 1)[:, 0], config.facts)
        path = graph.follow(graph.tail.reshape(-1)[fact].astype(np.int64), rest[open_rows])
        path[:, 0] = fact // degree
        end = path[:, -1] + 1
        good = (end > 0) & (end != chains.answer[open_rows]) & (path[:, 0] + 1 != chains.head[open_rows])
        partner[open_rows[good]], led[open_rows[good]] = fact[good], path[good]
    kept = np.flatnonzero(partner >= 0)
    if not len(kept):
        raise UsageError(
            f"rows: none of the {len(batch)} rows has a partner with the same relations and another answer"
        )
    clean, fact = chains[kept], partner[kept]
    names = clean.relations.copy()
    names[:, 0] = graph.relation.reshape(-1)[fact] + 1
    inside = np.arange(clean.entities.shape[1]) <= clean.hops[:, None]
    moved = Chains(
        np.where(inside, led[kept] + 1, 0).astype(np.int32), names, clean.hops, clean.attempts, config.entities,
        config.relations,
    )  # fmt: skip
    before, after = (encode(found, config, batch.index[kept]) for found in (clean, moved))
    return Pair(before, after, column_kinds(before, config))
