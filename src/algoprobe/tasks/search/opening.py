"""Search rows for lenses: corrupted partners, kinds of columns, and facts about single edges."""

from __future__ import annotations

import dataclasses
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float, Int

from algoprobe.core.errors import UsageError
from algoprobe.tasks.batch import Batch
from algoprobe.tasks.openable import Pair

from .encoding import encode
from .graphs import Graphs
from .solver import solve, unpack

Encoding = Literal["triples", "packed"]
QUERY, PADDING = -1, -2


def distances(graphs: Graphs, end: Literal["start", "goal"]) -> Int[np.ndarray, "batch ids"]:
    """Edges on a shortest path from the start to vertex v (`end="start"`) or from v to the goal; -1: there is none."""
    found = np.full((len(graphs), graphs.vertices + 1), -1)
    for v in range(1, graphs.vertices + 1):
        here = np.full(len(graphs), v)
        ends = (graphs.start, here) if end == "start" else (here, graphs.goal)
        length = solve(graphs.edges, graphs.edge_count, *ends, graphs.vertices).path_length
        found[:, v] = np.where(ends[0] == ends[1], 0, length)
    return found


def edge_at(graphs: Graphs, encoding: Encoding, columns: int) -> Int[np.ndarray, "batch columns"]:
    """The number of the edge that each column belongs to; `QUERY` or `PADDING` where it belongs to none."""
    each, rest = (3, 5) if encoding == "triples" else (1, 1)
    used = each * graphs.edge_count[:, None]
    place = np.arange(columns) - (columns - rest - used)
    return np.where(place < 0, PADDING, np.where(place >= used, QUERY, place // each))


def at_edges(
    values: Bool[np.ndarray, "batch V"] | Float[np.ndarray, "batch V"], at: Int[np.ndarray, "batch columns"]
) -> Bool[np.ndarray, "batch columns"] | Float[np.ndarray, "batch columns"]:
    """What `values` says of the edge at each column; elsewhere that of edge 0, for callers to cover."""
    return np.take_along_axis(values, np.maximum(at, 0), axis=1)


def edge_kinds(graphs: Graphs) -> dict[str, Bool[np.ndarray, "batch V"]]:
    """Edges on a shortest path, other edges out of the start, other reachable edges, and those out of reach."""
    source, target = graphs.edges[..., 0].astype(np.int64), graphs.edges[..., 1].astype(np.int64)
    before = np.take_along_axis(distances(graphs, "start"), source, axis=1)
    after = np.take_along_axis(distances(graphs, "goal"), target, axis=1)
    first = source == graphs.start[:, None]
    path = (before >= 0) & (after >= 0) & (before + 1 + after == graphs.path_length[:, None])
    return {
        "path, first edge": path & first,
        "path, later edge": path & ~first,
        "other first edge": ~path & first,
        "other reachable edge": ~path & ~first & (before >= 0),
        "unreachable edge": before < 0,
    }


def column_kinds(batch: Batch, encoding: Encoding) -> dict[str, Bool[np.ndarray, "batch columns"]]:
    """The query, then the kinds of edges; all columns of one edge are of its kind."""
    at = edge_at(batch.source, encoding, batch.tokens.shape[1])
    kinds = {name: at_edges(kind, at) & (at >= 0) for name, kind in edge_kinds(batch.source).items()}
    return {"query": at == QUERY} | kinds


def column_targets(batch: Batch, encoding: Encoding, most: int) -> dict[str, Float[np.ndarray, "batch columns"]]:
    """For k = 0..`most`, at the last column of every edge (u, v), as 0 or 1:

    `from_start_k`: u can be reached from the start in at most k steps; `to_goal_k`: the goal from v in at most k.
    At the last column of the row, as a vertex id: `path_back_k`, the vertex k steps before the goal on the shortest
    path, where there is one path and it is so long.
    """
    graphs, columns = batch.source, batch.tokens.shape[1]
    at = edge_at(graphs, encoding, columns)
    ends = np.concatenate([at[:, 1:] != at[:, :-1], np.ones((len(at), 1), bool)], axis=1) & (at >= 0)
    found = {}
    for name, end, side in (("from_start", "start", 0), ("to_goal", "goal", 1)):
        far = np.take_along_axis(distances(graphs, end), graphs.edges[..., side].astype(np.int64), axis=1)
        far = at_edges(far.astype(np.float64), at)
        for k in range(most + 1):
            found[f"{name}_{k}"] = np.where(ends, (far >= 0) & (far <= k), np.nan)
    before, after = distances(graphs, "start"), distances(graphs, "goal")
    path = (before >= 0) & (after >= 0) & (before + after == graphs.path_length[:, None])
    for k in range(most + 1):
        here = path & (after == k)
        found[f"path_back_{k}"] = np.full(at.shape, np.nan)
        found[f"path_back_{k}"][:, -1] = np.where(here.sum(1) == 1, here.argmax(1), np.nan)
    return found


def pair(batch: Batch, encoding: Encoding) -> Pair:
    """Each row beside the same graph and start with its goal moved to another branch.

    The new goal is a vertex none of whose right answers is right for the old one; of those the one whose shortest path
    comes nearest in length, then in lookahead, then the smallest id (ids are random). Rows without one are left out.
    """
    graphs, rows = batch.source, np.arange(len(batch))
    goals = np.arange(1, graphs.vertices + 1)
    solved = [
        solve(graphs.edges, graphs.edge_count, graphs.start, np.full(len(rows), goal), graphs.vertices)
        for goal in goals
    ]
    right, length, lookahead = (
        np.stack([getattr(one, name) for one in solved]) for name in ("right", "path_length", "lookahead")
    )
    apart = (length > 0) & ((right & graphs.right) == 0).all(-1)
    cost = abs(length - graphs.path_length) * graphs.vertices + abs(lookahead - graphs.lookahead)
    chosen = np.where(apart, cost.astype(np.float64), np.inf).argmin(0)
    kept = rows[apart.any(0)]
    if not len(kept):
        raise UsageError(f"rows: none of the {len(batch)} rows has a branch that another goal could stand on")
    clean, chosen = graphs[kept], chosen[kept]
    answers = right[chosen, kept]
    moved = dataclasses.replace(
        clean,
        goal=goals[chosen].astype(np.int32),
        label=unpack(answers, graphs.vertices).argmax(1).astype(np.int32),
        right=answers,
        lookahead=lookahead[chosen, kept],
        path_length=length[chosen, kept],
    )
    before, after = (encode(found, encoding, batch.index[kept]) for found in (clean, moved))
    ours, theirs = column_kinds(before, encoding), column_kinds(after, encoding)
    path, other = (kinds["path, first edge"] | kinds["path, later edge"] for kinds in (ours, theirs))
    groups = {"query": ours["query"], "clean path": path, "corrupted path": other & ~path}
    for name in ("other first edge", "other reachable edge", "unreachable edge"):
        groups[name] = ours[name] & ~other
    return Pair(before, after, groups)
