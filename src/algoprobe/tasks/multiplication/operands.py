"""A batch of pairs of numbers as digits, and the sums that long multiplication passes through.

    s_k = Σ_{i+j=k} a_i b_j        ĉ_k = s_k + r_{k-1}        c_k = ĉ_k mod B        r_k = ⌊ĉ_k / B⌋        (r_{-1} = 0)

Index 0 is the units digit. Source: arXiv 2510.00184, §2.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from jaxtyping import Int


@dataclass(frozen=True)
class Operands:
    """Rows of digits, the least significant first."""

    a: Int[np.ndarray, "batch N"]
    b: Int[np.ndarray, "batch M"]
    base: int
    attempts: Int[np.ndarray, "batch"]
    """Draws that the row took, the last one included."""

    def __len__(self) -> int:
        return len(self.a)

    def __getitem__(self, rows: slice | np.ndarray) -> Operands:
        """Some of the rows."""
        return replace(self, a=self.a[rows], b=self.b[rows], attempts=self.attempts[rows])

    def followed_by(self, other: Operands) -> Operands:
        """These rows and then those of `other`."""
        both = {name: np.concatenate([getattr(self, name), getattr(other, name)]) for name in ("a", "b", "attempts")}
        return replace(self, **both)

    def padded(self, digits: int, digits_b: int) -> Operands:
        """The same numbers with zeros above them."""
        wide = [np.zeros((len(self), width), np.int16) for width in (digits, digits_b)]
        for into, number in zip(wide, (self.a, self.b)):
            into[:, : number.shape[1]] = number
        return replace(self, a=wide[0], b=wide[1])

    @cached_property
    def product_sums(self) -> Int[np.ndarray, "batch NM"]:
        """s_k; 0 at the last place."""
        n, m = self.a.shape[1], self.b.shape[1]
        sums, a = np.zeros((len(self), n + m), np.int64), self.a.astype(np.int64)
        for j in range(m):
            sums[:, j : j + n] += a * self.b[:, j : j + 1]
        return sums

    @cached_property
    def running_sums(self) -> Int[np.ndarray, "batch NM"]:
        """ĉ_k."""
        return carried(self.product_sums, self.base)

    @property
    def product(self) -> Int[np.ndarray, "batch NM"]:
        """c_k, with a zero above products that have a digit fewer."""
        return self.running_sums % self.base

    def partial_product(self, j: int) -> Int[np.ndarray, "batch N_1_j"]:
        """Digits of a · b_j · B^j, N + 1 + j of them."""
        n = self.a.shape[1]
        sums = np.zeros((len(self), n + 1 + j), np.int64)
        sums[:, j : j + n] = self.a.astype(np.int64) * self.b[:, j : j + 1]
        return carried(sums, self.base) % self.base

    def partial_sum(self, j: int) -> Int[np.ndarray, "batch N_1_j"]:
        """Digits of a · (b_0 + … + b_j B^j), N + 1 + j of them."""
        n = self.a.shape[1]
        return replace(self, b=self.b[:, : j + 1]).product[:, : n + 1 + j]

    @cached_property
    def lengths(self) -> Int[np.ndarray, "batch 2"]:
        """Digits of a and of b without leading zeros; those of 0 count as one."""
        return np.stack([significant(self.a), significant(self.b)], axis=1)


def carried(sums: Int[np.ndarray, "batch digits"], base: int) -> Int[np.ndarray, "batch digits"]:
    """`sums` with the carry of each place added to the next."""
    found, carry = np.empty_like(sums), 0
    for k in range(sums.shape[1]):
        found[:, k] = sums[:, k] + carry
        carry = found[:, k] // base
    return found


def significant(digits: Int[np.ndarray, "batch digits"]) -> Int[np.ndarray, "batch"]:
    """How many digits each number has without leading zeros, at least one."""
    places = np.arange(1, digits.shape[1] + 1)
    return np.maximum(1, np.where(digits != 0, places, 0).max(1))


def as_digits(number: int, base: int, width: int) -> list[int]:
    """The digits of a number, the least significant first. Raises `ValueError` when it has more than `width`."""
    found = []
    for _ in range(width):
        number, digit = divmod(number, base)
        found.append(digit)
    if number:
        raise ValueError(f"a number of more than {width} digits of base {base}")
    return found


SIGNS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_"
"""The sign of each digit, of bases up to 64."""


def written(digits: list[int], base: int) -> str:
    """Digits as people write a number, the most significant first; `?` for what is no digit."""
    text = "".join(SIGNS[digit] if 0 <= digit < base else "?" for digit in reversed(digits))
    return text.lstrip("0") or "0"


def as_number(digits: list[int] | np.ndarray, base: int) -> int:
    """The number that digits stand for, the least significant first."""
    return sum(int(digit) * base**place for place, digit in enumerate(digits))
