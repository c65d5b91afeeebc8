"""What answers depend on: one input token replaced by another, everything after it kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor, nn

from .inputs import Inputs, answer_logits


@torch.no_grad()
def counterfactual_attribution(
    model: nn.Module,
    inputs: Inputs,
    replaced: Mapping[str, Int[Tensor, "batch columns fields"]],
    loops: int | None = None,
) -> list[dict[str, Any]]:
    """For each name in `replaced` and each read column k: mean over the rows of

        logit_k(y | the row) - logit_k(y | the row with those tokens instead),      y = argmax logit_k( · | the row),

    and the share of rows whose answer changes. Columns count from the first answer. Earlier answers in a row are the
    true ones in both. Source: logit attribution by counterfactual digits, arXiv 2510.00184, §3.
    """
    logits = answer_logits(model, inputs, loops)
    answer = logits.argmax(-1, keepdim=True)
    rows = []
    for name, tokens in replaced.items():
        other = answer_logits(model, Inputs(tokens, inputs.lengths, inputs.targets, inputs.accepted), loops)
        effect = (logits.gather(2, answer) - other.gather(2, answer))[..., 0].double()
        changed = (other.argmax(-1) != answer[..., 0]).double()
        spread = effect.std(0, unbiased=True) / len(inputs) ** 0.5 if len(inputs) > 1 else torch.zeros_like(effect[0])
        rows += [
            {"input": name, "column": k, "effect": float(effect[:, k].mean()), "error": float(spread[k])}
            | {"changed": float(changed[:, k].mean()), "rows": len(inputs)}
            for k in range(answer.shape[1])
        ]
    return rows
