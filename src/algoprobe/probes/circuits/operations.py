"""Which operations are important (steps 3 and 5 of the method)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int

from ..circuit_settings import Settings
from .effects import MAXED, ZEROED, Effects

NEAR = 1e-6
"""Where no zeroed weight lowers the answer's logit by more than α, those this close to the lowest count."""


@dataclass(frozen=True)
class Operation:
    """An important attention weight: what column `source` holds before a step is carried to column `destination`."""

    step: int
    head: int
    destination: int
    source: int
    sign: int
    """1: zeroing it hurts; -1: raising it hurts (everything else attends there); 0: both."""
    drop: float
    """Largest fall of the answer's logit by either perturbation."""
    lowers: tuple[str, ...]
    """What falls without it: `answer` (its logit), `final copy` (a product of one); of a final copy perhaps nothing."""
    final: bool
    """Whether it is a final copy: in the last step, into the answer's column."""


def final_copies(effects: Effects, settings: Settings) -> Int[np.ndarray, "copies 2"]:
    """(head, source) of the last step's weights into the answer's column without which its logit falls by over α.

    Where there is none: those whose logit is within 1e-6 of the lowest.
    """
    drops = effects.logit_drop[-1, ZEROED, :, -1]
    found = np.argwhere(drops > settings.alpha)
    return found if len(found) else np.argwhere(drops >= drops.max() - NEAR)


def _listed(drops: np.ndarray, bound: float, filled: bool) -> tuple[Bool[np.ndarray, "..."], Bool[np.ndarray, "..."]]:
    """The operations found by zeroing and by maxing, one of the two lists emptied: the longer one; ties keep the first.

    With `filled` a list that is empty never wins over one that is not.
    """
    lists = drops > bound
    sizes = lists.reshape(2, -1).sum(1)
    keep_first = sizes[ZEROED] <= sizes[MAXED]
    if filled and sizes.min() == 0:
        keep_first = sizes[ZEROED] > 0
    lists[MAXED if keep_first else ZEROED] = False
    return lists[ZEROED], lists[MAXED]


def important(effects: Effects, settings: Settings, head_width: int) -> list[Operation]:
    """Every important operation, step by step."""
    copies, bound = final_copies(effects, settings), settings.final_bound(head_width)
    filled, found = settings.lists == "smaller-filled", []
    last = len(effects.logit_drop) - 1
    for step, drops in enumerate(effects.logit_drop):
        positive, negative = _listed(drops, settings.alpha, filled=True)
        by_answer, by_copy = positive | negative, np.zeros_like(positive)
        final = np.zeros_like(positive)
        if step == last:
            final[copies[:, 0], -1, copies[:, 1]] = True
            positive |= final
        else:
            for head, source in copies:
                for products in (effects.source_drop, effects.destination_drop):
                    more = _listed(products[step, ..., head, source], bound, filled)
                    positive, negative = positive | more[0], negative | more[1]
                    by_copy |= more[0] | more[1]
        for head, a, b in np.argwhere(positive | negative):
            sign = int(positive[head, a, b]) - int(negative[head, a, b])
            drop = float(drops[:, head, a, b].max())
            reasons = (("answer", by_answer), ("final copy", by_copy))
            lowers = tuple(name for name, marked in reasons if marked[head, a, b])
            found.append(Operation(step, int(head), int(a), int(b), sign, drop, lowers, bool(final[head, a, b])))
    return found
