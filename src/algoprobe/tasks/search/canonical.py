"""Certificates of rows up to edge order and renaming: colour refinement with start and goal singled out.

Every vertex starts with a colour that says whether it is the start, the goal or neither; a round replaces it by a hash
of itself, the multiset of its children's colours and that of its parents'. Rounds go on until no round splits a class.
The certificate hashes the final multiset of vertex and edge colours. Equal rows up to renaming have equal certificates;
the converse can fail (colour refinement does not tell all graphs apart), so a count of hits is an upper bound.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import UInt64
from numba import njit

from algoprobe.core.generator import mix

from .bits import ZERO
from .graphs import Graphs

CHILD = np.uint64(0xA24BAED4963EE407)
PARENT = np.uint64(0x9FB21C651E98DF25)


@njit(cache=True)
def _certificates(edges, edge_count, start, goal, out, colours):
    most = colours.shape[1]
    gathered = np.zeros(most, np.uint64)
    ordered = np.zeros(most, np.uint64)
    present = np.zeros(most, np.bool_)
    vertices = np.zeros(most, np.int64)
    for row in range(len(edges)):
        E = edge_count[row]
        colour = colours[row if len(colours) > 1 else 0]
        present[:] = False
        for e in range(E):
            present[edges[row, e, 0]] = True
            present[edges[row, e, 1]] = True
        N = 0
        for v in range(most):
            if present[v]:
                vertices[N] = v
                N += 1
                colour[v] = mix(np.uint64(1))
        colour[start[row]] = mix(np.uint64(2))
        colour[goal[row]] = mix(np.uint64(3))
        classes = 0
        while True:
            for i in range(N):
                gathered[vertices[i]] = ZERO
            for e in range(E):
                u, v = edges[row, e, 0], edges[row, e, 1]
                gathered[u] += mix(colour[v] ^ CHILD)
                gathered[v] += mix(colour[u] ^ PARENT)
            for i in range(N):
                v = vertices[i]
                colour[v] = mix(colour[v] + mix(gathered[v]))
                # Insertion sort: at these sizes faster than calling a sort.
                j = i
                while j > 0 and ordered[j - 1] > colour[v]:
                    ordered[j] = ordered[j - 1]
                    j -= 1
                ordered[j] = colour[v]
            now = 0
            for i in range(N):
                if i == 0 or ordered[i] != ordered[i - 1]:
                    now += 1
            if now == classes:
                break
            classes = now
        total = ZERO
        for i in range(N):
            total += mix(colour[vertices[i]])
        for e in range(E):
            total += mix(colour[edges[row, e, 0]] * CHILD + colour[edges[row, e, 1]])
        out[row] = mix(total)


def certificates(graphs: Graphs) -> UInt64[np.ndarray, "batch"]:
    """One 64-bit certificate a row."""
    out = np.zeros(len(graphs), np.uint64)
    # One line of colours is reused: nobody reads them here.
    colours = np.zeros((1, graphs.vertices + 1), np.uint64)
    _certificates(graphs.edges, graphs.edge_count, graphs.start, graphs.goal, out, colours)
    return out


def isomorphic(one: Graphs, other: Graphs, row: int, other_row: int) -> bool:
    """Whether two rows are equal up to edge order and renaming, start and goal kept; decided exactly by networkx.

    Every isomorphism keeps the refined colours, so offering only partners of equal colour loses none and saves a search
    that is exponential on graphs with many equal branches.
    """
    import networkx as nx

    def graph(graphs: Graphs, i: int) -> nx.DiGraph:
        single = graphs[i : i + 1]
        colours = np.zeros((1, graphs.vertices + 1), np.uint64)
        out = np.zeros(1, np.uint64)
        _certificates(single.edges, single.edge_count, single.start, single.goal, out, colours)
        made = nx.DiGraph()
        made.add_edges_from(map(tuple, single.edges[0, : single.edge_count[0]].tolist()))
        for v in made:
            made.nodes[v]["colour"] = int(colours[0, v])
        return made

    return nx.vf2pp_is_isomorphic(graph(one, row), graph(other, other_row), node_label="colour")
