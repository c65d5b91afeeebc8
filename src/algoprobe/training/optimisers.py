"""Update rules. AdamW and Muon are PyTorch's; SignMomentum and SophiaG are here."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from .config import OptimiserConfig

STACKS = ("prelude", "blocks", "coda")
"""Whose matrices Muon updates."""
FIRST_BETAS = {"adamw": (0.9, 0.98), "muon": (0.95, 0.98), "sign-momentum": (0.965, 0.99), "sophia-g": (0.965, 0.99)}


class SignMomentum(Optimizer):
    """m ← β₁ m + (1-β₁) g;  θ ← θ (1 - lr·wd) - lr · sign(m).

    What *Transformers Struggle to Learn to Search* really trained with: its Sophia never updates the curvature, so the
    clipped ratio is always ±1.
    """

    def __init__(self, params: Iterable, lr: float = 1e-5, beta: float = 0.965, weight_decay: float = 0.1) -> None:
        super().__init__(params, {"lr": lr, "beta": beta, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Callable | None = None) -> None:
        """One update from the gradients at hand."""
        for group in self.param_groups:
            params = [p for p in group["params"] if p.grad is not None]
            for p in params:
                if "momentum" not in self.state[p]:
                    self.state[p]["momentum"] = torch.zeros_like(p)
            if not params:
                continue
            momenta = [self.state[p]["momentum"] for p in params]
            torch._foreach_mul_(momenta, group["beta"])
            torch._foreach_add_(momenta, [p.grad for p in params], alpha=1 - group["beta"])
            torch._foreach_mul_(params, 1 - group["lr"] * group["weight_decay"])
            torch._foreach_add_(params, torch._foreach_sign(momenta), alpha=-group["lr"])


class SophiaG(Optimizer):
    """m ← β₁ m + (1-β₁) g;  θ ← θ (1 - lr·wd) - lr · clip(m / max(ρ·h, ε), 1)  (Liu et al. 2023).

    h is a running mean of the Gauss-Newton-Bartlett estimate of the Hessian's diagonal, rows · ĝ ⊙ ĝ, with ĝ the
    gradient of the batch's mean loss at labels drawn from the model's own softmax: call `update_hessian` with those
    gradients in place every few steps. With h never updated every step is ±lr, that is sign momentum.
    """

    EPSILON = 1e-15

    def __init__(
        self,
        params: Iterable,
        lr: float = 1e-4,
        betas: tuple[float, float] = (0.965, 0.99),
        rho: float = 0.04,
        weight_decay: float = 0.1,
    ) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "rho": rho, "weight_decay": weight_decay})

    def _state(self, p: Tensor) -> dict[str, Tensor]:
        state = self.state[p]
        if not state:
            state["momentum"], state["hessian"] = torch.zeros_like(p), torch.zeros_like(p)
        return state

    @torch.no_grad()
    def update_hessian(self, rows: int) -> None:
        """h ← β₂ h + (1-β₂) · rows · ĝ ⊙ ĝ from the gradients at hand, which belong to a batch of `rows`."""
        for group in self.param_groups:
            beta = group["betas"][1]
            for p in group["params"]:
                if p.grad is not None:
                    self._state(p)["hessian"].mul_(beta).addcmul_(p.grad, p.grad, value=(1 - beta) * rows)

    @torch.no_grad()
    def step(self, closure: Callable | None = None) -> None:
        """One update from the gradients at hand."""
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self._state(p)
                state["momentum"].mul_(group["betas"][0]).add_(p.grad, alpha=1 - group["betas"][0])
                bound = (group["rho"] * state["hessian"]).clamp_min_(self.EPSILON)
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.add_((state["momentum"] / bound).clamp_(-1, 1), alpha=-group["lr"])


def build(config: OptimiserConfig, model: nn.Module, auxiliary: nn.Module | None = None) -> list[Optimizer]:
    """The optimisers that together update every parameter of `model`, and of the `auxiliary` heads, once a step.

    With muon the heads belong to AdamW. SophiaG knows no curvature of theirs, so for them it is sign momentum.
    """
    betas = config.betas or FIRST_BETAS[config.name]
    params = dict(model.named_parameters())
    if auxiliary is not None:
        params |= {f"auxiliary.{name}": p for name, p in auxiliary.named_parameters()}
    if config.name == "sign-momentum":
        return [SignMomentum(params.values(), config.lr, betas[0], config.weight_decay)]
    if config.name == "sophia-g":
        return [SophiaG(params.values(), config.lr, betas, config.rho, config.weight_decay)]

    def adamw(named: dict[str, Tensor], lr: float, betas: tuple[float, float]) -> Optimizer:
        matrices = [p for name, p in named.items() if is_matrix(name, p)]
        vectors = [p for name, p in named.items() if not is_matrix(name, p)]
        groups = [{"params": matrices, "weight_decay": config.weight_decay}, {"params": vectors, "weight_decay": 0.0}]
        return torch.optim.AdamW(groups, lr=lr, betas=betas, foreach=True)

    if config.name == "adamw":
        return [adamw(params, config.lr, betas)]
    inside = {name: p for name, p in params.items() if is_matrix(name, p) and name.split(".")[0] in STACKS}
    rest = {name: p for name, p in params.items() if name not in inside}
    muon = torch.optim.Muon(
        inside.values(), lr=config.lr, weight_decay=config.weight_decay, momentum=betas[0], adjust_lr_fn="original"
    )
    return [muon, adamw(rest, config.lr_other, FIRST_BETAS["adamw"])]


def is_matrix(name: str, p: Tensor) -> bool:
    """Whether a parameter is a matrix, and no table of numbers such as those of relative positions."""
    return p.ndim == 2 and name.endswith("weight")
