"""Tables of test accuracies for the terminal, Markdown and HTML, all three from the same rows."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .runs import RunData
from .verdict import WORDS, interval, name, number, shortcut, verdict

if TYPE_CHECKING:
    from rich.console import Group


@dataclass(frozen=True)
class Table:
    """Rows of text under columns that may stand in groups."""

    title: str
    """What the table says; its caption."""
    groups: tuple[tuple[str, tuple[str, ...]], ...]
    """(name of the group, its columns); an empty name for columns that stand alone. The first column names the row."""
    rows: tuple[tuple[str, ...], ...]
    """One text for each column."""
    marks: dict[tuple[int, int], str] = field(default_factory=dict)
    """(row, column) → a verdict, which HTML and the terminal colour."""
    foot: int = 0
    """How many of the last rows are baselines rather than runs."""
    words: int = 1
    """How many of the first columns hold words, which stand at the left; numbers stand at the right."""

    @property
    def columns(self) -> list[str]:
        """Each column's name, after its group's where it has one."""
        return [f"{group}: {column}" if group else column for group, names in self.groups for column in names]

    def turned(self) -> Table:
        """The same table with rows and columns exchanged."""
        rows = tuple(zip(self.columns[1:], *(row[1:] for row in self.rows)))
        head = (self.columns[0], *(row[0] for row in self.rows))
        return Table(self.title, (("", head),), rows, {(c - 1, r + 1): mark for (r, c), mark in self.marks.items()})

    def rich(self) -> Group:
        """The table for a terminal under its title; one of runs against many test cells is turned, to fit."""
        if self.foot and len(self.columns) > 8:
            return self.turned().rich()
        from rich import box
        from rich.console import Group
        from rich.table import Table as RichTable
        from rich.text import Text

        colours = {"above": "green", "level": "yellow", "chance": "red"}
        table = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, collapse_padding=True)
        for i, (group, column) in enumerate((g, c) for g, names in self.groups for c in names):
            header = Text(f"{group}\n{column}" if group else column)
            table.add_column(header, justify="left" if i < self.words else "right", no_wrap=i == 0)
        for r, row in enumerate(self.rows):
            if self.foot and r == len(self.rows) - self.foot:
                table.add_section()
            styles = (colours.get(self.marks.get((r, c), ""), "") for c in range(len(row)))
            table.add_row(*(Text(text, style=style) for text, style in zip(row, styles)))
        # A title of the table's own would be broken to the table's width.
        return Group(Text(self.title, style="bold"), table)

    def markdown(self) -> str:
        """The table in GitHub's Markdown."""
        lines = [self.columns, ["---"] * self.words + ["---:"] * (len(self.columns) - self.words), *self.rows]
        body = "\n".join("| " + " | ".join(_plain(text) for text in line) + " |" for line in lines)
        return f"**{_plain(self.title)}**\n\n{body}\n"

    def html(self) -> str:
        """The table as an HTML element, all text escaped."""
        grouped = any(group for group, _ in self.groups)
        first, second = [], []
        for group, names in self.groups:
            if group:
                first.append(f'<th scope="colgroup" colspan="{len(names)}" class="group">{html.escape(group)}</th>')
                second += [f'<th scope="col"{_edge(i)}>{html.escape(n)}</th>' for i, n in enumerate(names)]
            else:
                span = ' rowspan="2"' if grouped else ""
                first += [f'<th scope="col"{span}>{html.escape(n)}</th>' for n in names]
        head = f"<tr>{''.join(first)}</tr>" + (f"<tr>{''.join(second)}</tr>" if grouped else "")
        places = [(group, k) for group, names in self.groups for k in range(len(names))]
        starts = {column for column, (group, k) in enumerate(places) if group and k == 0}
        parts = []
        for r, row in enumerate(self.rows):
            cells = [f'<th scope="row">{html.escape(row[0])}</th>']
            for c, text in enumerate(row[1:], 1):
                mark = self.marks.get((r, c))
                classes = " ".join(filter(None, ("edge" if c in starts else "", mark)))
                title = f' title="{html.escape(WORDS[mark])}"' if mark else ""
                shown = f' class="{classes}"' if classes else ""
                cells.append(f"<td{shown}{title}>{html.escape(text)}</td>")
            foot = ' class="baseline"' if r >= len(self.rows) - self.foot else ""
            parts.append(f"<tr{foot}>{''.join(cells)}</tr>")
        return (
            f"<table><caption>{html.escape(self.title)}</caption><thead>{head}</thead>"
            f"<tbody>{''.join(parts)}</tbody></table>"
        )


def _edge(position: int) -> str:
    return ' class="edge"' if position == 0 else ""


def _plain(text: str) -> str:
    return " ".join(text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").split())


def accuracy_table(runs: Mapping[str, RunData]) -> Table:
    """Every test cell with its accuracy and interval, chance, best shortcut, rows, loops and training seeds.

    Chance and shortcut (its level, its name last) stand once where all runs agree on them, as runs of one size do,
    else beside each accuracy.
    Of several runs the rows, loops and seeds stand in the title where they are the same throughout.
    """
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for label, run in runs.items():
        for cell in run.cells:
            found.setdefault(name(cell), {})[label] = cell
    support = ("rows", "loops", "seeds")
    levels = [{(number(cell.get("chance")), shortcut(cell)) for cell in row.values()} for row in found.values()]
    shared = len(runs) > 1 and all(len(agreed) == 1 for agreed in levels)
    spread = {key: {_whole(c.get(key)) for run in runs.values() for c in run.cells} for key in support}
    kept = [key for key in support if len(runs) == 1 or len(spread[key]) > 1]
    each = ("accuracy [95 % interval]", *(() if shared else ("chance", "best shortcut")), *kept)
    groups = [("", ("test cell", *(("chance", "shortcut") if shared else ())))]
    groups += [(label if len(runs) > 1 else "", each) for label in runs]
    groups += [("", ("best shortcut",))] if shared else []
    rows, marks = [], {}
    for cell_name, row in found.items():
        first = next(iter(row.values()))
        texts = [cell_name] + ([number(first.get(key)) for key in ("chance", "shortcut")] if shared else [])
        for label in runs:
            cell = row.get(label)
            if cell is None:
                texts += ["–"] * len(each)
                continue
            marks[(len(rows), len(texts))] = verdict(cell)
            texts.append(f"{number(cell['accuracy'])} {interval(cell)}".strip())
            texts += [] if shared else [number(cell.get("chance")), shortcut(cell)]
            texts += [_whole(cell.get(key)) for key in kept]
        texts += [str(first.get("shortcut_name") or "–").replace("_", " ")] if shared else []
        rows.append(tuple(texts))
    common = [f"{key} {next(iter(spread[key]))}" for key in support if key not in kept and spread[key]]
    title = ", ".join(["Accuracy in every test cell", *common])
    return Table(title, tuple(groups), tuple(rows), marks)


def cells_table(cells: Sequence[dict[str, Any]]) -> Table:
    """What `algoprobe eval` prints: a row for each test cell, chance and shortcut beside the accuracy.

    Several numbers of loops make a column each, without intervals; what is the same throughout stands in the title.
    """
    counts = list(dict.fromkeys(cell["loops"] for cell in cells))
    by_name: dict[str, dict[int, dict[str, Any]]] = {}
    for cell in cells:
        by_name.setdefault(name(cell), {})[cell["loops"]] = cell
    one = len(counts) == 1
    columns = ("test cell", *(("accuracy", "95 %") if one else map(str, counts)), "chance", "shortcut")
    rows, marks = [], {}
    for row, (cell_name, found) in enumerate(by_name.items()):
        first = found[counts[0]]
        texts = [cell_name]
        for count in counts:
            marks[(row, len(texts))] = verdict(found[count])
            texts.append(number(found[count]["accuracy"]))
        texts += [interval(first).strip("[]").replace(", ", "–")] if one else []
        texts += [number(first.get("chance")), number(first.get("shortcut"))]
        rows.append((*texts, (first.get("shortcut_name") or "–").replace("_", " ")) if one else tuple(texts))
    columns += ("which",) if one else ()
    spread = {key: sorted({cell[key] for cell in cells}) for key in ("loops", "rows", "seeds")}
    common = [f"{key} {_whole(values[0])}" for key, values in spread.items() if len(values) == 1]
    title = "Accuracy in every test cell" if one else "Accuracy in every test cell, by number of loops"
    return Table(", ".join([title, *common]), (("", columns),), tuple(rows), marks)


def promises_table(promises: Sequence[dict[str, Any]]) -> Table:
    """What `algoprobe bench` prints: each promise with its baseline, ratio, target and whether it holds here."""
    words = {True: "holds", False: "BROKEN", None: "elsewhere"}
    columns = ("promise", "value", "baseline", "unit", "ratio", "target", "verdict")
    rows = tuple(
        (
            promise["name"],
            *(
                "–" if value is None else f"{value:.4g}" if value < 1000 else f"{value:,.0f}"
                for value in (promise["value"], promise["baseline"])
            ),
            promise["unit"],
            f"{promise['ratio']:.3g}",
            f"{promise['target']:,.6g}",
            words[promise["holds"]],
        )
        for promise in promises
    )
    machines = ", ".join(dict.fromkeys(promise["machine"] for promise in promises))
    return Table(f"Speed promises on {machines}", (("", columns),), rows)


def trained_on_tested_on(cells: Mapping[str, Sequence[dict[str, Any]]]) -> Table:
    """Accuracy of each run (row) in each test cell (column); chance and the best shortcut beneath.

    The title says how far the widest interval reaches; `accuracy_table` has each.
    """
    names = list(dict.fromkeys(name(cell) for group in cells.values() for cell in group))
    rows, marks, reach = [], {}, []
    for label, group in cells.items():
        by_name = {name(cell): cell for cell in group}
        texts = [label]
        for column in names:
            cell = by_name.get(column)
            if cell is not None:
                marks[(len(rows), len(texts))] = verdict(cell)
                if interval(cell):
                    reach.append(max(cell["high"] - cell["accuracy"], cell["accuracy"] - cell["low"]))
            texts.append("–" if cell is None else number(cell["accuracy"]))
        rows.append(tuple(texts))
    for title, key in (("chance", "chance"), ("best shortcut", "shortcut")):
        texts = [title]
        for column in names:
            levels = sorted(c[key] for g in cells.values() for c in g if name(c) == column and c.get(key) is not None)
            ends = list(dict.fromkeys(number(level) for level in (levels[:1] + levels[-1:])))
            texts.append("–".join(ends) if ends else "–")
        rows.append(tuple(texts))
    widest = f" (accuracy; 95 % intervals within ±{max(reach):.3f})" if reach else " (accuracy)"
    groups = (("", ("", *names)),)
    return Table("Trained on, tested on" + widest, groups, tuple(rows), marks, foot=2)


def _whole(value: Any) -> str:
    return "–" if value is None else f"{value:,}" if isinstance(value, int | float) else str(value)
