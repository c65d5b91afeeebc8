"""Products as rows of tokens, and back.

    a_0 … a_{N-1} * b_0 … b_{M-1} E <chain> # c_0 … c_{N+M-2}

Each column holds what it says and its place, which is one id or two (see `MultiplicationConfig.places`). Ids of what it
says: 0 padding, 1..B the digits 0..B-1, then `*`, `+`, `(`, `)`, `E` (the operands end), `#` (the product begins). The
chain, without separators:

    p_0 + p_1 ( S_1 ) + p_2 ( S_2 ) + … + p_{M-1}

p_j are the digits of a · b_j · B^j and S_j those of p_0 + … + p_j, N + 1 + j each; S_0 and the last would repeat what
stands beside them. c_k is the answer to the column before it, so the last digit is no input. Where a chain is left,
every token after E is an answer; without one the digits alone are. Rows stand on the right; shorter ones have lost more
of the chain.

Source: the data of *From Explicit CoT to Implicit CoT* (arXiv 2405.14838), whose `####` and second separator
are one marker here.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Int

from algoprobe.core.errors import UsageError
from algoprobe.core.sizes import Sizes
from algoprobe.tasks.batch import IGNORE, Batch

from .config import MultiplicationConfig
from .operands import Operands, as_number

MARKS = "*+()E#"


def mark(base: int, sign: str) -> int:
    """The token id of one of `MARKS`."""
    return base + 1 + MARKS.index(sign)


def prompt_length(config: MultiplicationConfig) -> int:
    """Columns up to E: they are given and never answered."""
    return config.digits + config.b_digits + 2


def full_length(config: MultiplicationConfig) -> int:
    """Columns of a row from which nothing was removed."""
    return prompt_length(config) + config.chain_length + config.product_digits


def sizes(config: MultiplicationConfig) -> Sizes:
    """The shapes a model needs. Ids of a column's fields share one range, large enough for each."""
    says, places = config.base + 1 + len(MARKS), place_ids(config)
    ids = max(says, int(places.max()) + 1)
    return Sizes(ids, full_length(config), says, fields=1 + places.shape[1], prompt=prompt_length(config))


def chain_tokens(operands: Operands, config: MultiplicationConfig) -> Int[np.ndarray, "batch K"]:
    """The whole chain of each row."""
    rows, base, last = len(operands), config.base, config.b_digits - 1
    parts: list[np.ndarray] = []

    def sign(which: str) -> None:
        parts.append(np.full((rows, 1), mark(base, which)))

    for j in range(last + 1):
        if j:
            sign("+")
        parts.append(operands.partial_product(j) + 1)
        if 0 < j < last:
            sign("(")
            parts.append(operands.partial_sum(j) + 1)
            sign(")")
    return np.concatenate(parts, axis=1)


def removal_stages(config: MultiplicationConfig) -> list[int]:
    """How many chain tokens are gone in each stage of an implicit chain: none in the first, all in the last."""
    n, m, whole = config.digits, config.b_digits, config.chain_length
    if config.removal == "token":
        return list(range(whole + 1))
    if config.removal == "number":
        # p_0 and `+`; then of each j p_j alone, and `( S_j ) +`; at last p_{M-1}.
        lengths = [n + 2]
        for j in range(1, m - 1):
            lengths += [n + 1 + j, n + 4 + j]
        return [0, *np.cumsum(lengths).tolist(), whole]
    found = [0]
    while found[-1] < whole:
        found.append(found[-1] + -(-(whole - found[-1]) // 2))
    return found


def place_ids(config: MultiplicationConfig) -> Int[np.ndarray, "columns kinds"]:
    """What each column of a whole row says of its place, ids from 1: 0 is for padding.

    Coupled: the weight of its digit plus 2, or 1 for the sign before a number; and which number it belongs to: 1 for
    the whole prompt's marks, then a, b, p_0, p_1, S_1, p_2, … and the product. Else one id, where it stands.
    """
    if config.places != "coupled":
        return np.arange(1, full_length(config) + 1)[:, None]
    n, m, last = config.digits, config.b_digits, config.b_digits - 1
    found: list[tuple[int, int]] = []
    number = 1

    def write(length: int, begins: bool = True, ends: bool = False) -> None:
        """A number of `length` digits, after the sign that begins it and perhaps before the one that ends it."""
        nonlocal number
        number += 1
        found.extend([(1, number)] * begins + [(k + 2, number) for k in range(length)] + [(n + m + 2, number)] * ends)

    write(n, begins=False)  # a; the star begins b
    write(m)
    if config.chain == "none":
        found.append((1, 1))  # E, after which the product's mark follows
    for j in range(m if config.chain != "none" else 0):
        write(n + 1 + j)  # begun by E or by a plus
        if 0 < j < last:
            write(n + 1 + j, ends=True)
    write(n + m)  # begun by its mark
    return np.array(found[: full_length(config)])


def whole_rows(operands: Operands, config: MultiplicationConfig) -> Int[np.ndarray, "batch columns"]:
    """What the columns of each row say, the last digit included, before anything is removed."""
    rows, base = len(operands), config.base

    def sign(which: str) -> np.ndarray:
        return np.full((rows, 1), mark(base, which))

    parts = [operands.a + 1, sign("*"), operands.b + 1, sign("E")]
    if config.chain != "none":
        parts.append(chain_tokens(operands, config))
    return np.concatenate([*parts, sign("#"), operands.product + 1], axis=1)


def encode(
    operands: Operands, config: MultiplicationConfig, removed: Int[np.ndarray, "batch"], index: Int[np.ndarray, "batch"]
) -> Batch:
    """The rows as a `Batch`, each without its first `removed` chain tokens; `index` is handed through."""
    rows, prompt, digits = len(operands), prompt_length(config), config.product_digits
    whole, length = whole_rows(operands, config), full_length(config)
    fewest = int(removed.min(initial=config.chain_length))
    width, chain_left = length - fewest, config.chain_length - fewest
    shift = removed - fewest
    column = np.arange(width + 1) - shift[:, None]
    source = np.where(column < prompt, np.maximum(column, 0), column + removed[:, None])
    says = np.where(column < 0, 0, np.take_along_axis(whole, source, axis=1))
    where = place_ids(config)
    places = where[np.minimum(column[:, :-1] if config.places == "sequence" else source[:, :-1], length - 1)]
    places = np.where(column[:, :-1, None] < 0, 0, places)
    tokens = np.concatenate([says[:, :-1, None], places], axis=2).astype(np.int16)
    read = digits + (chain_left + 1 if chain_left else 0)
    asked = np.arange(width - read, width) >= shift[:, None] + prompt - 1
    targets = np.where(asked, says[:, -read:], IGNORE).astype(np.int64)
    accepted = np.zeros((rows, read, config.base + 1 + len(MARKS)), np.bool_)
    np.put_along_axis(accepted, np.maximum(targets, 0)[..., None], asked[..., None], axis=2)
    axes = {"digits": operands.lengths.max(1), "removed": removed}
    return Batch(tokens, length - removed, targets, accepted, axes, index, source=operands)


def counted_columns(batch: Batch) -> Bool[np.ndarray, "batch read"]:
    """Read columns where not every answer is accepted and one is wanted."""
    return (batch.targets != IGNORE) & ~batch.accepted.all(2)


def decode(says: Int[np.ndarray, "batch columns"], config: MultiplicationConfig) -> Operands:
    """The operands that rows begin with (padding on the left allowed); the inverse of `encode`.

    Raises `UsageError` on a row that does not follow the layout.
    """
    n, m, base = config.digits, config.b_digits, config.base
    start = (says == 0).cumprod(1).sum(1)
    column = start[:, None] + np.arange(n + m + 2)
    if column.max(initial=0) >= says.shape[1]:
        raise UsageError(f"tokens: rows of {n + m + 2} and more columns are wanted, not {says.shape[1]}")
    head = np.take_along_axis(says.astype(np.int64), column, axis=1)
    a, b = head[:, :n] - 1, head[:, n + 1 : n + m + 1] - 1
    good = (head[:, n] == mark(base, "*")) & (head[:, -1] == mark(base, "E"))
    for digits in (a, b):
        good &= ((digits >= 0) & (digits < base)).all(1)
    if not good.all():
        row = int(np.argmin(good))
        raise UsageError(f"tokens: row {row} does not begin with {n} digits, '*', {m} digits and 'E'")
    return Operands(a.astype(np.int16), b.astype(np.int16), base, np.ones(len(a), np.int64))


def numbers_of(operands: Operands, row: int) -> tuple[int, int]:
    """a and b of a row."""
    return as_number(operands.a[row], operands.base), as_number(operands.b[row], operands.base)
