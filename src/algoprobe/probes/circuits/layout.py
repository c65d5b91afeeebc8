"""What the columns of one search row stand for.

A *slot* is a place that holds one token: a column of `triples`, one end of an edge (or the start, or the goal) of
`packed`. Sets of places, "what a node knows of", are bit masks over slots.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from jaxtyping import Int

from algoprobe.core.errors import UsageError
from algoprobe.tasks.search.encoding import encode
from algoprobe.tasks.search.graphs import Graphs

from ..circuit_settings import Settings


@dataclass(frozen=True)
class Feature:
    """Something of the input that a patch takes away: a token wherever it stands, a column's position, or a place.

    `packed` has no positions; what tells the query's start and goal by their place is that they are the query's. Such a
    place is patched by leaving the token's embedding out.
    """

    kind: Literal["token", "position", "place"]
    value: int
    """Token id (a vertex, for `packed`), column, or field of the query."""
    tokens: Int[np.ndarray, "columns fields"]
    """The row with the patch; the row itself where something is zeroed."""
    slots: int
    """The slots that the patch changes."""


@dataclass(frozen=True)
class Layout:
    """One row without its padding: tokens, what they stand for, and the graph."""

    encoding: Literal["triples", "packed"]
    vertices: int
    """V."""
    tokens: Int[np.ndarray, "columns fields"]
    slot_vertex: tuple[int, ...]
    """The vertex at each slot; 0 where the token is none (markers)."""
    slots_per_column: int
    edges: tuple[tuple[int, int], ...]
    start: int
    goal: int

    @classmethod
    def of(cls, graphs: Graphs, row: int, encoding: Literal["triples", "packed"]) -> Layout:
        """The layout of one graph of a batch."""
        graph, V = graphs[row : row + 1], graphs.vertices
        tokens = encode(graph, encoding, np.zeros(1, np.int64)).tokens[0].astype(np.int64)
        edges = tuple((int(u), int(v)) for u, v in graph.edges[0, : int(graph.edge_count[0])])
        start, goal = int(graph.start[0]), int(graph.goal[0])
        if encoding == "packed":
            slots = [v for edge in edges for v in edge] + [start, goal]
        else:
            slots = [int(token) if token <= V else 0 for token in tokens[:, 0]]
        return cls(encoding, V, tokens, tuple(slots), tokens.shape[1], edges, start, goal)

    @property
    def columns(self) -> int:
        """n: the columns of the row, without padding."""
        return len(self.tokens)

    @property
    def last(self) -> int:
        """The column that the answer is read from."""
        return self.columns - 1

    @property
    def start_slot(self) -> int:
        """The query's start."""
        return len(self.slot_vertex) - (2 if self.encoding == "packed" else 4)

    @property
    def goal_slot(self) -> int:
        """The query's goal."""
        return len(self.slot_vertex) - (1 if self.encoding == "packed" else 3)

    def own(self, column: int) -> int:
        """The slots of a column itself."""
        k = self.slots_per_column
        return ((1 << k) - 1) << (k * column)

    def initial(self, column: int) -> int:
        """What a node of this column knows of before anything is merged into it.

        The answer's node knows of the start alone: it must be brought the goal.
        """
        return 1 << self.start_slot if self.encoding == "packed" and column == self.last else self.own(column)

    def vertices_of(self, slots: int) -> frozenset[int]:
        """The vertices at a set of slots."""
        return frozenset(v for slot, v in enumerate(self.slot_vertex) if v and slots >> slot & 1)

    @cached_property
    def slots_of(self) -> dict[int, int]:
        """For each vertex the slots where it stands."""
        found: dict[int, int] = {}
        for slot, vertex in enumerate(self.slot_vertex):
            if vertex:
                found[vertex] = found.get(vertex, 0) | 1 << slot
        return found

    @cached_property
    def children(self) -> dict[int, tuple[int, ...]]:
        """The children of each vertex that has some."""
        found: dict[int, list[int]] = {}
        for u, v in self.edges:
            found.setdefault(u, []).append(v)
        return {u: tuple(vs) for u, vs in found.items()}

    def distances(self, source: int, within: frozenset[int] | None = None) -> dict[int, int]:
        """Edges on a shortest path from `source` to each vertex it reaches, through vertices of `within` alone."""
        found, frontier = {source: 0}, [source]
        while frontier:
            following = []
            for u in frontier:
                for v in self.children.get(u, ()):
                    if v not in found and (within is None or v in within):
                        found[v] = found[u] + 1
                        following.append(v)
            frontier = following
        return found

    @cached_property
    def reach(self) -> dict[int, frozenset[int]]:
        """The vertices that each vertex reaches, itself included."""
        return {v: frozenset(self.distances(v)) for v in self.slots_of}

    def longest_path(self, slots: int) -> int:
        """The longest of the shortest paths between vertices at `slots`, in the graph that they induce."""
        inside = self.vertices_of(slots)
        return max((max(self.distances(v, inside).values()) for v in inside), default=0)

    def has_path(self, slots: int) -> bool:
        """Whether the vertices at `slots` contain a path from start to goal."""
        inside = self.vertices_of(slots)
        return self.start in inside and self.goal in self.distances(self.start, inside) and self.goal in inside

    def direction(self, destination: int, source: int) -> str:
        """`forward` when the source column's vertex is reachable from the destination's, `backward` for the reverse.

        Two edges: forward when the source edge's source is reachable from the destination edge's target. `both` for
        one vertex, `none` where neither reaches the other, or a column is no vertex.
        """
        k = self.slots_per_column
        a, b = self.slot_vertex[k * destination : k * destination + k], self.slot_vertex[k * source : k * source + k]
        if not all(a) or not all(b):
            return "none"
        if self.last in (destination, source) and self.encoding == "packed":
            # The query holds a start and a goal: it is an edge to come from on one side, and to reach on the other.
            a, b = (a[::-1] if destination == self.last else a), (b[::-1] if source == self.last else b)
        forward, backward = b[0] in self.reach[a[-1]], a[0] in self.reach[b[-1]]
        return {(True, True): "both", (True, False): "forward", (False, True): "backward"}.get(
            (forward, backward), "none"
        )

    def replacement(self, settings: Settings) -> int:
        """The vertex id that patched tokens become. Raises `UsageError` where every id is in use."""
        if settings.replacement == "zero":
            return 0
        for vertex in range(1, self.vertices + 1):
            if vertex not in self.slots_of:
                return vertex
        raise UsageError(
            f"row: all {self.vertices} vertex ids are in use, so no id is left to patch with; allowed: rows that leave "
            "one, or --replacement zero (the id that no row has)"
        )

    def features(self, settings: Settings, positions: bool) -> list[Feature]:
        """Every token of the row (in `packed`, of each of its roles), every position where there are `positions`, and
        the places of a packed query."""
        new, found = self.replacement(settings), []
        if self.encoding == "packed":
            flat = self.tokens.reshape(-1)
            for field in range(2):
                for vertex, slots in self.slots_of.items():
                    mine = slots & sum(1 << slot for slot in range(field, len(flat) - 2, 2))
                    if mine:
                        found.append(Feature("token", vertex, self._replaced(mine, new), mine))
            for field, slot in enumerate((self.start_slot, self.goal_slot)):
                found.append(Feature("token", self.slot_vertex[slot], self._replaced(1 << slot, new), 1 << slot))
                found.append(Feature("place", field, self.tokens, 1 << slot))
            return found
        for token in dict.fromkeys(int(token) for token in self.tokens[:, 0]):
            slots = sum(1 << column for column in np.flatnonzero(self.tokens[:, 0] == token).tolist())
            found.append(Feature("token", token, self._replaced(slots, new), slots))
        if positions:
            found += [Feature("position", column, self.tokens, 1 << column) for column in range(self.columns)]
        return found

    def _replaced(self, slots: int, new: int) -> Int[np.ndarray, "columns fields"]:
        tokens = self.tokens.copy()
        flat = tokens.reshape(-1)
        for slot in range(len(flat)):
            if slots >> slot & 1:
                # A packed query's ids are V + vertex.
                base = self.vertices if self.encoding == "packed" and slot >= len(flat) - 2 else 0
                flat[slot] = base + new
        return tokens
