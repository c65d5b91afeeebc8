"""What lenses can ask of multiplication rows: columns by name, sums and carries on the way, rows to swap with."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from jaxtyping import Bool, Float, Int
from numba import njit

from algoprobe.core.errors import UsageError
from algoprobe.core.generator import begin, below
from algoprobe.core.stream import Stream
from algoprobe.tasks.batch import Batch
from algoprobe.tasks.openable import Pair

from .config import MultiplicationConfig
from .encoding import encode
from .operands import Operands
from .sampling import TRAIN, drawn

TRIES = 300


def column_names(config: MultiplicationConfig) -> list[str]:
    """The name of each column of a whole row. A column that answers c_k is `c k`, whatever it holds."""
    a = [f"a{i}" for i in range(config.digits)]
    b = [f"b{j}" for j in range(config.b_digits)]
    answers = [f"→c{k}" for k in range(config.product_digits)]
    return [*a, "*", *b, "E", *["chain"] * config.chain_length, *answers]


def column_kinds(batch: Batch, config: MultiplicationConfig) -> dict[str, Bool[np.ndarray, "batch columns"]]:
    """a0, a1, …, *, b0, …, E, chain, →c0, →c1, … (the columns that answer these digits)."""
    width, names = batch.tokens.shape[1], column_names(config)
    removed = batch.axes["removed"]
    prompt = config.digits + config.b_digits + 2
    column = np.arange(width) - (width - batch.lengths)[:, None]
    source = np.where(column < prompt, column, column + removed[:, None])
    found = {}
    for name in dict.fromkeys(names):
        at = [place for place, other in enumerate(names) if other == name]
        mask = np.isin(source, at) & (column >= 0)
        if mask.any():
            found[name] = mask
    return found


def at_answers(batch: Batch, values: Int[np.ndarray, "batch NM"]) -> Float[np.ndarray, "batch columns"]:
    """`values` at the columns that answer the digits of the product, NaN elsewhere."""
    found = np.full(batch.tokens.shape[:2], np.nan)
    found[:, -values.shape[1] :] = values
    return found


def each_digit(
    batch: Batch, name: str, values: Int[np.ndarray, "batch NM"]
) -> dict[str, Float[np.ndarray, "batch columns"]]:
    """`name_k`: column k of `values`, at the column that answers c_k."""
    digits, found = values.shape[1], {}
    for k in range(digits):
        found[f"{name}_{k}"] = np.full(batch.tokens.shape[:2], np.nan)
        found[f"{name}_{k}"][:, k - digits] = values[:, k]
    return found


def column_targets(batch: Batch, config: MultiplicationConfig) -> dict[str, Float[np.ndarray, "batch columns"]]:
    """`digit_k` is c_k and `carry_k` is r_k, at the column that answers c_k."""
    source = batch.source
    carries = source.running_sums // config.base
    return each_digit(batch, "digit", source.product) | each_digit(batch, "carry", carries)


def column_numbers(batch: Batch, config: MultiplicationConfig) -> dict[str, Float[np.ndarray, "batch columns"]]:
    """`running_sum_k` is ĉ_k and `product_sum_k` is s_k, at the column that answers c_k."""
    source = batch.source
    return each_digit(batch, "running_sum", source.running_sums) | each_digit(batch, "product_sum", source.product_sums)


def pair(batch: Batch, config: MultiplicationConfig) -> Pair:
    """Each row beside other operands whose product differs at every digit.

    The partner is the first such of a stream that the row's index names. Rows without one in 300 are left out.
    """
    clean: Operands = batch.source
    partner, done = clean, np.zeros(len(batch), np.bool_)
    a, b = clean.a.copy(), clean.b.copy()
    for turn in range(TRIES):
        rows = np.flatnonzero(~done)
        if not len(rows):
            break
        key = Stream("multiplication", config.test_digest, "partners", turn).key
        other = drawn(config, key, batch.index[rows], TRAIN, mixed=False)
        good = (other.product != clean.product[rows]).all(1)
        a[rows[good]], b[rows[good]], done[rows[good]] = other.a[good], other.b[good], True
    kept = np.flatnonzero(done)
    if not len(kept):
        raise UsageError(f"rows: none of the {len(batch)} rows has a partner with another product in every digit")
    partner = replace(clean, a=a, b=b)
    removed = batch.axes["removed"]
    before, after = (encode(found[kept], config, removed[kept], batch.index[kept]) for found in (clean, partner))
    return Pair(before, after, column_kinds(before, config))


def exchanged_digits(batch: Batch, config: MultiplicationConfig) -> dict[str, Int[np.ndarray, "batch columns fields"]]:
    """For each digit of an operand the rows' tokens with that digit replaced by a random other one, all else kept.

    The leading digit never becomes 0; in base 2 it has no other value and is left out. Each replacement is a pure
    function of the row's index. Source: counterfactual digits, arXiv 2510.00184, §3; the earlier digits of the product
    stay the true ones of the row.
    """
    width = batch.tokens.shape[1]
    start = width - batch.lengths
    found = {}
    for letter, first, count in (("a", 0, config.digits), ("b", config.digits + 1, config.b_digits)):
        for place in range(count):
            least = 1 if place == count - 1 else 0
            if config.base - least < 2:
                continue
            key = Stream("multiplication", config.test_digest, "exchanged", first + place).key
            at = start + first + place
            now = batch.tokens[np.arange(len(batch)), at, 0].astype(np.int64) - 1
            choices = config.base - least - (now >= least)
            drawn_ = least + (random_below(key, batch.index, choices))
            new = drawn_ + ((now >= least) & (drawn_ >= now))
            tokens = batch.tokens.copy()
            tokens[np.arange(len(batch)), at, 0] = new + 1
            found[f"{letter}{place}"] = tokens
    return found


def random_below(key: int, index: Int[np.ndarray, "batch"], bound: Int[np.ndarray, "batch"]) -> np.ndarray:
    """A uniform whole number from 0 to below `bound` for each row, a pure function of `key` and the row's index."""
    out = np.empty(len(index), np.int64)
    _random_below(np.uint64(key), np.ascontiguousarray(index, np.int64), bound.astype(np.int64), out)
    return out


@njit(cache=True)
def _random_below(key, index, bound, out):
    state = np.empty(2, np.uint64)
    for row in range(len(index)):
        begin(state, key, index[row])
        out[row] = below(state, bound[row])
