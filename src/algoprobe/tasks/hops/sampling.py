"""Walks along the facts as kernels, one stream for each number of hops.

A row of k hops is a random walk: a uniform head, then k times a uniform fact of the entity it stands on. Source:
*Loop, Think, & Generalize* (arXiv 2604.07822), App. B and the authors' generator.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from jaxtyping import Int, UInt64
from numba import njit

from algoprobe.core.generator import GOLDEN, begin, below, mix
from algoprobe.core.stream import Stream

from .chains import Chains
from .config import GraphFields, HopsConfig
from .graph import graph_of


@njit(inline="always")
def _walk(state, relation, tail, hops, names, passed):
    """A random walk into `names` (relations) and `passed` (entities), all from 1; its hash."""
    here = below(state, len(tail))
    passed[0] = here + 1
    value = mix(np.uint64(here + 1) + GOLDEN)
    for hop in range(hops):
        place = below(state, tail.shape[1])
        names[hop] = relation[here, place] + 1
        value = mix(value ^ (np.uint64(names[hop]) * GOLDEN))
        here = tail[here, place]
        passed[hop + 1] = here + 1
    return value


@njit(cache=True)
def _walks(keys, hops, numbers, relation, tail, names, passed, values):
    """Walk number `numbers[row]` of the stream of walks of `hops[row]` hops; of one hop the fact of that number."""
    state = np.empty(2, np.uint64)
    for row in range(len(hops)):
        if hops[row] == 1:
            head, place = numbers[row] // tail.shape[1], numbers[row] % tail.shape[1]
            names[row, 0] = relation[head, place] + 1
            passed[row, 0] = head + 1
            passed[row, 1] = tail[head, place] + 1
            continue
        begin(state, keys[hops[row]], numbers[row])
        values[row] = _walk(state, relation, tail, hops[row], names[row], passed[row])


@njit(cache=True)
def _fresh(key, indices, most, reserved, relation, tail, hops, names, passed, attempts):
    """Walks of 1..most hops, drawn again while they are reserved. `reserved[k]`: sorted hashes of those of k hops."""
    state = np.empty(2, np.uint64)
    for row in range(len(indices)):
        begin(state, key, indices[row])
        hops[row] = 1 + below(state, most)
        while True:
            attempts[row] += 1
            value = _walk(state, relation, tail, hops[row], names[row], passed[row])
            if hops[row] == 1:
                break
            kept = reserved[hops[row]]
            at = np.searchsorted(kept, value)
            if at == len(kept) or kept[at] != value:
                break


@lru_cache(maxsize=64)
def _keys(fields: GraphFields, most: int) -> UInt64[np.ndarray, "most_1"]:
    """The stream of walks of k hops at place k."""
    return np.array([Stream("hops", f"{fields.digest} {k}", "walks", 0).key for k in range(most + 1)], np.uint64)


def _numbered(fields: GraphFields, hops: np.ndarray, numbers: np.ndarray) -> tuple[Chains, np.ndarray]:
    graph, rows, most = graph_of(fields), len(hops), int(hops.max(initial=1))
    names, passed, values = (
        np.zeros((rows, most), np.int32),
        np.zeros((rows, most + 1), np.int32),
        np.zeros(rows, np.uint64),
    )
    _walks(_keys(fields, most), hops, numbers, graph.relation, graph.tail, names, passed, values)
    return Chains(passed, names, hops, np.ones(rows, np.int64), fields.entities, fields.relations), values


def walks(fields: GraphFields, hops: Int[np.ndarray, "batch"], numbers: Int[np.ndarray, "batch"]) -> Chains:
    """Walk number `numbers` of the stream of walks of `hops` hops; of one hop the fact of that number."""
    return _numbered(fields, np.ascontiguousarray(hops, np.int64), np.ascontiguousarray(numbers, np.int64))[0]


@lru_cache(maxsize=2048)
def _distinct(fields: GraphFields, hops: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    drawn = count + count // 8 + 64
    while True:
        _, values = _numbered(fields, np.full(drawn, hops), np.arange(drawn))
        first = np.sort(np.unique(values, return_index=True)[1])
        if len(first) >= count:
            return first[:count], values[first[:count]]
        drawn *= 2


def first_distinct(fields: GraphFields, hops: int, count: int) -> Int[np.ndarray, "{count}"]:
    """Numbers of the first `count` walks of `hops` hops that no earlier walk equals; more begin with the same."""
    return _distinct(fields, hops, count)[0]


@lru_cache(maxsize=64)
def _reserved(fields: GraphFields, most: int, kept: int) -> UInt64[np.ndarray, "most_1 {kept}"]:
    """At place k, from 2, the sorted hashes of the first `kept` distinct walks of k hops."""
    table = np.zeros((most + 1, kept), np.uint64)
    for k in range(2, most + 1):
        table[k] = np.sort(_distinct(fields, k, kept)[1])
    return table


def fresh(config: HopsConfig, key: int, indices: Int[np.ndarray, "batch"]) -> Chains:
    """Rows of an endless training stream of up to `config.hops` hops; none is a test or validation row."""
    fields, rows, most = config.graph_fields, len(indices), config.hops
    graph, table = graph_of(fields), _reserved(fields, most, config.rows_kept)
    names, passed = np.zeros((rows, most), np.int32), np.zeros((rows, most + 1), np.int32)
    hops, attempts = np.zeros(rows, np.int64), np.zeros(rows, np.int64)
    _fresh(
        np.uint64(key), np.ascontiguousarray(indices, np.int64), most, table, graph.relation, graph.tail, hops, names,
        passed, attempts,
    )  # fmt: skip
    # A walk that was drawn again is as long as the one before it, so nothing of that is left.
    longest = int(hops.max(initial=1))
    chains = names[:, :longest], passed[:, : longest + 1]
    return Chains(chains[1], chains[0], hops, attempts, fields.entities, fields.relations)
