import json
import subprocess
import sys
from pathlib import Path

import pytest
import synthetic
from markup import Markup

from algoprobe.core.errors import AlgoprobeError, UsageError
from algoprobe.report import facts, page, pictures
from algoprobe.report.runs import by_label, load
from algoprobe.report.verdict import name


def read(path: Path) -> Markup:
    markup = Markup(path.read_text(encoding="utf-8"))
    assert all(not address or address.startswith("data:") or "/" not in address for address in markup.fetched)
    assert not [attribute for attribute in markup.attributes if attribute.startswith("on")]
    return markup


def test_a_run_has_everything_on_its_page(tmp_path, drawing):
    folder = synthetic.make(tmp_path)
    path = page.write([folder])
    assert path == folder / "report" / "index.html"
    markup = read(path)
    for cell in load(folder).cells:
        assert name(cell) in markup.text
    for words in (
        "A model of 56,321 parameters trained on balanced search rows (input size n = 65), seed 0.",
        "Weakest test cell: balanced lookahead 9, 0.88 [0.86, 0.90] (chance 0.47, best shortcut 0.51).",
        "12 of 12", "Each accuracy is of one training seed", "algoprobe train search-demo-balanced",
        "412 (4.1%) equal one up to a renaming", "start 0, goal 3: answered 4, right: 1", "task.n", "0123abcd",
    ):  # fmt: skip
        assert words in markup.text, words
    assert "laptop" not in markup.text.lower()
    local = [link for link in markup.links if not link.startswith("#")]
    assert len(local) == 3 * 9 and all((path.parent / link).stat().st_size > 500 for link in local)
    assert not list(path.parent.glob(".*"))
    assert str(tmp_path) not in path.read_text(encoding="utf-8")


def test_several_runs_stand_side_by_side(tmp_path, drawing, no_pictures):
    folders = [synthetic.make(tmp_path, d, 0, skill) for d, skill in (("balanced", 0.95), ("star", 0.4))]
    path = page.write(folders, tmp_path / "out")
    markup = read(path)
    assert path == tmp_path / "out" / "index.html"
    assert markup.text.count("trained on star") > 5 and "2 runs compared" in markup.text
    assert "2 runs that differ in task.distribution. Lowest accuracy: trained on star in balanced" in markup.text
    assert "What differs" in markup.text and "What all runs share" in markup.text
    assert "spec-trained-on-tested-on" in markup.ids and len([i for i in markup.ids if i.startswith("spec-loops")]) == 2
    assert path.read_text(encoding="utf-8").count("window.vegaEmbed=") == 1


def test_the_place_of_a_page(tmp_path):
    runs = [load(synthetic.make(tmp_path, "balanced", s, metrics=[])) for s in (0, 1)]
    assert page.place(runs[:1], None) == runs[0].folder / "report"
    assert page.place(runs, None).parent == Path("runs") and page.place(runs, None) != page.place(runs[::-1], None)
    assert page.place(runs, tmp_path) == tmp_path
    with pytest.raises(UsageError, match="no run folder"):
        page.write([])


@pytest.mark.parametrize("gone", ["record", "metrics", "evaluation", "examples", "all"])
def test_a_page_says_what_is_missing(tmp_path, drawing, no_pictures, gone):
    names = ("record", "metrics", "evaluation", "examples")
    folder = synthetic.make(tmp_path, **{key: None for key in (names if gone == "all" else (gone,))})
    markup = read(page.write([folder]))
    assert "not there yet" in markup.text
    if gone in ("evaluation", "all"):
        assert "has not been tested yet" in markup.text and "No test accuracies yet" in markup.text
    if gone in ("metrics", "all"):
        assert "No training steps logged yet" in markup.text


def test_empty_files_and_a_running_state(tmp_path, no_pictures):
    record = {"status": "running", "examples": 5, "card": {}, "leaks": {}}
    empty = {"metrics": [], "evaluation": {"cells": []}, "examples": [], "record": record}
    markup = read(page.write([synthetic.make(tmp_path, **empty)]))
    assert "Still training: 5 examples so far." in markup.text
    assert "holds no test cells" in markup.text and "holds no training step" in markup.text


def test_laptop_scale_is_said_only_where_the_config_says_it(tmp_path):
    folder = synthetic.make(tmp_path, metrics=[], config=synthetic.config() | {"scale": "laptop"})
    assert "Laptop scale." in facts.description(load(folder))


def test_hostile_text_is_escaped(tmp_path, monkeypatch, no_pictures):
    evil = '</script><script>alert("x")</script><img src=http://evil.example/x onerror=alert(1)>'
    config = synthetic.config()
    config["preset"] = "evil"
    config["experiment"]["task"] |= {"distribution": evil, evil: evil}
    cells = [synthetic.cell(evil, 1, evil, 0.5, 0.1, 0.2, shortcut_name=evil)]
    examples = [synthetic.examples()[0] | {"distribution": evil, "goal": evil, "accepted": [evil]}]
    record = synthetic.record(command=evil, leaks={evil: 1}, status=evil, machine={"class": evil})
    monkeypatch.setattr(pictures, "_drawing", lambda kind: lambda example: f"<svg>{evil}</svg>")
    folder = synthetic.make(tmp_path, config=config, evaluation={"cells": cells}, examples=examples, record=record)
    folder = folder.rename(tmp_path / "evil")
    plain = read(page.write([synthetic.make(tmp_path)]))
    markup = read(page.write([folder]))
    assert "alert" in markup.text
    scripts = len([i for i in markup.ids if i.startswith("spec-")]) + 2
    assert markup.tags.count("script") == scripts and plain.tags.count("script") > 2


def test_damage_is_named(tmp_path, drawing, no_pictures):
    folder = synthetic.make(tmp_path, metrics=[])
    (folder / "examples.json").write_text(json.dumps([{"correct": True}]))
    with pytest.raises(AlgoprobeError, match=r"examples\.json"):
        page.write([folder])
    folder = synthetic.make(tmp_path, metrics=[], record={"card": {"histograms": {"edges": [1]}}})
    with pytest.raises(AlgoprobeError, match=r"record\.json.*edges"):
        page.write([folder])


def test_wrong_examples_come_first_and_a_right_one_is_kept():
    right, wrong = [{"correct": True}] * 9, [{"correct": False}] * 9
    assert [e["correct"] for e in pictures.chosen(right + wrong, 6)] == [False] * 3 + [True] * 3
    assert [e["correct"] for e in pictures.chosen(right[:1] + wrong, 6)] == [False] * 5 + [True]
    assert len(pictures.chosen(wrong, 6)) == 6 and len(pictures.chosen(right, 3)) == 3
    assert [e["correct"] for e in pictures.chosen(right + wrong[:1], 3)] == [False, True, True]


def test_a_task_without_a_drawing_still_lists_its_examples(tmp_path, monkeypatch):
    run = load(synthetic.make(tmp_path, metrics=[]))
    assert pictures._drawing("no_such_task") is None and pictures._drawing("../evil") is None
    run.experiment["task"]["kind"] = "no_such_task"
    assert [example.picture for example in pictures.examples(run, 3)] == ["", "", ""]


def test_histograms_in_both_shapes():
    assert pictures.counted({"1": 2, "0.5": 3, "x": 4}) == {"values": [1, 0.5, "x"], "counts": [2, 3, 4]}
    assert pictures.counted({"values": [1], "counts": [2]}) == {"values": [1], "counts": [2]}
    with pytest.raises(ValueError, match="counts"):
        pictures.counted({"values": [1], "counts": []})


def test_leaks_in_words(tmp_path):
    run = load(synthetic.make(tmp_path, metrics=[]))
    sentences, others = facts.leaks(run)
    assert sentences[1] == "0 of them equal a test row; 0 equal one up to the order of the edges."
    assert others == [("certificate microseconds per row", "3.2")]
    run.record["leaks"] = {"hits": {"exact": 0}}
    assert facts.leaks(run) == ([], [("hits, exact", "0")])


def test_a_tile_for_each_of_several_runs(tmp_path):
    runs = by_label([load(synthetic.make(tmp_path, d, 0, k, metrics=[])) for d, k in (("star", 0.4), ("naive", 0.9))])
    tiles = facts.tiles(runs)
    assert [tile.label for tile in tiles] == list(runs) and tiles[0].value.endswith("of 12")


def test_importing_the_page_does_not_import_altair():
    code = "import sys, algoprobe.report.page; sys.exit('altair' in sys.modules or 'rich' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_search_rows_are_drawn_by_their_task(tmp_path):
    pytest.importorskip("algoprobe.tasks.search.drawing")
    drawn = pictures.examples(load(synthetic.make(tmp_path, metrics=[])), 6)
    assert len(drawn) == 6 and all(example.picture.startswith("data:image/svg+xml") for example in drawn)
    assert [example.correct for example in drawn][:2] == [False, False] and drawn[0].wide > 200
