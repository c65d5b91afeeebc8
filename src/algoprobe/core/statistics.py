"""Intervals that stand beside every accuracy."""

from __future__ import annotations

import math
from collections.abc import Sequence

Z95 = 1.959963984540054
# Two-sided 95 % quantiles of Student's t for 1 to 30 degrees of freedom.
T95 = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
    2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip


def wilson(right: float, rows: int) -> tuple[float, float]:
    """The 95 % Wilson score interval of a share `right / rows`; unlike ±1.96·σ it stays in [0, 1] and works at 1."""
    if rows == 0:
        return 0.0, 1.0
    share, z2 = right / rows, Z95**2 / rows
    centre = (share + z2 / 2) / (1 + z2)
    half = Z95 / (1 + z2) * math.sqrt(share * (1 - share) / rows + z2 / (4 * rows))
    return max(0.0, centre - half), min(1.0, centre + half)


def mean_interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Mean over seeds and its 95 % interval by Student's t (clipped to [0, 1] by callers that plot shares)."""
    n = len(values)
    mean = sum(values) / n
    if n == 1:
        return mean, mean, mean
    deviation = math.sqrt(sum((v - mean) ** 2 for v in values) / (n - 1))
    half = (T95[n - 2] if n - 1 <= len(T95) else Z95) * deviation / math.sqrt(n)
    return mean, mean - half, mean + half
