"""Tables and charts of explained shares say what the cells say."""

from __future__ import annotations

from algoprobe.report import explained as shown


def cell(value, explained, **other):
    made = {"axis": "lookahead", "value": value, "distribution": "balanced", "explained": explained, "low": 0.8}
    made |= {"explained_right": explained / 2}
    made |= {"high": 1.0, "maximal": 0.5, "maximal_low": 0.3, "maximal_high": 0.7, "merges": 10, "accuracy": 0.99}
    made |= {"accuracy_low": 0.95, "accuracy_high": 1.0, "chance": 0.3, "shortcut": 0.4, "rows": 50}
    return made | other


MODELS = {
    "balanced": [cell(1, 0.96), cell(2, 0.9, rows=40)],
    "untrained": [cell(1, 0.0, maximal=None, merges=0), cell(3, 0.02)],
}


def test_a_share_stands_beside_accuracy_and_its_baselines():
    table = shown.explained_table("balanced", MODELS["balanced"])
    assert "40–50 inputs a cell" in table.title
    assert table.rows[0] == ("lookahead 1", "0.96", "0.80–1.00", "0.48", "0.99", "0.95–1.00", "0.30", "0.40")


def test_cells_without_merges_are_left_out_of_the_merges():
    assert shown.merges_table("untrained", MODELS["untrained"]).rows == (("lookahead 3", "0.50", "0.30–0.70", "10"),)


def test_a_matrix_has_every_model_and_cell():
    table = shown.matrix_of(MODELS, "explained", "shares")
    assert table.columns == ["model", *(f"lookahead {l}" for l in (1, 2, 3))]
    assert table.rows[0] == ("balanced", "0.96 [0.80–1.00]", "0.90 [0.80–1.00]", "–")
    assert shown.matrix_of(MODELS, "accuracy", "").rows[0][1] == "0.99 [0.95–1.00]"


def test_the_chart_has_a_mark_for_each_share():
    spec = shown.shares(MODELS, "explained", "shares").to_dict()
    marks = spec["data"]["values"]
    assert [(m["down"], m["value"]) for m in marks] == [
        ("balanced", 0.96),
        ("balanced", 0.9),
        ("untrained", 0.0),
        ("untrained", 0.02),
    ]


ROWS = [
    {"model": "m", "step": f"layer {s}", "direction": d, "distance": k, "share": share, "rows": 9}
    for s in (1, 2)
    for k, share in ((0, 0.2), (1, 0.4))
    for d, share in (("forward", share), ("backward", 1.0))
]


def test_directions_are_averaged_over_distances_and_drawn_by_distance():
    assert shown.direction_table(ROWS).rows == (("m", "layer 1", "0.30", "1.00"), ("m", "layer 2", "0.30", "1.00"))
    spec = shown.directions(ROWS, "m", "forward").to_dict()
    assert [(v["down"], v["across"]) for v in spec["data"]["values"]] == [
        ("layer 2", "0"),
        ("layer 2", "1"),
        ("layer 1", "0"),
        ("layer 1", "1"),
    ]


def test_settings_are_rows_and_models_columns():
    rows = [
        {"model": m, "setting": s, "explained": 0.5, "low": 0.4, "high": 0.6, "rows": 20}
        for m in ("a", "b")
        for s in ("as given", "alpha 0.2")
    ]
    table = shown.sensitivity_table(rows)
    assert table.columns == ["setting", "a", "b"] and table.rows[1] == (
        "alpha 0.2",
        "0.50 [0.40–0.60]",
        "0.50 [0.40–0.60]",
    )
