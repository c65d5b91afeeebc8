"""One row as an SVG drawing: long multiplication as on paper, the most significant digit first.

Above the operands the weight of each place; beneath the product the running sums ĉ_k, and the model's digits, right or
wrong. Colours as in the drawings of other tasks.
"""

from __future__ import annotations

from html import escape
from typing import Any

from algoprobe.tasks.style import STYLE

from .operands import SIGNS, as_number

CELL, LINE, LEFT, TOP = 40, 30, 118, 22
OWN = """
.ap .rule{stroke:var(--soft);stroke-width:1.3}.ap .sum{font-weight:500;fill:var(--path)}
.ap .faint{fill:var(--soft)}"""


def draw(row: dict[str, Any]) -> str:
    """The SVG of a row given as `base`, digits `a`, `b`, `product` and `said` (units first), and `running_sums`."""
    base, product, answer = int(row["base"]), list(row["product"]), list(row["said"])
    if len(product) != len(answer):
        raise ValueError("an answer for each digit of the product is wanted")
    width = LEFT + CELL * len(product) + 16
    right = product == answer
    numbers = [as_number(digits, base) for digits in (row["a"], row["b"], product)]
    title = f"{numbers[0]} times {numbers[1]} is {numbers[2]}; the model's answer is {'right' if right else 'wrong'}."

    def at(k: int) -> float:
        """The middle of place k."""
        return width - 16 - CELL * (k + 0.5)

    lines: list[str] = []

    def write(y: float, name: str, digits: list[int], kind: str = "", plain: bool = False) -> None:
        lines.append(f'<text class="word" x="12" y="{y:g}">{escape(name)}</text>')
        for k, digit in enumerate(digits):
            text = str(digit) if plain else spelled(digit)
            lines.append(f'<text class="{kind}" x="{at(k):g}" y="{y:g}">{text}</text>')

    def spelled(digit: int) -> str:
        return SIGNS[digit] if 0 <= digit < base else "?"

    def rule(y: float) -> None:
        lines.append(f'<path class="rule" d="M{LEFT - 8} {y:g}H{width - 12:g}"/>')

    y = TOP
    write(y, "place", list(range(len(product))), "faint", plain=True)
    write(y := y + LINE, "a", row["a"])
    write(y := y + LINE, "× b", row["b"])
    rule(y + LINE / 2)
    write(y := y + LINE, "running sum ĉ", row["running_sums"], "sum", plain=True)
    write(y := y + LINE, "product", product)
    rule(y + LINE / 2)
    y += LINE
    lines.append(f'<text class="word" x="12" y="{y:g}">answered</text>')
    for k, (said, true) in enumerate(zip(answer, product)):
        kind = "right" if said == true else "wrong"
        lines.append(f'<text class="{kind}-word" x="{at(k):g}" y="{y:g}">{spelled(said)}</text>')
        lines.append(f'<circle class="ring {kind}" cx="{at(k):g}" cy="{y:g}" r="13"/>')
    y += LINE
    wrong = sum(said != true for said, true in zip(answer, product))
    words = "✓ every digit right" if right else f"✗ {wrong} digit{'s' * (wrong > 1)} wrong"
    kind = "right" if right else "wrong"
    lines.append(f'<text class="word {kind}-word" x="12" y="{y:g}">{words}</text>')
    inside = "" if base == 10 else f" Digits are of base {base}, sums in decimals."
    lines.append(f'<text class="word faint" x="{LEFT + 60}" y="{y:g}">place 0: units, answered first.{inside}</text>')
    height = y + LINE / 2
    width = max(width, 420)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="ap" viewBox="0 0 {width:g} {height:g}" width="{width:g}" '
        f'height="{height:g}" style="max-width:100%;height:auto" role="img">'
        f"<title>{escape(title)}</title><style>{STYLE}{OWN}</style>{''.join(lines)}</svg>"
    )
