"""Tables of test accuracies for the terminal, Markdown and HTML, all three from the same rows."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .runs import RunData
from .verdict import WORDS, interval, name, number, shortcut, verdict

if TYPE_CHECKING:
    from rich.table import Table as RichTable


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

    @property
    def columns(self) -> list[str]:
        """Each column's name, after its group's where it has one."""
        return [f"{group}: {column}" if group else column for group, names in self.groups for column in names]

    def rich(self) -> RichTable:
        """The table for a terminal."""
        from rich.table import Table as RichTable
        from rich.text import Text

        colours = {"above": "green", "level": "yellow", "chance": "red"}
        table = RichTable(title=Text(self.title), title_justify="left", header_style="bold")
        for i, (group, column) in enumerate((g, c) for g, names in self.groups for c in names):
            header = Text(f"{group}\n{column}" if group else column)
            table.add_column(header, justify="left" if i == 0 else "right", vertical="middle")
        for r, row in enumerate(self.rows):
            if self.foot and r == len(self.rows) - self.foot:
                table.add_section()
            table.add_row(*(Text(text, style=colours.get(self.marks.get((r, c), ""), "")) for c, text in enumerate(row)))
        return table

    def markdown(self) -> str:
        """The table in GitHub's Markdown."""
        lines = [self.columns, ["---"] + ["---:"] * (len(self.columns) - 1), *self.rows]
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
        starts = {i for i, (group, at) in enumerate((g, k) for g, n in self.groups for k in range(len(n))) if group and not at}
        parts = []
        for r, row in enumerate(self.rows):
            cells = [f'<th scope="row">{html.escape(row[0])}</th>']
            for c, text in enumerate(row[1:], 1):
                mark = self.marks.get((r, c))
                classes = " ".join(filter(None, ("edge" if c in starts else "", mark)))
                title = f' title="{html.escape(WORDS[mark])}"' if mark else ""
                cells.append(f"<td{f' class={chr(34)}{classes}{chr(34)}' if classes else ''}{title}>{html.escape(text)}</td>")
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
    """Every test cell with its accuracy, interval, chance, best shortcut, rows, loops and training seeds.

    Chance and shortcut stand once where all runs agree on them, as runs of one size do, else within each run's group.
    """
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for label, run in runs.items():
        for cell in run.cells:
            found.setdefault(name(cell), {})[label] = cell
    shared = all(len({(number(c.get("chance")), shortcut(c)) for c in row.values()}) == 1 for row in found.values())
    baselines = ("chance", "best shortcut")
    each = ("accuracy", "interval", *(() if shared else baselines), "rows", "loops", "seeds")
    groups = [("", ("test cell", *(baselines if shared else ())))]
    groups += [(label if len(runs) > 1 else "", each) for label in runs]
    rows, marks = [], {}
    for cell_name, row in found.items():
        first = next(iter(row.values()))
        texts = [cell_name] + ([number(first.get("chance")), shortcut(first)] if shared else [])
        for label in runs:
            cell = row.get(label)
            if cell is None:
                texts += ["–"] * len(each)
                continue
            marks[(len(rows), len(texts))] = verdict(cell)
            texts += [number(cell["accuracy"]), interval(cell) or "–"]
            texts += [] if shared else [number(cell.get("chance")), shortcut(cell)]
            texts += [_whole(cell.get(key)) for key in ("rows", "loops", "seeds")]
        rows.append(tuple(texts))
    return Table("Accuracy in every test cell", tuple(groups), tuple(rows), marks)


def trained_on_tested_on(cells: Mapping[str, Sequence[dict[str, Any]]]) -> Table:
    """Accuracy with its interval of each run (row) in each test cell (column); chance and best shortcut beneath."""
    names = list(dict.fromkeys(name(cell) for group in cells.values() for cell in group))
    rows, marks = [], {}
    for label, group in cells.items():
        by_name = {name(cell): cell for cell in group}
        texts = [label]
        for column in names:
            cell = by_name.get(column)
            if cell is not None:
                marks[(len(rows), len(texts))] = verdict(cell)
            texts.append("–" if cell is None else f"{number(cell['accuracy'])} {interval(cell)}".strip())
        rows.append(tuple(texts))
    for title, key in (("chance", "chance"), ("best shortcut", "shortcut")):
        texts = [title]
        for column in names:
            levels = sorted(c[key] for g in cells.values() for c in g if name(c) == column and c.get(key) is not None)
            ends = list(dict.fromkeys(number(level) for level in (levels[:1] + levels[-1:])))
            texts.append("–".join(ends) if ends else "–")
        rows.append(tuple(texts))
    return Table("Trained on, tested on", (("", ("trained on \\ tested on", *names)),), tuple(rows), marks, foot=2)


def _whole(value: Any) -> str:
    return "–" if value is None else f"{value:,}" if isinstance(value, int | float) else str(value)
