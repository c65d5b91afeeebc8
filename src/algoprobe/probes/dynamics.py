"""What happens from loop to loop: margins, entropy, how far the state still moves, when the answer is first right.

Source: *Loop, Think, & Generalize* (arXiv 2604.07822), §6 (overthinking) and its Figure 8.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from .halting import divergence, entropy
from .inputs import Inputs, accuracy_of, loops_of, right


def margin(logits: Float[Tensor, "rows outputs"], accepted: Bool[Tensor, "rows outputs"]) -> Float[Tensor, "rows"]:
    """Largest logit of an accepted answer less the largest of any other class."""
    return logits.masked_fill(~accepted, -torch.inf).amax(-1) - logits.masked_fill(accepted, -torch.inf).amax(-1)


def first_right(correct: Bool[Tensor, "loops rows"]) -> Int[Tensor, "rows"]:
    """The first loop, from 1, after which each row is right; 0 where none is."""
    return torch.where(correct.any(0), correct.int().argmax(0) + 1, 0)


@torch.inference_mode()
def loop_dynamics(model: nn.Module, inputs: Inputs, loops: int | None = None) -> tuple[list[dict[str, Any]], Tensor]:
    """A row for each loop, of means over the rows, and the first right loop of each row (`first_right`).

    `accuracy`; `margin` (`margin`); `entropy` of the answer and `kl` from the loop before, in nats; `change`
    ‖h_t - h_{t-1}‖ / ‖h_t‖ over the real columns, 0 at a fixed point; both None at the first loop.
    """
    state, before, last, rows, correct = model.begin(inputs.tokens, inputs.lengths), None, None, [], []
    real = inputs.real(model.sizes.align)[..., None]
    for loop in range(1, loops_of(model, loops) + 1):
        state = model.advance(state)
        logits = model.answer(state, inputs.read)
        log_p, x = logits.log_softmax(-1), state.x * real
        correct.append(right(logits, inputs))
        found = {"loop": loop} | accuracy_of(correct[-1])
        found["margin"] = float(margin(logits[:, -1], inputs.accepted[:, -1]).mean())
        found["entropy"] = float(entropy(log_p[:, -1]).mean())
        found["kl"] = None if before is None else float(divergence(log_p[:, -1], before).mean())
        moved = None if last is None else (x - last).flatten(1).norm(dim=1) / x.flatten(1).norm(dim=1)
        found["change"] = None if moved is None else float(moved.mean())
        rows.append(found)
        before, last = log_p[:, -1], x
    return rows, first_right(torch.stack(correct))
