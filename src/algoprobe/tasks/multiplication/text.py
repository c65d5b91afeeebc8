"""Rows as text, as the data of *From Explicit CoT to Implicit CoT* (arXiv 2405.14838) has them, and as GPT-2's tokens.

Stored:   `6 0 7 4 * 9 5 1 3||4 5 3 2 4 + … #### 4 5 2 6 6 8 4 1`
Trained:  ` 6 0 7 4 * 9 5 1 3 E 4 5 3 2 4 + … E #### 4 5 2 6 6 8 4 1 E` with E = `<|endoftext|>`

Digits of bases above ten are the letters a, b, …
"""

from __future__ import annotations

from typing import Any

import numpy as np

from algoprobe.core.errors import UsageError, outside

from .config import MultiplicationConfig
from .encoding import MARKS, chain_tokens
from .operands import SIGNS, Operands, as_digits

END = "<|endoftext|>"


def operands_of(pairs: list[tuple[int, int]], config: MultiplicationConfig) -> Operands:
    """Pairs of numbers as operands of the config's digits. Raises `UsageError` on one that has more."""
    rows = []
    for width, numbers in ((config.digits, [a for a, _ in pairs]), (config.b_digits, [b for _, b in pairs])):
        for number in numbers:
            if not 0 <= number < config.base**width:
                raise outside("pairs", number, f"0 to {config.base**width - 1} ({width} digits of base {config.base})")
        rows.append(np.array([as_digits(number, config.base, width) for number in numbers], np.int16))
    return Operands(*rows, config.base, np.ones(len(pairs), np.int64))


def spelled(tokens: np.ndarray, base: int) -> str:
    """Token ids with blanks between them."""
    signs = " " + SIGNS[:base] + MARKS
    return " ".join(signs[token] for token in tokens)


def stored_rows(operands: Operands, config: MultiplicationConfig) -> list[str]:
    """A line of the data set for each row; the chain is written whatever the config's regime."""
    chain, product = chain_tokens(operands, config), operands.product + 1
    return [
        f"{spelled(operands.a[row] + 1, config.base)} * {spelled(operands.b[row] + 1, config.base)}"
        f"||{spelled(chain[row], config.base)} #### {spelled(product[row], config.base)}"
        for row in range(len(operands))
    ]


def trained_text(stored: str, removed: int = 0) -> str:
    """What a stored row is trained as, without the first `removed` tokens of its chain.

    The blank after the chain counts as its last token, so that one more than K may be removed.
    Raises `UsageError` on a line of another form.
    """
    operands, bar, rest = stored.partition("||")
    chain, hashes, product = rest.partition(" #### ")
    if not bar or not hashes:
        raise UsageError(f"stored: {stored!r} is no row; wanted: 'OPERANDS||CHAIN #### PRODUCT'")
    if not 0 <= removed <= len(chain.split(" ")) + 1:
        raise outside("removed", removed, f"0 to {len(chain.split(' ')) + 1}, the tokens of the chain and its blank")
    tokens = [f" {token}" for token in chain.split(" ")] + [" "]
    return f" {operands} {END}{''.join(tokens[removed:])}{END} #### {product} {END}"


def gpt2_ids(text: str, tokenizer: Any) -> list[int]:
    """The tokens of `trained_text` by a tokenizer of the `tokenizers` library, such as GPT-2's (see docs).

    The blank before `E` is a token of its own, as in the authors' data: 14 columns before the first digit of the
    product where the chain is gone.
    """
    ids: list[int] = []
    parts = text.split(END)
    end = tokenizer.token_to_id(END)
    if end is None:
        raise UsageError(f"tokenizer: it has no token {END!r}; wanted: GPT-2's")
    for place, part in enumerate(parts):
        ids += tokenizer.encode(part, add_special_tokens=False).ids if part else []
        ids += [end] if place < len(parts) - 1 else []
    return ids
