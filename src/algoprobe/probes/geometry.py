"""The shape of states: principal components, sums of digit sets, and waves over digits.

Source: arXiv 2510.00184, §3 (Minkowski sums, Fourier bases, pentagonal prism).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from algoprobe.core.errors import UsageError, outside

HELD_OUT = 0.3
"""Share of the rows, the last ones, that variance shares are taken on."""


def principal_components(
    x: Float[Tensor, "rows width"], count: int = 3
) -> tuple[Float[Tensor, "rows {count}"], Float[Tensor, "{count}"]]:
    """The rows' coordinates along the directions of largest variance, and each direction's share of all variance.

    Signs are fixed: the largest loading of each direction is positive.
    """
    centred = x.double() - x.double().mean(0)
    _, singular, directions = torch.linalg.svd(centred, full_matrices=False)
    largest = directions.abs().argmax(1)
    directions = directions * directions[torch.arange(len(directions)), largest].sign()[:, None]
    share = singular.square() / singular.square().sum().clamp_min(1e-300)
    return (centred @ directions[:count].T).to(x.dtype), share[:count].to(x.dtype)


@dataclass(frozen=True)
class Minkowski:
    """How far a state is a sum of one vector for a digit of a and one for a digit of b."""

    additive: float
    """Share of the held-out variance explained by f(a_i) + g(b_j)."""
    joint: float
    """By one vector for each pair (a_i, b_j): the most that the two digits can explain."""
    first: float
    """By f(a_i) alone."""
    second: float
    """By g(b_j) alone."""


def one_hot(digit: Int[Tensor, "rows"], base: int) -> Float[Tensor, "rows base"]:
    """Indicator columns."""
    return torch.nn.functional.one_hot(digit, base).double()


def explained(x: Float[Tensor, "rows width"], features: Float[Tensor, "rows features"], penalty: float = 1e-6) -> float:
    """Share of the held-out rows' variance that a linear map of `features`, fitted on the others, explains.

    1 - Σ|x - x̂|² / Σ|x - x̄|², x̄ the mean of the fitted rows; below 0 where it predicts worse than that mean.
    """
    cut = len(x) - max(1, round(HELD_OUT * len(x)))
    if cut < 2:
        raise outside("rows", len(x), "at least 4")
    x, features = x.double(), features.double()
    mean, centre = x[:cut].mean(0), features[:cut].mean(0)
    f, y = features[:cut] - centre, x[:cut] - mean
    square = f.T @ f / cut + penalty * torch.eye(f.shape[1], dtype=f.dtype)
    weight = torch.linalg.solve(square, f.T @ y / cut)
    error = (x[cut:] - mean - (features[cut:] - centre) @ weight).square().sum()
    return 1 - float(error / (x[cut:] - mean).square().sum().clamp_min(1e-300))


def minkowski_score(
    x: Float[Tensor, "rows width"], a: Int[Tensor, "rows"], b: Int[Tensor, "rows"], base: int
) -> Minkowski:
    """The Minkowski-sum score of states `x` by two digits of each row: see `Minkowski`.

    If a head puts weight α on the digit a_i and 1 - α on b_j, whatever the row, its output is α A(a_i) + (1-α) B(b_j),
    and the set of its outputs is the Minkowski sum of two sets of `base` points: `additive` is 1.
    """
    first, second = one_hot(a, base), one_hot(b, base)
    both = torch.cat([first, second], dim=1)
    joint = one_hot(a * base + b, base * base)
    return Minkowski(*(explained(x, features) for features in (both, joint, first, second)))


def best_pair(
    x: Float[Tensor, "rows width"], a: Int[Tensor, "rows N"], b: Int[Tensor, "rows M"], base: int
) -> tuple[int, int, Minkowski]:
    """The places i of a and j of b whose digits together explain most of `x`, one vector a digit, and their score."""
    scores = {
        (i, j): explained(x, torch.cat([one_hot(a[:, i], base), one_hot(b[:, j], base)], dim=1))
        for i, j in itertools.product(range(a.shape[1]), range(b.shape[1]))
    }
    i, j = max(scores, key=scores.__getitem__)
    return i, j, minkowski_score(x, a[:, i], b[:, j], base)


def waves(base: int, frequencies: Sequence[int]) -> Float[Tensor, "functions base"]:
    """The basis functions cos(2πkn/B) and sin(2πkn/B) over n = 0..B-1; of k = 0 and k = B/2 the cosine alone."""
    n = torch.arange(base, dtype=torch.float64)
    found = []
    for k in frequencies:
        if not 0 <= k <= base // 2:
            raise outside("frequencies", k, f"0 to {base // 2}")
        found.append(torch.cos(2 * torch.pi * k * n / base))
        if 0 < 2 * k < base:
            found.append(torch.sin(2 * torch.pi * k * n / base))
    return torch.stack(found)


def fourier_fit(rows: Float[Tensor, "rows base"], frequencies: Sequence[int]) -> dict[str, Any]:
    """How well waves of `frequencies`, 0 among them, fit each row: its R² by least squares, the median over rows.

    `pooled` is 1 - Σ errors² / Σ variance over all rows. `chance` is the expected R² of a row of independent normal
    numbers, (functions - 1) / (B - 1); with all functions of the base every R² is 1, which says nothing.
    """
    base = rows.shape[1]
    if 0 not in frequencies:
        raise UsageError("frequencies: 0, the constant, must be among them")
    basis = waves(base, frequencies)
    rows = rows.double()
    fitted = rows @ torch.linalg.pinv(basis) @ basis
    error = (rows - fitted).square().sum(1)
    variance = (rows - rows.mean(1, keepdim=True)).square().sum(1)
    kept = variance > 1e-12 * variance.max().clamp_min(1e-300)
    r2 = 1 - error[kept] / variance[kept]
    functions = len(basis)
    return {
        "frequencies": list(frequencies),
        "functions": functions,
        "median": float(r2.median()) if len(r2) else 0.0,
        "pooled": 1 - float(error.sum() / variance.sum().clamp_min(1e-300)),
        "chance": (functions - 1) / (base - 1),
        "rows": int(kept.sum()),
    }


def paper_frequencies(base: int) -> list[int]:
    """The constant, the base's own circle, every second step, and where the base is even parity: 0, 1, 2, 5 of ten."""
    return sorted({0, 1, 2, *([base // 2] if base % 2 == 0 else [])})
