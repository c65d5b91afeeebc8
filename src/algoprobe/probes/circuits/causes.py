"""Names for what operations do: token match, position step, copies out of the query."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .features import Dependence
from .layout import Feature, Layout
from .operations import Operation

Kind = Literal["position step", "token match", "start and goal copy", "goal copy"]


@dataclass(frozen=True)
class Cause:
    """One thing that an operation's two sides agree on."""

    kind: Kind
    source: int | None = None
    """The vertex of a token match; the source's column of a position step."""
    destination: int | None = None
    """The destination's column of a position step, one before or after the source's."""


def causes(operation: Operation, dependence: Dependence, features: list[Feature], layout: Layout) -> list[Cause]:
    """What the operation matches on; empty where none of the known kinds fits.

    Position steps come before token matches: where there is one, matching tokens are not listed. The copies out of the
    query are listed beside either.
    """
    source, destination = ([features[i] for i in sorted(side)] for side in (dependence.source, dependence.destination))
    columns = {f.value for f in source if f.kind == "position"}, {f.value for f in destination if f.kind == "position"}
    found = [
        Cause("position step", p, q) for p in sorted(columns[0]) for q in (p - 1, p + 1) if q in columns[1]
    ]  # fmt: skip
    if not found:
        vertices = [
            {f.value for f in side if f.kind == "token" and f.value in layout.slots_of}
            for side in (source, destination)
        ]
        found = [Cause("token match", vertex) for vertex in sorted(vertices[0] & vertices[1])]
    # `triples` tells the query's places by their position; in `packed` they have tokens and places of their own.
    kinds = ("token", "place") if layout.encoding == "packed" else ("position",)
    start, goal = (
        any(f.kind in kinds and f.slots == 1 << slot for f in source) for slot in (layout.start_slot, layout.goal_slot)
    )
    into_answer = operation.destination == layout.last and (
        layout.encoding == "packed" or layout.last in columns[1]
    )  # fmt: skip
    if start and goal and into_answer:
        found.append(Cause("start and goal copy"))
    if goal:
        found.append(Cause("goal copy"))
    return found


def accepted(cause: Cause, direction: str, offered: int, known: int, layout: Layout) -> bool:
    """Whether the cause is a merge of paths, given what the source offers and the destination knows (sets of slots)."""
    if cause.kind == "position step":
        onward = ("forward", "both") if cause.destination < cause.source else ("backward", "both")
        return bool(offered >> cause.source & 1 and known >> cause.destination & 1 and direction in onward)
    if cause.kind == "token match":
        return bool(layout.slots_of[cause.source] & offered)
    wanted = 1 << layout.goal_slot
    if cause.kind == "start and goal copy":
        wanted |= 1 << layout.start_slot
    return offered & wanted == wanted
