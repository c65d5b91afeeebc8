"""Shapes of states: sums of digit sets, waves over digits, principal components."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from algoprobe.core.errors import UsageError
from algoprobe.probes.geometry import (
    best_pair,
    explained,
    fourier_fit,
    minkowski_score,
    paper_frequencies,
    principal_components,
    waves,
)


def digits(rows: int = 4000, base: int = 10, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return tuple(torch.randint(0, base, (rows,), generator=generator) for _ in range(2))


def test_a_sum_of_one_vector_a_digit_scores_one_and_a_product_less() -> None:
    a, b = digits()
    first, second = torch.randn(2, 10, 16, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    score = minkowski_score(0.7 * first[a] + 0.3 * second[b], a, b, 10)
    assert score.additive > 0.9999 and score.joint > 0.999
    assert score.first == pytest.approx(0.49 / 0.58, abs=0.12) and score.first + score.second == pytest.approx(
        1, abs=0.03
    )
    product = minkowski_score(first[a] * second[b], a, b, 10)
    assert product.joint > 0.999 and product.additive < 0.5
    noise = torch.randn(4000, 16, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    assert abs(minkowski_score(noise, a, b, 10).additive) < 0.05


def test_the_pair_of_digits_that_explains_most_is_found() -> None:
    generator = torch.Generator().manual_seed(3)
    a, b = torch.randint(0, 5, (2, 1000, 4), generator=generator)
    table = torch.randn(2, 5, 8, generator=generator)
    i, j, score = best_pair(table[0][a[:, 2]] + table[1][b[:, 1]], a, b, 5)
    assert (i, j) == (2, 1) and score.additive > 0.999


def test_a_share_is_of_rows_that_were_not_fitted() -> None:
    generator = torch.Generator().manual_seed(4)
    x, features = torch.randn(40, 3, generator=generator), torch.randn(40, 27, generator=generator)
    assert explained(x, features) < 0  # as many features as rows fit the rows at hand and nothing else
    with pytest.raises(UsageError, match="at least 4"):
        explained(x[:2], features[:2])


def test_random_rows_fit_by_chance_and_all_functions_fit_everything() -> None:
    rows = torch.randn(20_000, 10, generator=torch.Generator().manual_seed(5))
    few = fourier_fit(rows, paper_frequencies(10))
    assert few["functions"] == 6 and few["chance"] == pytest.approx(5 / 9)
    assert few["median"] == pytest.approx(5 / 9, abs=0.02) and few["pooled"] == pytest.approx(5 / 9, abs=0.01)
    everything = fourier_fit(rows, range(6))
    assert everything["functions"] == 10 and everything["median"] == pytest.approx(1) and everything["chance"] == 1
    assert paper_frequencies(5) == [0, 1, 2] and fourier_fit(rows[:, :5], [0, 1, 2])["chance"] == 1


def test_a_wave_fits_with_its_own_frequency_alone() -> None:
    basis = waves(10, range(6))
    assert torch.allclose(
        basis @ basis.T, torch.diag(torch.tensor([10.0, *[5.0] * 8, 10.0], dtype=torch.float64)), atol=1e-9
    )
    wave = 3 + 2 * waves(10, [3])[:1]
    assert fourier_fit(wave, [0, 3])["median"] == pytest.approx(1)
    assert fourier_fit(wave, [0, 1, 2, 5])["median"] == pytest.approx(0, abs=1e-9)
    with pytest.raises(UsageError, match="0 to 5"):
        waves(10, [6])
    with pytest.raises(UsageError, match="constant"):
        fourier_fit(wave, [1, 2])


def test_components_are_those_of_numpy() -> None:
    x = torch.randn(200, 6, generator=torch.Generator().manual_seed(6)) * torch.arange(1.0, 7)
    found, share = principal_components(x, 3)
    values = np.linalg.eigvalsh(np.cov(x.double().numpy().T))[::-1]
    assert np.allclose(found.double().var(0).numpy(), values[:3], rtol=1e-4)
    assert np.allclose(share.numpy(), values[:3] / values.sum(), rtol=1e-4)
    assert torch.allclose(principal_components(-x + 5, 3)[0].abs(), found.abs(), atol=1e-3)
