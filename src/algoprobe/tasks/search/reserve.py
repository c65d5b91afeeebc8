"""Test rows: drawn once for every size n (and range of ids), reserved, and never trained on in any edge order.

Row i of a cell is the i-th row of the cell's own stream that no earlier row of the cell equals up to edge order. So the
first rows of a cell stay the same however many are reserved, and every training config of the same n shares them.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from jaxtyping import UInt64

from algoprobe.core.errors import UsageError, outside, unknown
from algoprobe.core.stream import Stream
from algoprobe.tasks.task import Cell

from .config import DISTRIBUTIONS, SearchConfig
from .graphs import Graphs
from .sampling import KINDS, Plan, draw_graphs, make_table, row_hashes

GIVE_UP = 300_000
"""Draws for one test row after which the cell counts as exhausted."""


def cells_of(distribution: str, config: SearchConfig) -> list[Cell]:
    """The test cells of one distribution whose rows exist at this size.

    A naive test row has four vertices or more (start, two children, a goal beyond one of them), and the naive
    distribution draws V-1 at most.
    """
    if distribution == "naive":
        return [Cell("naive", None, "naive")] if config.vertices >= 5 else []
    if distribution in ("star", "balanced"):
        return [Cell("lookahead", l, distribution) for l in range(1, config.lookahead_limit + 1)]
    raise unknown("on", distribution, DISTRIBUTIONS)


def cell_graphs(config: SearchConfig, cell: Cell, rows: int) -> Graphs:
    """The first `rows` test rows of `cell`; at most `config.test_rows`, since only those are kept from training."""
    if cell not in cells_of(cell.distribution, config):
        known = [known.name for name in DISTRIBUTIONS for known in cells_of(name, config)]
        raise unknown("cell", cell.name, known)
    if not 1 <= rows <= config.test_rows:
        raise outside("rows", rows, f"1 to {config.test_rows} (task.test_rows, the rows reserved in each cell)")
    return _cell(_bare(config), cell)[:rows]


def reserved(config: SearchConfig) -> UInt64[np.ndarray, "slots"]:
    """The table of every test row of every standard cell: balanced, naive and star."""
    return _reserved(_bare(config))


def _bare(config: SearchConfig) -> SearchConfig:
    """The fields that decide the test rows, under which they are kept; the rest at its defaults."""
    return SearchConfig(
        n=config.n,
        ids=config.largest_id,
        in_degree=config.in_degree,
        test_edges=config.test_edges,
        test_rows=config.test_rows,
    )


@lru_cache(maxsize=8)
def _reserved(config: SearchConfig) -> np.ndarray:
    cells = [cell for distribution in DISTRIBUTIONS for cell in cells_of(distribution, config)]
    return make_table(np.concatenate([row_hashes(_cell(config, cell)) for cell in cells]))


@lru_cache(maxsize=512)
def _cell(config: SearchConfig, cell: Cell) -> Graphs:
    rows = config.test_rows
    plan = Plan(
        vertices=config.vertices,
        ids=config.largest_id,
        kind=KINDS[cell.distribution],
        lookahead_max=config.lookahead_limit,
        wanted=-1 if cell.value is None else cell.value,
        paper_mix=0,
        in_degree=config.in_degree,
        chain=1,
        test=1,
        grouped=int(config.test_edges == "grouped"),
        limit=GIVE_UP,
    )
    key = Stream("search", f"{config.test_digest} {cell.name}", "test", 0).key
    # The kernel enters each row into this table, so that the cell's rows stay distinct.
    own = np.zeros(1 << int(4 * rows).bit_length(), np.uint64)
    graphs, stuck = draw_graphs(plan, key, np.arange(rows), own)
    if stuck >= 0:
        raise UsageError(
            f"task.test_rows: {rows} is not possible at n = {config.n}; allowed: fewer than {max(2, stuck)}, since the "
            f"cell {cell.name!r} has only {stuck} rows that differ in more than edge order. "
            f"Try {max(1, stuck // 2)} or a larger n."
        )
    return graphs
