"""Multiplication, chain and sums with Python's whole numbers, written apart from the kernels; only tests use it."""

from __future__ import annotations


def digits_of(number: int, width: int, base: int) -> list[int]:
    """Least significant first, zeros above."""
    out = []
    while len(out) < width:
        out.append(number % base)
        number //= base
    assert number == 0
    return out


def running_sums(a: int, b: int, n: int, m: int, base: int) -> list[int]:
    """ĉ_k: what long multiplication holds at place k, the carry included."""
    da, db = digits_of(a, n, base), digits_of(b, m, base)
    carry, found = 0, []
    for k in range(n + m):
        total = carry + sum(da[i] * db[k - i] for i in range(n) if 0 <= k - i < m)
        found.append(total)
        carry = total // base
    return found


def chain_text(a: int, b: int, n: int, m: int, base: int = 10) -> str:
    """The chain as the authors' data writes it (bases up to ten)."""
    words, total = [], 0
    for j, digit in enumerate(digits_of(b, m, base)):
        part = a * digit * base**j
        total += part
        if j:
            words.append("+")
        words += map(str, digits_of(part, n + 1 + j, base))
        if 1 <= j <= m - 2:
            words += ["(", *map(str, digits_of(total, n + 1 + j, base)), ")"]
    return " ".join(words)
