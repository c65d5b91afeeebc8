import io

import pytest
import synthetic
from markup import Markup
from rich.console import Console

from algoprobe.report import tables
from algoprobe.report.runs import by_label, load
from algoprobe.report.verdict import beside, extremes, name, number, verdict


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    root = tmp_path_factory.mktemp("runs")
    made = [("balanced", 0.95), ("star", 0.4), ("naive", 0.6)]
    return by_label([load(synthetic.make(root, d, 0, skill, metrics=[])) for d, skill in made])


def printed(table: tables.Table, width: int) -> str:
    console = Console(file=io.StringIO(), width=width)
    console.print(table.rich())
    return console.file.getvalue()


@pytest.mark.parametrize(
    "low, chance, shortcut, expected",
    [(0.6, 0.2, 0.5, "above"), (0.4, 0.2, 0.5, "level"), (0.2, 0.2, 0.5, "chance"), (0.3, 0.2, None, "above"),
     (None, 0.2, 0.5, "open"), (0.3, None, 0.2, "open"), (0.3, 0.4, 0.2, "chance")],
)  # fmt: skip
def test_verdict_follows_the_low_end_of_the_interval(low, chance, shortcut, expected):
    assert verdict({"low": low, "chance": chance, "shortcut": shortcut}) == expected


def test_numbers_never_round_to_perfection():
    texts = [number(v) for v in (1.0, 0.9996, 0.996, 0.99999, 0.0, 0.002, 1e-6, 0.125, None)]
    assert texts == ["1.00", "0.9996", "0.996", ">0.9999", "0.00", "0.002", "<0.0001", "0.12", "–"]


def test_an_accuracy_never_stands_alone():
    cell = synthetic.cell("lookahead", 3, "star", 0.5, 0.33, 0.4)
    assert name(cell) == "star lookahead 3"
    assert beside(cell) == "0.50 [0.47, 0.53] (chance 0.33, best shortcut 0.40)"
    assert extremes([]) is None


def test_one_run(runs):
    table = tables.accuracy_table({"a run": runs["trained on balanced"]})
    assert table.columns == [
        "test cell",
        "accuracy [95 % interval]",
        "chance",
        "best shortcut",
        "rows",
        "loops",
        "seeds",
    ]
    assert table.rows[0][0] == "balanced lookahead 1" and table.rows[0][4:] == ("1,000", "12", "1")
    assert "deepest subtree" in table.rows[0][3]
    assert len(table.rows) == len(runs["trained on balanced"].cells)


def test_several_runs_have_a_group_each(runs):
    table = tables.accuracy_table(runs)
    assert [group for group, _ in table.groups if group] == list(runs)
    assert all(len(row) == len(table.columns) for row in table.rows)
    assert "rows 1,000, loops 12, seeds 1" in table.title
    assert {"above", "level", "chance"} == set(table.marks.values())


def test_baselines_stand_in_each_group_where_runs_disagree(runs):
    other = load(next(iter(runs.values())).folder)
    cells = tuple(cell | {"chance": 0.01, "rows": 50} for cell in other.cells)
    changed = type(other)(**(vars(other) | {"cells": cells}))
    table = tables.accuracy_table({"a": other, "b": changed})
    assert table.columns[1:5] == ["a: accuracy [95 % interval]", "a: chance", "a: best shortcut", "a: rows"]


def test_a_cell_that_only_one_run_has(runs):
    first, second = list(runs.values())[:2]
    fewer = type(second)(**(vars(second) | {"cells": second.cells[:2]}))
    table = tables.accuracy_table({"a": first, "b": fewer})
    assert len(table.rows) == 12 and "–" in table.rows[5]


def test_the_three_forms_say_the_same(runs):
    table = tables.accuracy_table(runs)
    terminal, markdown, markup = printed(table, 200), table.markdown(), Markup(table.html())
    for row in table.rows:
        for text in row:
            assert text in terminal and text in markdown and text in markup.text
    lines = markdown.strip().splitlines()[2:]
    assert len({line.count("|") for line in lines}) == 1 and len(lines) == len(table.rows) + 2


def test_trained_on_tested_on(runs):
    cells = {label: run.cells for label, run in runs.items()}
    table = tables.trained_on_tested_on(cells)
    assert [row[0] for row in table.rows] == [*cells, "chance", "best shortcut"]
    assert table.rows[-2][1:3] == ("0.19", "0.23") and "within ±0.03" in table.title
    turned = table.turned()
    assert turned.columns[1:] == [*cells, "chance", "best shortcut"] and turned.rows[0][0] == "balanced lookahead 1"
    assert turned.marks[(0, 1)] == table.marks[(0, 1)]
    assert max(map(len, printed(table, 110).splitlines())) <= 110


def test_hostile_text_stays_text():
    cell = synthetic.cell("<b>axis</b>", 1, "[red]|x|", 0.5, 0.1, 0.2)
    table = tables.trained_on_tested_on({"<script>alert(1)</script>": [cell]})
    assert Markup(table.html()).tags.count("script") == 0
    assert "[red]|x|" in printed(table, 120) and "<script" not in table.markdown()
