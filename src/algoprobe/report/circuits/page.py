"""Several circuits as one interactive HTML file: what an operation matched on, and what flows into a node."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import Any

from algoprobe.tasks.search.drawing import draw as draw_graph

from ..tables import Table
from .drawing import draw_body, graph_row
from .marks import legend_items
from .reading import KINDS, Reading, heading, kind, matched, reasons, standing


def page(circuits: list[dict[str, Any]], title: str, tables: Sequence[Table] = ()) -> str:
    """The HTML of a page that shows `tables`, then `circuits`, one below the other; it needs no network."""
    shown = []
    for circuit in circuits:
        reading = Reading(circuit)
        shown.append(
            {
                "heading": heading(reading),
                "right": reading.right,
                "explained": circuit["explained"],
                "graph": draw_graph(graph_row(reading)),
                "drawing": draw_body(circuit),
                "legend": legend_items(reading),
                "rows": rows(reading),
            }
        )
    return _template().render(title=title, circuits=shown, tables=[table.html() for table in tables])


def rows(reading: Reading) -> list[dict[str, Any]]:
    """The operations as a table, step by step, those of the circuit first."""
    order = sorted(reading.operations, key=lambda op: (op["step"], not op["kept"], not op["accepted"]))
    return [
        {
            "step": reading.circuit["steps"][op["step"]],
            "head": op["head"],
            "source": f"{reading.name(op['source'])} ({op['source']})",
            "destination": f"{reading.name(op['destination'])} ({op['destination']})",
            "matched": "; ".join(matched(op)) or "nothing known",
            "kind": kind(op) if kind(op) == "copy" else KINDS[kind(op)].split(":")[0].split(",")[0],
            "reasons": reasons(op),
            "drop": f"{op['drop']:.2f}",
            "sign": {1: "+", -1: "−", 0: "±"}[op["sign"]],
            "standing": standing(op),
            "new": ", ".join(map(str, _new(reading, op))),
        }
        for op in order
    ]


def _new(reading: Reading, op: dict[str, Any]) -> list[int]:
    """The vertices that a kept operation carries to a column that did not know them one step earlier."""
    after, before = (op["step"] + 1, op["destination"]), (op["step"], op["destination"])
    return sorted((reading.brings(op) & reading.known(after)) - reading.known(before)) if op["kept"] else []


@cache
def _template() -> Any:
    import jinja2

    text = resources.files(__package__).joinpath("page.html.jinja").read_text(encoding="utf-8")
    strict = {"autoescape": True, "undefined": jinja2.StrictUndefined}
    return jinja2.Environment(**strict, trim_blocks=True, lstrip_blocks=True).from_string(text)
