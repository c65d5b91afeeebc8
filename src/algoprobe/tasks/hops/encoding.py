"""Chains as tokens, and back. The answer is read from the last column; its token is the entity's name.

0 is padding, 1..E the entities, E+1..E+R the relations, E+R+1 the query Q. Rows of the k-hop setting, on the right:

    PAD … PAD | head r1 … rk Q        (`answer_at` query)
    PAD … PAD | head r1 … rk          (last)

Two-hop rows look so with `last`. Otherwise they all have the same columns, so that a learned position means the same in
each, and a fact alone has Q in the place of a second relation:

    head r1 r2 Q  |  head r1 Q Q      (query)
    head r1 r2    |  head r1 Q        (padded)

The paper pads rows on the right, reads at the last column and hides padding from attention. There every padding column
computes the same, so one query token stands for all of them. The paper's six unused marks have no token here.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Int

from algoprobe.core.errors import UsageError
from algoprobe.core.sizes import Sizes
from algoprobe.tasks.batch import Batch

from .chains import Chains
from .config import HopsConfig
from .graph import graph_of


def sizes(config: HopsConfig) -> Sizes:
    """The shapes a model needs; rows as long as the longest of training and test."""
    hops = 2 if config.setting == "two-hop" else max(config.hops, config.n)
    return Sizes(config.vocabulary, 1 + hops + (config.answer_at == "query"), config.vocabulary)


def encode(chains: Chains, config: HopsConfig, index: Int[np.ndarray, "batch"]) -> Batch:
    """The rows as a `Batch`, as long as its longest row; `index` is handed through."""
    E, query, ask = config.entities, config.vocabulary - 1, int(config.answer_at == "query")
    rows, hops = len(chains), chains.hops
    filled = config.setting == "two-hop" and config.answer_at != "last"
    longest = 2 if filled else int(hops.max(initial=1))
    width = 1 + longest + ask
    shown = np.zeros((rows, longest), np.int64)
    given = min(longest, chains.relations.shape[1])
    shown[:, :given] = chains.relations[:, :given]
    line = np.concatenate([chains.head[:, None], np.where(shown == 0, query, shown + E)], axis=1)
    if ask:
        line = np.concatenate([line, np.full((rows, 1), query)], axis=1)
    if filled:
        lengths = np.full(rows, width)
    else:
        lengths = 1 + hops + ask
        # Queries stand after the last relation up to the full width, so shifting a row leaves its own one.
        place = np.arange(width) - (width - lengths)[:, None]
        line = np.where(place < 0, 0, np.take_along_axis(line, np.maximum(place, 0), axis=1))
    answer = chains.answer.astype(np.int64)
    accepted = np.zeros((rows, 1, config.vocabulary), np.bool_)
    accepted[np.arange(rows), 0, answer] = True
    axes = {"hops": hops}
    return Batch(line.astype(np.int16)[..., None], lengths, answer[:, None], accepted, axes, index, source=chains)


def decode(tokens: Int[np.ndarray, "batch length 1"], config: HopsConfig) -> Chains:
    """The chains that rows of tokens describe, followed along the facts; the inverse of `encode`.

    Raises `UsageError` on a row that does not follow the layout or that asks for a fact that is not there.
    """
    E, query, ask = config.entities, config.vocabulary - 1, int(config.answer_at == "query")
    line = tokens[..., 0].astype(np.int64)
    width = line.shape[1]
    padding = (line == 0).sum(1)
    at = np.minimum(padding, max(width - 1, 0))
    place = np.arange(width) + at[:, None]
    line = np.where(place < width, np.take_along_axis(line, np.minimum(place, width - 1), axis=1), query)
    head, rest = line[:, 0], line[:, 1:]
    relations = np.where((rest > E) & (rest < query), rest - E, 0)
    hops = (relations > 0).cumprod(1).sum(1)
    chains = Chains(
        np.zeros((len(line), relations.shape[1] + 1), np.int32), relations.astype(np.int32), hops,
        np.ones(len(line), np.int64), E, config.relations,
    )  # fmt: skip
    led = graph_of(config.graph_fields).follow(np.clip(head - 1, 0, E - 1), relations - 1) + 1
    steps = np.arange(relations.shape[1] + 1)
    chains.entities[:] = np.where(steps <= hops[:, None], led, 0)
    least = 1 + ask
    good = (head >= 1) & (head <= E) & (hops >= 1) & (width > least) & (chains.answer > 0)
    again = encode(chains, config, np.arange(len(line))).tokens[..., 0].astype(np.int64) if good.all() else None
    if again is not None:
        short = np.zeros((len(line), max(0, width - again.shape[1])), np.int64)
        good &= (np.concatenate([short, again], axis=1)[:, -width:] == tokens[..., 0]).all(1)
    if not good.all():
        row = int(np.argmin(good))
        raise UsageError(
            f"tokens: row {row} does not follow the layout of task.answer_at {config.answer_at!r}; allowed: a head "
            f"from 1 to {E}, relations from {E + 1} to {query - 1} that lead somewhere, {query} as the query, "
            "padding only on the left."
        )
    return chains
