import json

import pytest

from algoprobe.report.figures import save
from algoprobe.report.lenses import heat_map, matrix_table, rows_table, without_shared, written

ROWS = [
    {"site": site, "loop": loop, "effect": effect, "low": effect - 0.1, "high": effect + 0.1, "rows": 50}
    for site, loop, effect in (("b", None, 1.02), ("b", 0, 0.5), ("a", None, -0.001), ("a", 0, 0.0))
]


def layers(chart) -> list[dict]:
    return chart.to_dict()["layer"]


def points(chart) -> list[dict]:
    return chart.to_dict()["data"]["values"]


def test_places_stand_in_order_of_appearance_with_their_numbers():
    chart = heat_map(ROWS, "site", "loop", "effect", "Patching", "On some rows.")
    rect, text = layers(chart)
    assert rect["encoding"]["y"]["sort"] == ["b", "a"] and rect["encoding"]["x"]["sort"] == ["all", "0"]
    assert [(v["down"], v["across"], v["text"]) for v in points(chart)] == [
        ("b", "all", "1.02"), ("b", "0", "0.50"), ("a", "all", "0.00"), ("a", "0", "0.00"),
    ]  # fmt: skip
    assert rect["encoding"]["color"]["scale"]["domain"] == [0, 1] and rect["encoding"]["color"]["scale"]["clamp"]
    assert text["mark"]["type"] == "text"


def test_signed_colours_are_symmetric_and_zero_alone_is_drawn():
    rows = [{"part": "a", "loop": 0, "value": -4.0}, {"part": "b", "loop": 0, "value": 1.0}]
    scale = layers(heat_map(rows, "part", "loop", "value", "Terms", signed=True))[0]["encoding"]["color"]["scale"]
    assert scale["domain"] == [-4, -2, 0, 2, 4] and len(scale["range"]) == 5
    nothing = [{"part": "a", "loop": 0, "value": 0.0}, {"part": "b", "loop": 0, "value": None}]
    chart = heat_map(nothing, "part", "loop", "value", "Terms", signed=True)
    assert layers(chart)[0]["encoding"]["color"]["scale"]["domain"][-1] == 1 and len(points(chart)) == 1


def test_wide_maps_have_upright_labels_and_no_numbers(tmp_path):
    rows = [{"a": i, "b": j, "v": 0.5} for i in range(2) for j in range(40)]
    chart = heat_map(rows, "a", "b", "v", "Wide")
    assert len(layers(chart)) == 1 and layers(chart)[0]["encoding"]["x"]["axis"]["labelAngle"] == -90
    for suffix in (".png", ".svg", ".html"):
        assert save(chart, tmp_path / f"map{suffix}").stat().st_size > 1000
    assert json.dumps(chart.to_dict(), allow_nan=False)


def test_tables_hold_what_the_rows_hold():
    table = matrix_table(["x", "y"], [None, 0], [[1.0, None], [-12.34, 0.123]], "T", "loop_at")
    assert table.columns == ["loop at", "all", "0"]
    assert table.rows == (("x", "1.00", "–"), ("y", "-12.34", "0.12"))
    table = rows_table(ROWS, ("site", "loop", "effect", "95 %", "rows"), "T")
    assert table.rows[0] == ("b", "all", "1.02", "0.92–1.12", "50")
    assert table.rows[3] == ("a", "0", "0.00", "-0.10 to 0.10", "50")


@pytest.mark.parametrize(
    "value, signed, text", [(-0.004, False, "0.00"), (-12.34, True, "-12.3"), (0.996, True, "1.00")]
)
def test_numbers_fit_a_cell(value, signed, text):
    assert written(value, signed) == text


def test_what_column_names_share_moves_to_the_title():
    names = [f"blocks.{i}.resid_post" for i in range(3)]
    assert without_shared(names) == (["0", "1", "2"], "blocks.*.resid_post")
    assert without_shared(["blocks.0.attn.z", "blocks.0.mlp.post"]) == (["attn.z", "mlp.post"], "blocks.0.*")
    assert without_shared(["query", "path"]) == (["query", "path"], "")
    assert without_shared(["blocks.0.z"]) == (["blocks.0.z"], "")
    table = matrix_table(["query"], names, [[0.1, 0.2, 0.3]], "Patching", "patched")
    assert table.columns == ["patched", "0", "1", "2"] and table.title == "Patching blocks.*.resid_post"


def test_a_folder_name_that_is_not_utf8_can_stand_in_a_title(tmp_path):
    chart = heat_map(ROWS, "site", "loop", "effect", "Patching", "runs/caf\udce9.")
    for suffix in (".png", ".svg", ".pdf", ".html", ".json"):
        assert save(chart, tmp_path / f"map{suffix}").stat().st_size > 1000
    assert "runs/caf?." in (tmp_path / "map.svg").read_text(encoding="utf-8")
