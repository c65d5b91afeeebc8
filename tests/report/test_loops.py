from __future__ import annotations

import pytest

from algoprobe.report.figures import specification
from algoprobe.report.loops import groups_tables, lines, rows_table, ticks


def points(**more: float) -> list[dict]:
    return [{"line": line, "loop": x, "margin": x * 0.1} | more for line in ("a", "b") for x in (1, 2, 4)]


def chart(found, **options) -> dict:
    return specification(lines(found, "loop", "margin", "T", "note", names=("loops", "margin"), **options))


def marks(spec: dict) -> list[str]:
    return [layer["mark"]["type"] for layer in spec["layer"]]


def test_bands_and_chance_are_drawn_where_points_have_them():
    assert marks(chart(points())) == ["line", "point"]
    assert marks(chart(points(low=0.0, high=0.2))) == ["area", "line", "point"]
    assert marks(chart(points(low=0.0, high=0.2, chance=0.1))) == ["area", "line", "line", "point"]


def test_a_share_has_a_fixed_axis_and_other_measures_their_own():
    up = [chart(points(), share=share)["layer"][0]["encoding"]["y"]["scale"] for share in (True, False)]
    assert up[0]["domain"] == [0, 1] and "domain" not in up[1]


def test_points_without_a_value_are_left_out():
    found = points()
    found[0]["margin"] = None
    spec = chart(found)
    assert [p["x"] for p in spec["data"]["values"]] == [2, 4, 1, 2, 4]


def test_ordered_lines_have_one_dash():
    dash = chart(points(), ordered=True)["layer"][0]["encoding"]["strokeDash"]["scale"]["range"]
    assert dash == [[1, 0]]


@pytest.mark.parametrize(
    ("values", "wanted"),
    [((1, 64), [1, 2, 4, 8, 16, 32, 64]), ((15_000, 3_000_000), [3e4, 1e5, 3e5, 1e6, 3e6]), ((0.5, 200), None)],
)
def test_ticks_are_few_and_inside(values, wanted):
    found = ticks(values)
    assert (wanted is None or found == wanted) and 2 <= len(found) <= 12
    assert all(values[0] <= tick <= values[1] for tick in found)


def test_tables():
    cell = {"accuracy": 0.5, "chance": 0.02, "shortcut": 0.1, "rows_in_all": 30, "pooled": 0.4, "values": [0.5, 0.3]}
    cell |= {"pooled_low": 0.2, "pooled_high": 0.6}
    row = {"model": "R = 2", "cells": {"id": cell, "ood": cell}, "cpu_seconds": 80.4, "examples": 3_000_000}
    means, pooled = groups_tables([row], ("id", "ood"), "T")
    assert means.rows[0] == ("R = 2", "0.50", "0.50", "80", "3.0M") and means.rows[-1][1] == "30" and means.foot == 3
    assert pooled.rows == (("R = 2", "0.40", "0.20–0.60", "30", "0.50, 0.30"),)
    table = rows_table([{"a": 0.5, "b": None, "c": 12_000, "d": "x"}], [(k, k) for k in "abcd"], "T")
    assert table.rows == (("0.50", "–", "12,000", "x"),)
