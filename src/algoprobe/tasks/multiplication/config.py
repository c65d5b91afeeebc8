"""The multiplication task's config. Sources: arXiv 2510.00184 (the paper) and 2405.14838 (implicit chain of thought).

The defaults are the paper's sizes: four digits times four, base 10, every operand with all its digits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

from algoprobe.core.config import check_choices, digest
from algoprobe.core.errors import outside

MOST_DIGITS = 64
FEWEST_PAIRS = 500
"""Pairs of operands below which none are spared for tests."""
FEWEST_KEPT = 10
"""Pairs that are kept for tests, and again for validation, in the mean: with fewer there may be none."""


@dataclass(frozen=True)
class MultiplicationConfig:
    """Given the digits of a and b, name those of a · b, the least significant first."""

    kind: Literal["multiplication"] = "multiplication"
    digits: int = 4
    """N, digits of a."""
    digits_b: int | None = None
    """M, digits of b; None: as many as a has."""
    base: int = 10
    """Number base. Smaller ones keep which digit depends on which, with fewer digit products to know."""
    chain: Literal["none", "explicit", "implicit"] = "none"
    """`explicit`: partial products and their running totals are written out before the product (chain of thought).
    `implicit`: in training too, but a curriculum removes them from the left until none is left; tests have none."""
    removal: Literal["token", "number", "log"] = "token"
    """Implicit: what a stage of the curriculum removes. `token`: one token. `number`: a whole number of the chain, with
    the signs beside it. `log`: half of what is left."""
    smoothing: float | None = 4.0
    """Implicit: λ of the further tokens o that each row loses at random, P(o) = (1 - exp(-λ)) exp(-λ o); None: none."""
    trained_digits: int | None = None
    """Most digits of training and validation operands, with zeros above them, where tests have more; None: all N, M."""
    shorter: float = 0.0
    """Share of training rows whose operands have 1..N and 1..M digits, both uniform, with zeros above them."""
    sparse: float = 0.0
    """Share of training rows in which each digit stays with a probability, drawn for the row, and else becomes 0: few
    products then meet in each place."""
    places: Literal["sequence", "kept", "coupled"] = "sequence"
    """The place that each token is given beside what it says. `sequence`: where it stands in its row. `kept`: where it
    stood before chain tokens were removed. `coupled`: the weight of its digit, and apart from it which number it is
    of."""
    train_rows: int = 0
    """A fixed training set of that many distinct pairs, gone through in another order each epoch; 0: endless."""
    held_out: float = 0.02
    """Share of all pairs kept for tests, and again for validation, whichever operand comes first."""
    test_rows: int = 10_000
    """Most test rows in a cell."""

    def __post_init__(self) -> None:
        check_choices(self, "task")
        for name, least, most in (
            ("digits", 1, MOST_DIGITS),
            ("base", 2, 64),
            ("train_rows", 0, 20_000_000),
            ("test_rows", 1, 1_000_000),
        ):
            if not least <= getattr(self, name) <= most:
                raise outside(f"task.{name}", getattr(self, name), f"{least} to {most}")
        if self.digits_b is not None and not 1 <= self.digits_b <= MOST_DIGITS:
            raise outside("task.digits_b", self.digits_b, f"1 to {MOST_DIGITS}, or None")
        if self.trained_digits is not None and not 1 <= self.trained_digits <= self.n:
            raise outside("task.trained_digits", self.trained_digits, f"1 to {self.n}, or None")
        for name in ("shorter", "sparse"):
            if not 0 <= getattr(self, name) <= 1:
                raise outside(f"task.{name}", getattr(self, name), "0 to 1")
        if not 0 < self.held_out <= 0.25:
            raise outside("task.held_out", self.held_out, "more than 0, at most 0.25")
        if self.smoothing is not None and not 0 < self.smoothing < math.inf:
            raise outside("task.smoothing", self.smoothing, "a number above 0, or None")
        if self.pairs < FEWEST_PAIRS:
            raise outside(
                "task.digits",
                self.digits,
                f"more digits or a larger base (there are {self.pairs} pairs, of which none can be kept for tests)",
            )
        for name in ("shorter", "sparse"):
            if self.train_rows and getattr(self, name):
                allowed = "0 (a fixed training set has operands with all their digits)"
                raise outside(f"task.{name}", getattr(self, name), allowed)
        if self.train_rows and self.trained_digits is not None:
            raise outside("task.trained_digits", self.trained_digits, "None with task.train_rows")
        if self.pairs * self.held_out < FEWEST_KEPT:
            allowed = f"at least {FEWEST_KEPT / self.pairs:.4g} of {self.pairs} pairs, so that some are kept"
            raise outside("task.held_out", self.held_out, allowed)
        if self.train_rows > self.pairs // 2:
            raise outside("task.train_rows", self.train_rows, f"0 to {self.pairs // 2}, half of all pairs")
        if self.chain != "none" and self.b_digits < 2:
            raise outside("task.chain", self.chain, "'none' (with one digit of b there is one partial product)")

    @property
    def b_digits(self) -> int:
        """M."""
        return self.digits if self.digits_b is None else self.digits_b

    @property
    def product_digits(self) -> int:
        """N + M; products that have one fewer are written with a zero."""
        return self.digits + self.b_digits

    @property
    def pairs(self) -> int:
        """Pairs of operands without leading zeros."""
        return self.pairs_of(self.digits, self.b_digits)

    def pairs_of(self, digits: int, digits_b: int) -> int:
        """Pairs of operands of so many digits, without leading zeros."""
        return (self.base - 1) ** 2 * self.base ** (digits + digits_b - 2)

    @property
    def fewest_spared(self) -> int:
        """Digits that both operands of a pair must have for it to be kept for tests."""
        return min(2, self.digits, self.b_digits)

    def spares(self, digits: int, digits_b: int) -> bool:
        """Whether pairs of operands of so many digits are kept for tests and validation."""
        pairs = self.pairs_of(digits, digits_b)
        few = pairs < FEWEST_PAIRS or pairs * self.held_out < FEWEST_KEPT
        return not few and min(digits, digits_b) >= self.fewest_spared

    @property
    def chain_length(self) -> int:
        """K, tokens of the whole chain (2405.14838): 46 of four digits times four; 0 without a chain."""
        if self.chain == "none":
            return 0
        n, m = self.digits, self.b_digits
        return sum(n + 1 + j for j in range(m)) + (m - 1) + sum(n + 3 + j for j in range(1, m - 1))

    @property
    def n(self) -> int:
        """Input size: digits of the longer operand."""
        return max(self.digits, self.b_digits)

    @property
    def most_trained(self) -> int:
        """Digits of the longest operand that is trained on."""
        return self.n if self.trained_digits is None else self.trained_digits

    @property
    def distribution(self) -> str:
        """What validation rows are drawn from."""
        return "product"

    @property
    def drawn_from(self) -> str:
        """The fields that say whether rows differ in difficulty."""
        return f"task.chain {self.chain!r}, task.digits {self.digits}"

    @property
    def train_digest(self) -> str:
        """Names the training stream: the fields that decide which operands are drawn. The layout does not."""
        names = ["digits", "b_digits", "base", "shorter", "sparse", "train_rows", "held_out"]
        names += ["trained_digits"] if self.trained_digits is not None else []
        return digest([[name, getattr(self, name)] for name in names])

    @property
    def test_digest(self) -> str:
        """Names the test rows: equal for every layout and training mix."""
        return digest([[name, getattr(self, name)] for name in ("digits", "b_digits", "base", "held_out")])

    def build(self) -> Any:
        """The task itself."""
        from .task import MultiplicationTask

        return MultiplicationTask(self)
