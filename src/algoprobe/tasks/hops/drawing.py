"""One row as an SVG drawing: head, bridges and answer in a row of circles, relations on the arrows, the model's answer
judged. Long chains are broken into lines. Colours and shapes as in the drawings of other tasks.
"""

from __future__ import annotations

from html import escape
from typing import Any

from algoprobe.tasks.style import STYLE

STEP_X, STEP_Y, MARGIN, RADIUS = 72, 58, 34, 16
IN_LINE = 10
"""Entities in a line."""
LEGEND = 24
MINIMUM_WIDTH = 540
OWN = "\n.ap .by{font-weight:500;fill:var(--path)}"


def draw(row: dict[str, Any]) -> str:
    """The SVG of a row given as `entities` (head, bridges, answer), `relations`, `accepted` and perhaps `answer`.

    An `answer` that the chain passes is ringed there, at its last place; any other is only named in the legend.
    """
    entities, relations = [int(e) for e in row["entities"]], [int(r) for r in row["relations"]]
    if len(entities) != len(relations) + 1:
        raise ValueError("one entity more than relations is wanted")
    answer, accepted = row.get("answer"), {int(e) for e in row["accepted"]}
    place = [(MARGIN + STEP_X * (i % IN_LINE), MARGIN + STEP_Y * (i // IN_LINE)) for i in range(len(entities))]
    width = max(MINIMUM_WIDTH, MARGIN + max(x for x, _ in place))
    height = 2 * MARGIN + place[-1][1] - MARGIN + LEGEND
    said = "" if answer is None else f" The model answered {_named(int(answer), row)}."
    asked = ", ".join(map(str, relations))
    title = f"From entity {entities[0]} along relation{'s' * (len(relations) > 1)} {asked}.{said}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="ap" viewBox="0 0 {width:g} {height:g}" width="{width:g}" '
        f'height="{height:g}" style="max-width:100%;height:auto" role="img">',
        f"<title>{escape(title)}</title><style>{STYLE}{OWN}</style>",
    ]
    for start, end, relation in zip(place, place[1:], relations):
        parts.append(_arrow(start, end, relation))
    for i, ((x, y), entity) in enumerate(zip(place, entities)):
        parts.append(_entity(entity, x, y, i == 0, i == len(entities) - 1))
    if answer is not None and int(answer) in entities:
        x, y = place[len(entities) - 1 - entities[::-1].index(int(answer))]
        verdict = "right" if int(answer) in accepted else "wrong"
        parts.append(f'<circle class="ring {verdict}" cx="{x:g}" cy="{y:g}" r="{RADIUS + 6}"/>')
    parts.append(_legend(height - LEGEND / 2, row, accepted))
    return "".join([*parts, "</svg>"])


def _arrow(start: tuple[float, float], end: tuple[float, float], relation: int) -> str:
    """An arrow with its relation above it; to the next line it leaves on the right and comes in from the left."""
    (x, y), (to_x, to_y) = start, end
    tip_x, tip = to_x - RADIUS - 3, 7
    if y == to_y:
        path, text_x, text_y = f"M{x + RADIUS:g} {y:g}H{tip_x - tip:g}", (x + to_x) / 2, y - 9
    else:
        between = (y + to_y) / 2
        path = f"M{x:g} {y + RADIUS:g}V{between:g}H{to_x - RADIUS - 14:g}V{to_y:g}H{tip_x - tip:g}"
        text_x, text_y = (x + to_x) / 2, between - 8
    arrow = f"M{tip_x:g} {to_y:g}l{-tip} {-tip / 2:g}v{tip}z"
    return (
        f'<path class="edge path" d="{path}"/><path class="tip path" d="{arrow}"/>'
        f'<text class="by" x="{text_x:g}" y="{text_y:g}">r{relation}</text>'
    )


def _entity(entity: int, x: float, y: float, first: bool, last: bool) -> str:
    r = RADIUS
    if first:
        shape = f'<rect class="node start" x="{x - r:g}" y="{y - r:g}" width="{2 * r}" height="{2 * r}" rx="2"/>'
    elif last:
        d = r + 3
        shape = f'<path class="node goal" d="M{x - d:g} {y:g}L{x:g} {y - d:g}L{x + d:g} {y:g}L{x:g} {y + d:g}z"/>'
    else:
        shape = f'<circle class="node path" cx="{x:g}" cy="{y:g}" r="{r}"/>'
    return f'{shape}<text{_INK if first or last else ""} x="{x:g}" y="{y:g}">{entity}</text>'


_INK = ' class="on"'


def _named(answer: int, row: dict[str, Any]) -> str:
    """An answer in words: an entity's number, or what other token it is."""
    entities = int(row.get("entity_count", answer))
    if 1 <= answer <= entities:
        return str(answer)
    return "with padding" if answer == 0 else f"with no entity (token {answer})"


def _legend(y: float, row: dict[str, Any], accepted: set[int]) -> str:
    x, answer = 16, row.get("answer")
    parts = [
        f'<rect class="node start" x="{x - 6}" y="{y - 6:g}" width="12" height="12" rx="2"/>',
        f'<text class="word" x="{x + 12}" y="{y:g}">head</text>',
        f'<path class="node goal" d="M{x + 56} {y:g}l8 -8l8 8l-8 8z"/>',
        f'<text class="word" x="{x + 78}" y="{y:g}">tail</text>',
        f'<path class="edge path" d="M{x + 116} {y:g}h24"/>',
        f'<text class="word" x="{x + 146}" y="{y:g}">relation</text>',
    ]
    if answer is not None:
        right = int(answer) in accepted
        kind = "right" if right else "wrong"
        parts.append(f'<circle class="ring {kind}" cx="{x + 230}" cy="{y:g}" r="8"/>')
        words = f"answered {_named(int(answer), row)}: {'✓' if right else '✗'} {kind}"
        parts.append(f'<text class="word {kind}-word" x="{x + 244}" y="{y:g}">{words}</text>')
    return "".join(parts)
