"""Thresholds and readings of the circuit analysis. Imports neither torch nor numba."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from algoprobe.core.config import check_choices
from algoprobe.core.errors import outside


@dataclass(frozen=True)
class Settings:
    """What counts as an effect. Where the paper's text and the authors' code differ, the default is the code's."""

    alpha: float = 0.4
    """α: an operation matters when its perturbation lowers the answer's logit by more than this."""
    kappa1: float = 20.0
    """κ₁: or when it lowers a final copy's attention product by more than sqrt(head width) / κ₁."""
    kappa2: float = 10.0
    """κ₂: an operation depends on a feature whose patch moves its product by more than sqrt(head width) / κ₂."""
    maxing: Literal["column", "row"] = "column"
    """A weight is raised to the largest of its source over all destinations (`column`, the code), or to the largest of
    its row, which is then normalised again (`row`, the paper)."""
    bound: Literal["product", "log-weight"] = "product"
    """κ₁ bounds the unscaled product, by sqrt(d)/κ₁ (the code), or the log attention weight, by κ₁/sqrt(d) (paper)."""
    freeze_relu: bool = False
    """While patching features, keep each ReLU as open or shut as it was (the paper); the code lets them switch."""
    lists: Literal["smaller", "smaller-filled"] = "smaller"
    """For the final copies' products, which of the two lists of operations counts, of those found by zeroing and by
    maxing: the smaller (the code: an empty one wins), or the smaller that is not empty."""
    replacement: Literal["absent", "zero"] = "absent"
    """A patched vertex becomes the smallest vertex id that the row lacks, or the id 0, which no row ever has."""

    def __post_init__(self) -> None:
        check_choices(self, "")
        for name in ("alpha", "kappa1", "kappa2"):
            if not 0 < getattr(self, name) < math.inf:
                raise outside(name, getattr(self, name), "a number above 0")

    def final_bound(self, head_width: int) -> float:
        """How far a final copy's product (or log attention weight) must fall."""
        root = math.sqrt(head_width)
        return root / self.kappa1 if self.bound == "product" else self.kappa1 / root

    def feature_bound(self, head_width: int) -> float:
        """How far an operation's product must move for it to depend on a feature."""
        return math.sqrt(head_width) / self.kappa2
