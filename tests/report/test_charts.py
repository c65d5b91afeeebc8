import json

import pytest
import synthetic

from algoprobe.core.errors import UsageError
from algoprobe.report import charts, curves, figures, theme
from algoprobe.report.runs import by_label, load


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    root = tmp_path_factory.mktemp("runs")
    return by_label([load(synthetic.make(root, d, 0, skill)) for d, skill in (("balanced", 0.95), ("star", 0.4))])


def values(chart, layer: int | None = None) -> list[dict]:
    """The inline data of a chart, or of one of its layers."""
    spec = chart.to_dict()
    layers = spec.get("layer", [spec])
    sets = spec.get("datasets", {})
    found = [part["data"] if "data" in part else spec["data"] for part in layers]
    found = [data["values"] if "values" in data else sets[data["name"]] for data in found]
    return found[layer] if layer is not None else [row for part in found for row in part]


def test_accuracy_has_every_cell_of_its_panel_with_chance_and_shortcut(runs):
    assert charts.panels(runs) == [("lookahead", "balanced"), ("lookahead", "star")]
    chart = charts.accuracy(runs, "lookahead", "balanced")
    points = values(chart, 3)
    assert len(points) == 18 and {p["series"] for p in points} == set(runs)
    assert {"accuracy", "low", "high", "chance", "shortcut", "rows", "seeds"} <= points[0].keys()
    lines = values(chart, 0)
    # Both runs have the same test rows, so their baselines are drawn once.
    assert sorted({line["series"] for line in lines}) == [theme.SHORTCUT, theme.CHANCE] and len(lines) == 18
    spec = chart.to_dict()
    assert spec["width"] == "container" and spec["layer"][2]["encoding"]["y"]["scale"]["domain"] == [0, 1]
    assert "1,000 rows a point, 1 training seed" in spec["description"]


def test_the_sweep_knows_recommended_and_trained_loops(runs):
    run = next(iter(runs.values()))
    spec = charts.loop_sweep(run, "lookahead", "balanced").to_dict()
    assert "the recommended 12 loops" in spec["description"] and "(6 to 14)" in spec["description"]
    bare = type(run)(**(vars(run) | {"training": (), "record": {}}))
    assert "Band" not in charts.loop_sweep(bare, "lookahead", "balanced").to_dict()["description"]


def test_trained_on_tested_on_writes_ranges_where_rows_disagree():
    cells = {
        "a": [synthetic.cell("lookahead", 1, "star", 0.9, 0.2, 0.3)],
        "b": [synthetic.cell("lookahead", 1, "star", 0.5, 0.4, 0.3)],
        "c": [synthetic.cell("naive", None, "naive", 1, 0.5, 0.7)],
    }
    rows = values(charts.trained_on_tested_on(cells), 2)
    assert [(r["series"], r["cell"], r["text"]) for r in rows] == [
        ("chance", "star lookahead 1", "0.20–0.40"),
        ("chance", "naive", "0.50"),
        ("best shortcut", "star lookahead 1", "0.30"),
        ("best shortcut", "naive", "0.70"),
    ]


def test_curves_thin_long_runs_keep_their_end_and_drop_what_is_not_a_number(runs):
    run = next(iter(runs.values()))
    lines = [{"step": i, "examples": i, "loss": 1.0} for i in range(1, 2001)]
    lines[-1]["loss"] = float("nan")
    long = type(run)(**(vars(run) | {"training": tuple(lines)}))
    chart = curves.training({"a": long})
    points = values(chart)
    assert len(points) == curves.MOST_POINTS and points[-1]["step"] == 1999
    assert "One logged step in 5" in chart.to_dict()["description"]


def test_validation_marks_the_steps_of_the_curriculum(runs):
    chart = curves.validation(next(iter(runs.values())))
    points, moves = values(chart, 2), values(chart, 0)
    assert len(points) == 120 and {"lookahead 3", "naive"} <= {p["series"] for p in points}
    assert [move["stage"] for move in moves] == list(range(2, 11))


def test_histograms_are_shares(runs):
    card = synthetic.histogram(1, [30, 10])
    assert [row["share"] for row in values(curves.histogram({"a": card}, "edges"))] == [0.75, 0.25]
    assert len(values(curves.histogram({"a": card, "b": card}, "edges"))) == 8


def test_colours_and_shapes_tell_seven_runs_apart():
    labels = [f"run {i}" for i in range(7)]
    for scale in theme.run_scales(labels, baselines=False):
        assert len({str(value) for value in scale.to_dict()["range"]}) == 7
    assert len(set(theme.shades(12))) == 12 and theme.shades(1) and theme.columns([]) == 1
    assert theme.columns(["a very long name of a run, seed 1"]) == 1


@pytest.mark.parametrize("suffix, start", [(".png", b"\x89PNG"), (".svg", b"<svg"), (".pdf", b"%PDF"), (".json", b"{")])
def test_saved_files_are_what_their_names_say(tmp_path, runs, suffix, start):
    path = figures.save(charts.accuracy(runs, "lookahead", "star"), tmp_path / "deep" / f"chart{suffix}")
    assert path.read_bytes().startswith(start) and path.stat().st_size > 1000
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_html_needs_no_network(tmp_path, runs):
    from markup import Markup

    path = figures.save(charts.accuracy(runs, "lookahead", "star"), tmp_path / "chart.html")
    assert Markup(path.read_text()).fetched == []


def test_save_all_and_an_unknown_suffix(tmp_path, runs):
    chart = charts.accuracy(runs, "lookahead", "star")
    written = figures.save_all({"a": chart, "b": chart}, tmp_path, (".svg", ".json"))
    assert [path.name for path in written] == ["a.svg", "a.json", "b.svg", "b.json"]
    with pytest.raises(UsageError, match=r"\.png"):
        figures.save(chart, tmp_path / "a.gif")


def test_script_json_cannot_end_its_element():
    text = figures.script_json({"a": "</script><!-- &"})
    assert "<" not in text and json.loads(text) == {"a": "</script><!-- &"}
    assert "</script" not in figures.javascript()
