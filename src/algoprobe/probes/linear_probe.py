"""Linear probes: what can be read off a site by a linear map, beside what the same map reads off chance.

Rows of the batch are split 60 : 20 : 20. Features are standardised with the training rows' statistics, the penalty is
chosen on the validation rows, and the score is of the held-out rows, which nothing else has seen. All columns of one
row fall into one part. Hewitt & Liang 2019 on controls; Alain & Bengio 2016 on probes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from jaxtyping import Bool, Float, Int, Num
from torch import Tensor, nn

from algoprobe.core.errors import AlgoprobeError, UsageError, outside
from algoprobe.core.statistics import wilson
from algoprobe.core.stream import derived_seed

from .inputs import Inputs, answer_logits, check_columns
from .patterns import attention_for
from .record import record
from .sites import Address

PENALTIES = (1.0, 1e-1, 1e-2, 1e-3)
"""From the strongest: each logistic fit begins where the one before it ended."""
RESAMPLES = 500
FEWEST = 20
"""Rows below which no probe is fitted."""

Kind = Literal["regression", "classification"]


@dataclass(frozen=True)
class Samples:
    """What a probe is fitted to: one sample a row, or one for each chosen column of a row."""

    features: Float[Tensor, "samples width"]
    target: Num[Tensor, "samples"]
    """Numbers for regression; class ids (whole numbers) for classification."""
    row: Int[Tensor, "samples"]
    """The row of the batch that each sample stands in."""


def generator(name: str) -> torch.Generator:
    """A generator that is a pure function of `name`; probes give the same numbers in every run."""
    return torch.Generator().manual_seed(derived_seed("linear probe", name))


def split(row: Int[Tensor, "samples"]) -> tuple[Bool[Tensor, "samples"], ...]:
    """Training, validation and held-out samples (60, 20 and 20 % of the rows), each row whole in one of them."""
    rows, place = row.unique(return_inverse=True)
    if len(rows) < FEWEST:
        raise outside("rows", len(rows), f"{FEWEST} and more with a value of the target")
    order = torch.empty(len(rows), dtype=torch.long)
    order[torch.randperm(len(rows), generator=generator("split"))] = torch.arange(len(rows))
    share = order[place.cpu()].to(row.device) / len(rows)
    return share < 0.6, (share >= 0.6) & (share < 0.8), share >= 0.8


def ridge(
    x: Float[Tensor, "samples width"], y: Float[Tensor, "samples outputs"], penalty: float
) -> tuple[Float[Tensor, "width outputs"], Float[Tensor, "outputs"]]:
    """(W, b) that minimise mean |y - xW - b|² + penalty · |W|², in closed form."""
    x_mean, y_mean = x.mean(0), y.mean(0)
    centred = x - x_mean
    square = centred.T @ centred / len(x) + penalty * torch.eye(x.shape[1], dtype=x.dtype, device=x.device)
    weight = torch.linalg.solve(square, centred.T @ (y - y_mean) / len(x))
    return weight, y_mean - x_mean @ weight


@torch.enable_grad()
def logistic(
    x: Float[Tensor, "samples width"],
    y: Int[Tensor, "samples"],
    classes: int,
    penalty: float,
    start: tuple[Tensor, Tensor] | None = None,
) -> tuple[Float[Tensor, "width classes"], Float[Tensor, "classes"]]:
    """(W, b) that minimise mean cross-entropy + penalty / 2 · |W|², by L-BFGS from `start` (None: zero), no chance."""
    weight, bias = start or (x.new_zeros(x.shape[1], classes), x.new_zeros(classes))
    weight, bias = (part.clone().requires_grad_() for part in (weight, bias))
    optimiser = torch.optim.LBFGS(
        [weight, bias], max_iter=100, tolerance_grad=1e-5, tolerance_change=1e-8, line_search_fn="strong_wolfe"
    )

    def loss() -> Tensor:
        optimiser.zero_grad()
        value = nn.functional.cross_entropy(x @ weight + bias, y) + penalty / 2 * weight.square().sum()
        value.backward()
        return value

    optimiser.step(loss)
    return weight.detach(), bias.detach()


@dataclass(frozen=True)
class Fit:
    """A fitted probe and how it did on the held-out samples."""

    weight: Float[Tensor, "width outputs"]
    bias: Float[Tensor, "outputs"]
    penalty: float
    score: float
    """R² (1 - Σ(y - ŷ)² / Σ(y - ȳ)² over the held-out samples) or accuracy."""
    low: float
    high: float
    chance: float
    """Accuracy of the training samples' commonest class on the held-out ones; 0 for R²."""
    error: float | None = None
    """Regression: mean absolute error on the held-out samples, in the target's units."""
    constant: float | None = None
    """Regression: that of the best constant, the training samples' median."""


def fit(samples: Samples, kind: Kind) -> Fit:
    """Fit on the training rows, choose the penalty on the validation rows, score the held-out rows.

    The 95 % interval is Wilson's where each row has one sample and the score is an accuracy, else from 500 bootstrap
    samples of the held-out rows. Raises `UsageError` on a target that is the same throughout or on too few rows.
    """
    train, validation, held = split(samples.row)
    x, classes = samples.features.double(), None
    deviation = x[train].std(0, unbiased=False)
    x = (x - x[train].mean(0)) / torch.where(deviation > 0, deviation, 1)
    if kind == "classification":
        classes, y = samples.target.unique(return_inverse=True)
    else:
        y = samples.target.double()
    if bool((y[train] == y[train][0]).all()) or bool((y[held] == y[held][0]).all() and kind == "regression"):
        raise UsageError("target: it is the same in all rows, so there is nothing to read off; take other rows")
    candidates, start = [], None
    for penalty in PENALTIES:
        if classes is not None:
            weight, bias = start = logistic(x[train], y[train], len(classes), penalty, start)
        else:
            weight, bias = ridge(x[train], y[train][:, None], penalty)
        error = errors(x[validation] @ weight + bias, y[validation])
        candidates.append((float(error.mean()), -penalty, weight, bias))
    _, penalty, weight, bias = min(candidates, key=lambda candidate: candidate[:2])
    error = errors(x[held] @ weight + bias, y[held])
    spread = (y[held] - y[held].mean()).square() if classes is None else torch.ones_like(error)
    score = 1 - float(error.sum() / spread.sum())
    chance = 0.0
    if classes is not None:
        chance = float((y[held] == y[train].bincount().argmax()).double().mean())
    if classes is not None and len(samples.row[held].unique()) == len(error):
        low, high = wilson(int((error == 0).sum()), len(error))
    else:
        low, high = bootstrap(error, spread, samples.row[held])
    if classes is not None:
        return Fit(weight, bias, -penalty, score, low, high, chance)
    constant = float((y[held] - y[train].median()).abs().mean())
    return Fit(weight, bias, -penalty, score, low, high, chance, float(error.sqrt().mean()), constant)


def errors(found: Float[Tensor, "samples outputs"], y: Num[Tensor, "samples"]) -> Float[Tensor, "samples"]:
    """Squared error of regression; of classification 1 for a wrong class and 0 for the right one."""
    if y.is_floating_point():
        return (found[:, 0] - y).square()
    return (found.argmax(-1) != y).double()


def bootstrap(
    error: Float[Tensor, "samples"], spread: Float[Tensor, "samples"], row: Int[Tensor, "samples"]
) -> tuple[float, float]:
    """95 % interval of 1 - Σ error / Σ spread over resampled rows."""
    rows, place = row.unique(return_inverse=True)
    sums = torch.zeros(2, len(rows), dtype=error.dtype, device=error.device)
    sums.index_add_(1, place, torch.stack([error, spread]))
    drawn = torch.randint(len(rows), (RESAMPLES, len(rows)), generator=generator("bootstrap")).to(error.device)
    above, below = sums[:, drawn].sum(-1)
    ends = torch.tensor([0.025, 0.975], dtype=error.dtype, device=error.device)
    low, high = (1 - above / below.clamp_min(1e-300)).quantile(ends).tolist()
    return low, high


@torch.no_grad()
def site_samples(
    model: nn.Module,
    inputs: Inputs,
    sites: Iterable[str],
    target: Num[Tensor, "batch"] | Num[Tensor, "batch columns"],
    column: int = -1,
    loops: int | None = None,
) -> dict[Address, Samples]:
    """Samples of each (site, loop): with a target a row, the features at `column` (-1: the last); with a target a
    column, those of every column whose target is not NaN. Attention takes the explicit path where a site needs it.

    Raises `UsageError` on a site without a value for each row and column.
    """
    sites = [sites] if isinstance(sites, str) else list(sites)
    if target.dim() == 1:
        chosen = torch.zeros(len(inputs), inputs.tokens.shape[1], dtype=torch.bool, device=target.device)
        if not -chosen.shape[1] <= column < chosen.shape[1]:
            raise outside("column", column, f"{-chosen.shape[1]} to {chosen.shape[1] - 1}")
        chosen[:, column] = True
        wanted = target
    else:
        chosen = ~target.isnan()
        wanted = target[chosen]
    row = chosen.nonzero()[:, 0]
    found = {}
    with attention_for(model, sites), record(model, sites) as seen:
        answer_logits(model, inputs, loops)
        for address in seen:
            value = seen[address]
            check_columns(address[0], value, inputs)
            found[address] = Samples(by_column(value)[chosen], wanted, row)
            if not bool(found[address].features.isfinite().all()):
                raise AlgoprobeError(f"{address[0]} hands on values that are not finite in loop {address[1]}")
    return found


def by_column(value: Tensor) -> Float[Tensor, "batch columns width"]:
    """A recorded value with all its channels, those of every head side by side, at each column."""
    return value if value.dim() == 3 else value.transpose(1, 2).flatten(2)


def untrained(model: nn.Module, seed: int = 1) -> nn.Module:
    """A model of the same config with starting weights; blocks that would begin as the identity begin at random."""
    fresh = replace(model.config, zero_init=False).build(model.sizes, seed)
    # Scores and patterns exist on one attention path only, so a control on another would lack what the model has.
    for block, other in zip(fresh.blocks, model.blocks):
        block.attn.path = other.attn.path
    return fresh.to(next(model.parameters()).device).eval()


def linear_probe(
    model: nn.Module,
    inputs: Inputs,
    sites: Iterable[str],
    target: Num[Tensor, "batch"] | Num[Tensor, "batch columns"],
    kind: Kind = "regression",
    column: int = -1,
    loops: int | None = None,
) -> list[dict[str, Any]]:
    """A row for each (site, loop): held-out R² (ridge) or accuracy (multinomial logistic regression), beside controls.

    `shuffled` is the score with the targets permuted, `untrained` that at the same site of an untrained model of the
    same config, `chance` the majority class. A target a row is read at `column`; one a column (NaN: not there) at all
    its columns. Raises `UsageError` as `fit` does.
    """
    sites = [sites] if isinstance(sites, str) else list(sites)
    found = site_samples(model, inputs, sites, target, column, loops)
    control = site_samples(untrained(model), inputs, sites, target, column, loops)
    rows = []
    for address in sorted(found, key=lambda address: (address[1], address[0])):
        samples = found[address]
        best = fit(samples, kind)
        order = torch.randperm(len(samples.row), generator=generator("shuffle")).to(samples.row.device)
        shuffled = fit(replace(samples, target=samples.target[order]), kind)
        held = split(samples.row)[2]
        rows.append(
            {"site": address[0], "loop": address[1], "measure": "R²" if kind == "regression" else "accuracy"}
            | {"score": best.score, "low": best.low, "high": best.high, "chance": best.chance}
            | {"shuffled": shuffled.score, "untrained": fit(control[address], kind).score, "penalty": best.penalty}
            | {"error": best.error, "constant": best.constant}
            | {"rows": len(samples.row[held].unique()), "samples": int(held.sum())}
        )
    return rows
