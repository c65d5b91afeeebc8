"""The facts: a graph whose edges are (head, relation, tail), drawn once from the config and cached."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from jaxtyping import Int, Int32
from numba import njit

from algoprobe.core.generator import begin, below, draw
from algoprobe.core.stream import Stream

from .config import GraphFields


@dataclass(frozen=True)
class Graph:
    """Facts of entities 0..E-1 over relations 0..R-1. Fact number f = head · out_degree + place among its facts."""

    relation: Int32[np.ndarray, "E degree"]
    """The relations of each head, ascending."""
    tail: Int32[np.ndarray, "E degree"]
    """Where each leads."""
    relations: int
    """R."""

    @cached_property
    def step(self) -> Int32[np.ndarray, "E R"]:
        """The tail of every head under every relation; -1 where there is no such fact."""
        table = np.full((len(self.tail), self.relations), -1, np.int32)
        np.put_along_axis(table, self.relation.astype(np.int64), self.tail, axis=1)
        return table

    def follow(
        self, head: Int[np.ndarray, "batch"], relations: Int[np.ndarray, "batch most"]
    ) -> Int[np.ndarray, "batch most_1"]:
        """Head and what each relation leads to; -1 from the first missing fact on. A relation of -1 stays in place."""
        found = np.empty((len(head), relations.shape[1] + 1), np.int64)
        found[:, 0] = head
        for j in range(relations.shape[1]):
            here, by = found[:, j], relations[:, j]
            led = self.step[np.maximum(here, 0), np.maximum(by, 0)]
            found[:, j + 1] = np.where(by < 0, here, np.where(here < 0, -1, led))
        return found


@njit(cache=True)
def _draw_facts(key, relations, permutation, relation, tail):
    E, degree = relation.shape
    state = np.empty(2, np.uint64)
    order = np.empty(max(E, relations), np.int64)
    if permutation:
        for r in range(relations):
            begin(state, key, r)
            for v in range(E):
                order[v] = v
            for v in range(E - 1, 0, -1):
                j = below(state, v + 1)
                order[v], order[j] = order[j], order[v]
            for head in range(E):
                relation[head, r] = r
                tail[head, r] = order[head]
        return
    for head in range(E):
        begin(state, key, head)
        for r in range(relations):
            order[r] = r
        for place in range(degree):
            j = place + below(state, relations - place)
            order[place], order[j] = order[j], order[place]
        chosen = np.sort(order[:degree])
        for place in range(degree):
            relation[head, place] = chosen[place]
            tail[head, place] = below(state, E)


@njit(cache=True)
def draws(key, indices, out):
    """Put the first random words of the examples `indices` of stream `key` into the rows of `out`."""
    state = np.empty(2, np.uint64)
    for row in range(len(indices)):
        begin(state, key, indices[row])
        for k in range(out.shape[1]):
            out[row, k] = draw(state)


def random_words(key: int, indices: Int[np.ndarray, "batch"], count: int) -> np.ndarray:
    """`count` random uint64 for each index of a stream, `[batch, count]`."""
    out = np.empty((len(indices), count), np.uint64)
    draws(np.uint64(key), np.ascontiguousarray(indices, np.int64), out)
    return out


def whole_below(words: np.ndarray, bound: int) -> Int[np.ndarray, "..."]:
    """Random words as numbers uniform in 0..bound-1, as `generator.below` makes them."""
    return (((words >> np.uint64(32)) * np.uint64(bound)) >> np.uint64(32)).astype(np.int64)


@lru_cache(maxsize=8)
def graph_of(fields: GraphFields) -> Graph:
    """The facts that `fields` name."""
    shape = fields.entities, fields.out_degree
    relation, tail = np.empty(shape, np.int32), np.empty(shape, np.int32)
    key = Stream("hops", fields.digest, "facts", 0).key
    _draw_facts(np.uint64(key), fields.relations, fields.tails == "permutation", relation, tail)
    for table in (relation, tail):
        table.setflags(write=False)
    return Graph(relation, tail, fields.relations)
