"""What is summed between two logged lines."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from .step import StepResult


@dataclass
class Window:
    """Sums over steps; part of the training state, so that a resumed run logs the same lines."""

    loss: Tensor | float = 0.0
    norm: Tensor | float = 0.0
    steps: int = 0
    auxiliary: Tensor | float | None = None

    def add(self, result: StepResult) -> None:
        """Count one step."""
        self.loss, self.norm, self.steps = self.loss + result.loss, self.norm + result.norm, self.steps + 1
        if result.auxiliary is not None:
            self.auxiliary = result.auxiliary + (0.0 if self.auxiliary is None else self.auxiliary)

    def close(self) -> dict[str, float]:
        """Means since the last line; starts a new window."""
        means = {"loss": float(self.loss) / self.steps, "gradient_norm": float(self.norm) / self.steps}
        if self.auxiliary is not None:
            means["auxiliary_loss"] = float(self.auxiliary) / self.steps
        self.loss, self.norm, self.steps, self.auxiliary = 0.0, 0.0, 0, None
        return means

    def values(self) -> dict[str, float | None]:
        """The sums as numbers, for the training state."""
        auxiliary = None if self.auxiliary is None else float(self.auxiliary)
        return {"loss": float(self.loss), "norm": float(self.norm), "steps": self.steps, "auxiliary": auxiliary}
