"""Lenses on a committed model, through the command line."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch

from algoprobe.cli import main
from algoprobe.core.errors import AlgoprobeError, UsageError
from algoprobe.models.config import TransformerConfig
from algoprobe.options import LensOptions
from algoprobe.studies import digit_lenses, lenses
from algoprobe.tasks.search import SearchTask
from algoprobe.training.load import load_run

ZOO = "zoo:search-demo"
DIGITS = dict.fromkeys(("digits", "swap", "tree", "geometry", "fourier"), "zoo:mult-auxiliary")
"""The run of each kind that is for multiplication."""


def words(capsys, *arguments: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of `algoprobe lens`."""
    try:
        code = main(["lens", *arguments])
    except SystemExit as stop:
        code = stop.code
    out = capsys.readouterr()
    return code, out.out, out.err


@pytest.mark.parametrize("kind", lenses.KINDS)
def test_every_kind_prints_a_table_one_object_and_writes_its_folder(capsys, tmp_path, kind):
    few = [kind, DIGITS.get(kind, ZOO), "--rows", "25", "--loops", "2", "--out", str(tmp_path / "out")]
    if kind == "digits":
        few = [*few[:2], *few[6:]]
    at = ["--at", "3"] if kind != "probe" and kind not in DIGITS else []
    code, out, err = words(capsys, *few, *at)
    assert code == 0 and err == "" and (kind in DIGITS or "loop" in out or "receiver" in out)
    kept = json.loads((tmp_path / "out" / "results.json").read_text())
    assert kept["kind"] == kind and kept["taken"] == (1 if kind == "digits" else 25) and kept["loops"] == 2
    assert {kept["down"], kept["across"], kept["value"]} <= kept["rows"][0].keys()
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {"results.json", "table.md", *(f"lens-{kind}{suffix}" for suffix in (".png", ".svg", ".html"))}
    assert (tmp_path / "out" / "table.md").read_text().startswith("**")
    code, out, _ = words(capsys, *few[:-2], "--json", *at)
    assert code == 0 and json.loads(out)["rows"] == kept["rows"]  # and the same numbers again


def test_what_the_model_does_shows(capsys):
    _, out, _ = words(capsys, "logit", ZOO, "--at", "4", "--rows", "50", "--json")
    accuracy = {(row["site"], row["loop"]): row["accuracy"] for row in json.loads(out)["rows"]}
    assert accuracy["embed", 0] < 0.2 and accuracy["blocks.0.resid_post", 11] > 0.9
    _, out, _ = words(capsys, "attribution", ZOO, "--rows", "30", "--json")
    found = json.loads(out)["rows"]
    assert sum(row["contribution"] for row in found) == pytest.approx(found[0]["logit"], rel=1e-4)
    assert found[0]["logit"] > 3
    # Only the query has seen the goal in the embedding, so its clean value there brings everything back.
    _, out, _ = words(capsys, "patch", ZOO, "--rows", "20", "--sites", "embed", "--json")
    effects = {row["columns"]: row["effect"] for row in json.loads(out)["rows"]}
    assert effects.pop("query") == 1 and set(effects.values()) == {0.0}


def test_options_reach_their_lens(capsys):
    _, out, _ = words(
        capsys, "ablate", ZOO, "--rows", "20", "--loops", "1", "--method", "zero", "--on", "naive", "--json"
    )
    found = json.loads(out)
    assert found["rows_of"] == "naive" and {row["method"] for row in found["rows"]} == {"zero"}
    few = [ZOO, "--rows", "20", "--loops", "2", "--json"]
    _, out, _ = words(capsys, "pattern", *few, "--looking", "other first edge")
    assert {row["query"] for row in json.loads(out)["rows"]} == {"other first edge"}
    _, out, _ = words(capsys, "pattern", *few, "--row", "3")
    found = json.loads(out)
    assert {row["query"] for row in found["rows"]} == {-1} and found["across"] == "key"
    _, out, _ = words(capsys, "patch", *few, "--sites", "blocks.*.attn.z,loop_out", "--metric", "probability")
    assert {(row["site"], row["head"]) for row in json.loads(out)["rows"]} == {
        *(("blocks.0.attn.z", head) for head in range(4)), ("loop_out", None),
    }  # fmt: skip
    _, out, _ = words(capsys, "path", *few, "--senders", "*.attn.z", "--receivers", "*.attn.k,final")
    found = json.loads(out)["rows"]
    assert len(found) == 4 * 4 + 8 and {row["sender_loop"] for row in found} == {0, 1}
    _, out, _ = words(
        capsys, "probe", ZOO, "--rows", "60", "--loops", "1", "--target", "path_length,to_goal_[01]", "--json"
    )
    assert {(row["target"], row["measure"]) for row in json.loads(out)["rows"]} == {
        ("path_length", "R²"), ("to_goal_0", "accuracy"), ("to_goal_1", "accuracy"),
    }  # fmt: skip


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["ablation", ZOO], "kind: 'ablation' is unknown; allowed: logit"),
        (["logit", "zoo:serch-demo"], "Did you mean 'zoo:search-demo'?"),
        (["logit", ZOO, "--at", "10"], "at: 10 is unknown; allowed: 1, 2, 3"),
        (["logit", ZOO, "--on", "balancd"], "Did you mean 'balanced'?"),
        (["logit", ZOO, "--rows", "0"], "rows: 0 is not possible; allowed: 1 to 1000"),
        (["probe", ZOO, "--rows", "1000000"], "rows: 1000000 is not possible; allowed: 1 to 100000"),
        (["logit", ZOO, "--loops", "0"], "loops: 0 is not possible"),
        (["logit", ZOO, "--sites", "blocks.0.resid_pst"], "Did you mean 'blocks.0.resid_post'?"),
        (["attribution", ZOO, "--sites", "embed"], "sites: 'attribution' does not read it; allowed with: logit, patch"),
        (["patch", ZOO, "--row", "0"], "row: 'patch' does not read it"),
        (["path", ZOO, "--senders", "blocks.0.mlp_in"], "Did you mean 'blocks.0.mlp_out'?"),
        (["path", ZOO, "--loops", "1", "--senders", "*.mlp_out", "--receivers", "*.attn_in"], "none of them computes"),
        (["ablate", ZOO, "--method", "median"], "method: 'median' is unknown; allowed: zero, mean"),
        (["probe", ZOO, "--target", "lookahed"], "Did you mean 'lookahead'?"),
        (["probe", ZOO, "--at", "2", "--rows", "50", "--target", "path_back_9"], "0 of these rows have a value"),
        (["pattern", ZOO, "--looking", "queri"], "Did you mean 'query'?"),
        (["pattern", ZOO, "--looking", "x"], "looking: 'x' is unknown; allowed: 'query', "),
        (["logit", ZOO, "--sites", ","], "sites: ',' names nothing; allowed: names or patterns, separated by commas"),
        (["probe", ZOO, "--target", " , "], "target: ' , ' names nothing"),
        (["path", ZOO, "--rows", "5", "--senders", ","], "senders: ',' names nothing"),
        (["logit", ZOO, "--out", ""], "out: '' is not possible; allowed: a folder's name"),
        (["pattern", ZOO, "--rows", "5", "--row", "5"], "row: 5 is not possible; allowed: 0 to 4"),
        (["pattern", ZOO, "--row", "0", "--looking", "query"], "leave one of the two out"),
    ],
)
def test_mistakes_exit_with_two(capsys, arguments, message):
    code, out, err = words(capsys, *arguments)
    assert code == 2 and message in err and out == ""


class Bare(SearchTask):
    """A task family that offers lenses nothing of its own."""

    name = "bare"
    pair = column_kinds = column_targets = None


def test_a_task_without_partners_has_all_other_lenses(monkeypatch):
    run = load_run(ZOO)
    monkeypatch.setattr(lenses, "open_run", lambda name: replace(run, task=Bare(run.task.config)))
    options = LensOptions("pattern", ZOO, rows=20, loops=2)
    found, _ = lenses.look(options)
    assert found["value"] == "entropy" and len(found["rows"]) == 8
    for kind in ("patch", "path"):
        with pytest.raises(UsageError, match="needs corrupted partners, which bare has none of"):
            lenses.look(replace(options, kind=kind))
    with pytest.raises(UsageError, match="target: 'to_goal_1' is unknown; allowed: answer, lookahead"):
        lenses.look(replace(options, kind="probe", target="to_goal_1"))


def test_a_model_without_loops_has_its_sites_across(monkeypatch):
    run = load_run(ZOO)
    model = TransformerConfig(layers=3, heads=2, width=16).build(run.task.sizes)
    monkeypatch.setattr(lenses, "open_run", lambda name: replace(run, model=model.eval(), loops=1))
    for kind, across in (("patch", "site"), ("probe", "site"), ("pattern", "key"), ("logit", "loop")):
        found, _ = lenses.look(LensOptions(kind, ZOO, rows=30))
        assert found["across"] == across and len({row["site"] for row in found["rows"]}) >= 3


@pytest.mark.parametrize("kind", [kind for kind in lenses.KINDS if kind != "digits"])  # it reads the run's log
@pytest.mark.parametrize("weight", [torch.nan, 1e38])
def test_logits_that_are_not_finite_are_one_error_and_nothing_is_written(capsys, monkeypatch, tmp_path, kind, weight):
    run = load_run(ZOO)
    with torch.no_grad():
        run.model.unembed.weight.fill_(weight)
    monkeypatch.setattr(lenses, "open_run", lambda name: run)
    code, out, err = words(capsys, kind, ZOO, "--rows", "20", "--loops", "1", "--json", "--out", str(tmp_path / "out"))
    assert code == 1 and out == "" and "the model's logits are not finite" in err and "Traceback" not in err
    assert not (tmp_path / "out").exists()


def test_numbers_that_are_none_never_reach_json():
    view = lenses.View("T", "", "site", "loop", "accuracy")
    lenses.check_numbers([{"site": "embed", "loop": 0, "accuracy": 0.5, "head": None}], view)
    with pytest.raises(AlgoprobeError, match="accuracy is not finite at site embed, loop 1"):
        lenses.check_numbers([{"site": "embed", "loop": 1, "accuracy": float("nan")}], view)


def test_a_folder_that_cannot_be_written_is_known_before_the_work(capsys, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setitem(lenses.KINDS, "logit", (lambda subject: pytest.fail("computed"), 500))
    code, out, err = words(capsys, "logit", ZOO, "--rows", "5", "--loops", "1", "--out", str(tmp_path / "file"))
    assert code == 1 and out == "" and "a file of that name is in the way" in err


def test_a_picture_that_fails_does_not_cost_the_numbers(monkeypatch, tmp_path):
    def fail(*_):
        raise AlgoprobeError("no picture")

    monkeypatch.setattr(lenses, "save_all", fail)
    with pytest.raises(AlgoprobeError, match="no picture"):
        lenses.look(LensOptions("logit", ZOO, rows=5, loops=1, out=tmp_path))
    assert {path.name for path in tmp_path.iterdir()} == {"results.json", "table.md"}


@pytest.mark.parametrize("kind", DIGITS)
def test_kinds_for_multiplication_refuse_other_tasks(capsys, kind):
    code, _, err = words(capsys, kind, ZOO)
    assert code == 2 and f"kind: '{kind}' is for multiplication; this run's task is search" in err


@pytest.mark.parametrize(
    ("kind", "option"), [("swap", "at"), ("fourier", "at"), ("digits", "rows"), ("digits", "loops")]
)
def test_kinds_for_multiplication_refuse_what_they_do_not_read(capsys, kind, option):
    code, _, err = words(capsys, kind, DIGITS[kind], f"--{option}", "3")
    assert code == 2 and err.startswith(f"algoprobe: {option}: '{kind}' does not read it")


def test_geometry_wants_rows_enough(capsys):
    code, _, err = words(capsys, "geometry", DIGITS["geometry"], "--rows", "3")
    assert code == 2 and "at least 20" in err and err.count("\n") == 1


def test_training_is_thinned_to_its_ends():
    rows = [{"examples": 10 * i} for i in range(1, 41)]
    found = [row["examples"] for row in digit_lenses.thinned(rows, 5)]
    assert len(found) == 5 and (found[0], found[-1]) == (10, 400)
    assert digit_lenses.thinned(rows[:3], 5) == rows[:3] and digit_lenses.thinned([], 5) == []


def test_an_answer_depends_on_the_digits_that_carry_into_it(capsys):
    """a_i moves c_k for k = i to i + 4 at most one further, and no earlier digit (causality of long multiplication)."""
    _, out, _ = words(capsys, "swap", DIGITS["swap"], "--rows", "100", "--json")
    for row in json.loads(out)["rows"]:
        i, k = int(row["input"][1:]), int(row["digit"][1:])
        assert (row["effect"] > 4) == (i <= k <= i + 4)
