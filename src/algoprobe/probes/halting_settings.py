"""Thresholds of the halting rules. Imports neither torch nor numba."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from algoprobe.core.config import check_choices
from algoprobe.core.errors import outside

RULES = ("kl", "kl-entropy", "confidence", "hop-rate", "oracle")


@dataclass(frozen=True)
class Halting:
    """When a row stops looping. p_t is its softmax at the answer's column after loop t."""

    rule: Literal["kl", "kl-entropy", "confidence", "hop-rate", "oracle"] = "confidence"
    """`kl`: KL(p_t ‖ p_{t-1}) < kl. `kl-entropy`: and H(p_t) < entropy (the paper's). `confidence`: max p_t ≥
    confidence. `hop-rate`: t ≥ hops / rate, the row's own hops. `oracle`: the answer is right, which only a test row's
    label can tell: no rule can stop earlier and be right."""
    kl: float = 0.01
    """Nats."""
    entropy: float = 3.0
    """Nats. The paper's, for 217 classes, among which a uniform guess has 5.4; fewer classes want less."""
    confidence: float = 0.9
    """Largest probability."""
    rate: float = 1.0
    """Hops that a loop is taken to follow."""

    def __post_init__(self) -> None:
        check_choices(self, "halting")
        for name in ("kl", "entropy", "rate"):
            if not 0 < getattr(self, name) < math.inf:
                raise outside(f"halting.{name}", getattr(self, name), "a number above 0")
        if not 0 < self.confidence <= 1:
            raise outside("halting.confidence", self.confidence, "more than 0, at most 1")
