"""Ground truth for the models built by hand: what they compute, in whole numbers, without a transformer."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np

from algoprobe.probes.circuits import Layout
from algoprobe.tasks.search import SearchConfig, SearchTask
from algoprobe.tasks.search.graphs import Graphs

Edge = tuple[int, int]


def graphs_with_a_free_id(n: int, rows: int, encoding: str, lookahead: int | None = None) -> list[Layout]:
    """Layouts of test rows that leave a vertex id unused, over all lookaheads (or one) and the naive cell."""
    drawn = max(3 * rows, 20)
    task = SearchTask(SearchConfig(n=n, encoding=encoding, test_rows=drawn))
    found = []
    for cell in task.cells():
        if lookahead in (None, cell.value):
            graphs: Graphs = task.test(cell, drawn).source
            free = [row for row in range(len(graphs)) if graphs.vertex_count[row] < graphs.vertices]
            found += [Layout.of(graphs, row, encoding) for row in free[:rows]]
    return found


def ways(layout: Layout, removed: tuple[int, Edge, Edge] | None = None, blind: Edge | None = None) -> Counter:
    """Logits of `path_merger`: for each child of the start the number of ways in which the goal was merged into it.

    `removed` leaves out the merge of an edge's set into another's in one layer; `blind` is an edge whose target is not
    read in the first layer.
    """
    ways = {edge: Counter({} if edge == blind else {edge[1]: 1}) for edge in layout.edges}
    for layer in range(1, math.ceil(math.log2(layout.vertices)) + 1):
        before = {edge: Counter(count) for edge, count in ways.items()}
        for into in layout.edges:
            for other in layout.edges:
                if before[into][other[0]] > 0 and removed != (layer, into, other):
                    ways[into] += before[other]
    found = Counter()
    for u, v in layout.edges:
        if u == layout.start and (u, v) != blind:
            found[v] += ways[u, v][layout.goal]
    return found


def column_of(layout: Layout, edge: Edge) -> int:
    """The column that stands for an edge: its source token in `triples`."""
    index = layout.edges.index(edge)
    return index if layout.encoding == "packed" else 3 * index + 1


def merges_of_path_merger(layout: Layout) -> set[tuple[int, int, int]]:
    """(step, destination, source) of every operation without which the answer's logit is lower."""
    full = ways(layout)
    answer = max(sorted(full), key=full.__getitem__)
    doublings, found = math.ceil(math.log2(layout.vertices)), set()
    for edge in layout.edges:
        if layout.encoding == "triples" and ways(layout, blind=edge)[answer] < full[answer]:
            found.add((0, column_of(layout, edge), column_of(layout, edge) + 1))
        for other in layout.edges:
            for layer in range(1, doublings + 1):
                if ways(layout, removed=(layer, edge, other))[answer] < full[answer]:
                    found.add((layer, column_of(layout, edge), column_of(layout, other)))
    for edge in layout.edges:
        if edge == (layout.start, answer):
            goal = layout.last if layout.encoding == "packed" else layout.goal_slot
            found.add((doublings + 1, column_of(layout, edge), goal))
            found.add((doublings + 3, layout.last, column_of(layout, edge)))
    return found


def logits(model, layout: Layout) -> np.ndarray:
    """The model's logits of every vertex id."""
    import torch

    with torch.no_grad():
        tokens = torch.from_numpy(layout.tokens)[None]
        return model(tokens, torch.tensor([layout.columns]), read=1)[0, 0, : layout.vertices + 1].numpy()
