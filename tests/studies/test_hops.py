"""The studies of recurrent depth at toy size, and what they read off."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch

from algoprobe.core.errors import UsageError
from algoprobe.studies import halting, hops_cost, hops_deep, hops_lens, hops_loops, hops_two
from algoprobe.studies.comparison import changed, with_seed
from algoprobe.studies.registry import Preset, StudyOptions, find_preset
from algoprobe.training.config import Experiment

SHORT = {"examples": 1024, "batch": 64, "validate_every": 512, "validate_rows": 64, "warmup": 128}
ROWS = {module: module.rows_of for module in (hops_two, hops_deep)}
LOOKS = {"every": 4, "rows": 32, "gate": 0.001}


def toy(preset: Preset) -> Preset:
    """A preset that trains in a second."""

    def make() -> Experiment:
        experiment = changed(preset.make(), train=SHORT, model={"width": 16})
        if experiment.task.setting == "two-hop":
            return changed(experiment, train={"snapshots": 4})
        most = min(3, experiment.task.hops)
        experiment = changed(
            experiment, task={"hops": most, "hops_max_test": 6, "test_rows": 20, "validation_rows": 50}
        )
        return changed(experiment, curriculum=LOOKS)

    return replace(preset, make=make)


def toys(monkeypatch, module, *names: str) -> None:
    """Make the rows of a study toys, and only those named."""
    rows = ROWS[module]("laptop")
    monkeypatch.setattr(module, "rows_of", lambda scale: {name: toy(rows[name]) for name in names})


def files(folder) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_every_row_of_every_scale_is_possible_and_no_two_are_the_same():
    for rows_of in ROWS.values():
        for scale in ("laptop", "paper"):
            rows = [preset.make() for preset in rows_of(scale).values()]
            for experiment in rows:
                experiment.check()
            assert all(a != b for i, a in enumerate(rows) for b in rows[:i])


def test_another_seed_has_other_facts():
    experiment = with_seed(find_preset("hops-two").make(), 3)
    assert experiment.task.graph == experiment.seeds.data == experiment.seeds.init == 3


def test_the_untied_model_and_the_loop_compute_alike():
    rows = hops_two.rows_of("laptop")
    untied, loop = (rows[name].make().model for name in ("2 untied layers", "R = 2"))
    assert untied.layers * untied.loops == loop.layers * loop.loops == 2
    assert replace(untied, layers=1, loops=2) == loop


def test_figure_3_at_toy_size(monkeypatch, tmp_path, capsys):
    long = {hops_two.LONG: toy(hops_two.long_row()[hops_two.LONG])}
    toys(monkeypatch, hops_two, "R = 2", "reset")
    monkeypatch.setattr(hops_two, "long_row", lambda: long)
    found = hops_two.hops_fig3(StudyOptions(seeds=2, out=tmp_path, json=True))
    assert [row["model"] for row in found["rows"]] == ["R = 2", "reset", hops_two.LONG]
    row = found["rows"][0]
    assert [point["examples"] for point in row["curve"]] == [64, 192, 384, 1024]
    assert row["cells"] == row["curve"][-1]["cells"] and set(row["cells"]) == set(hops_two.GROUPS)
    ood = row["cells"]["ood"]
    assert ood["seeds"] == 2 and ood["chance"] == pytest.approx(1 / 50)
    assert ood["pooled_low"] <= ood["pooled"] <= ood["pooled_high"]
    assert found["rows"][2]["cells"]["ood"]["seeds"] == 1
    seconds = [point["cpu_seconds"] for point in row["curve"]]
    assert seconds == sorted(seconds) and seconds[0] > 0
    assert {v["trained_on"] for v in found["verdicts"]} == {"reset"}
    folder = tmp_path / "hops-fig3"
    assert json.loads((folder / "results.json").read_text()) == found
    assert {"figure.png", "seconds.svg", "long.pdf", "table.md"} <= files(folder)
    assert "best shortcut" in (folder / "table.md").read_text() and capsys.readouterr().out == ""


def test_figure_4_at_toy_size(monkeypatch, tmp_path):
    long = {hops_two.LONG: toy(hops_two.long_row()[hops_two.LONG])}
    toys(monkeypatch, hops_two, "R = 2", "reset")
    monkeypatch.setattr(hops_lens, "rows_of", hops_two.rows_of)
    monkeypatch.setattr(hops_lens, "long_row", lambda: long)
    found = hops_lens.hops_fig4(StudyOptions(seeds=3, out=tmp_path, json=True))
    assert [row["model"] for row in found["rows"]] == [hops_two.LONG, "reset"]
    rows = found["rows"][1]["rows"]
    assert {(row["target"], row["depth"]) for row in rows} == {(t, d) for t in ("bridge", "target") for d in range(3)}
    assert {row["group"] for row in rows} == {"train", "id", "ood"} and rows[-1]["phase"] == "end"
    assert {row["column"] for row in rows if row["target"] == "target"} == {-1}
    assert {"cure-end.png", "loop-end.png"} <= files(tmp_path / "hops-fig4")


def test_the_lens_of_the_last_depth_is_the_models_own_accuracy(tmp_path):
    """Where nothing comes after, what can be read at the answer is what is answered."""
    from algoprobe.training.evaluation import open_run

    preset = toy(find_preset("hops-two"))
    jobs = hops_two.train_rows({"reset": preset}, StudyOptions(out=tmp_path, json=True))
    rows = hops_lens.lens_by_phase(jobs["reset"][0])
    run = open_run(jobs["reset"][0].folder.path)
    cells = hops_two.Groups.of(run).accuracy(run)
    for group in ("train", "id", "ood"):
        last = [row for row in rows if (row["group"], row["target"], row["phase"]) == (group, "target", "end")][-1]
        assert last["accuracy"] == pytest.approx(cells[group]["accuracy"], abs=0.03)  # bfloat16 beside float32


def curve(*points: tuple[float, float]) -> list[dict]:
    return [{"cells": {"train": {"accuracy": train}, "id": {"accuracy": known}}} for train, known in points]


def test_phases():
    found = hops_lens.phases(curve((0.1, 0.1), (0.6, 0.2), (1.0, 0.7), (1.0, 0.96), (1.0, 1.0)))
    assert found == {"memorised": 1, "generalised": 3, "end": 4}
    assert hops_lens.phases(curve((0.1, 0.1), (0.5, 0.5))) == {"end": 1}
    assert hops_lens.phases(curve((0.1, 0.1), (1.0, 0.97))) == {"end": 1}  # the end is no phase of its own twice


def test_a_group_over_seeds_is_averaged_and_pooled():
    cells = [{"accuracy": 0.5, "low": 0.2, "high": 0.8, "rows": 10, "chance": 0.1, "shortcut": 0.2}]
    cells.append(cells[0] | {"accuracy": 0.8, "rows": 30})
    found = hops_two.merged(cells)
    assert found["accuracy"] == 0.65 and found["pooled"] == pytest.approx(29 / 40) and found["rows_in_all"] == 40
    assert found["low"] == 0.0 and found["high"] == 1.0 and found["values"] == [0.5, 0.8]
    alone = hops_two.merged(cells[:1])
    assert (alone["low"], alone["high"]) == (0.2, 0.8)


@pytest.fixture(scope="module")
def deep(tmp_path_factory):
    """Figures 5 and 6 at toy size, from one set of runs."""
    with pytest.MonkeyPatch.context() as patch:
        toys(patch, hops_deep, "R = 2", "dynamic", "reset")
        for module in (hops_cost, hops_loops):
            patch.setattr(module, "rows_of", hops_deep.rows_of)
        patch.setattr(hops_deep, "SWEEP", (1, 2, 4, 24, 64))
        patch.setattr(hops_deep, "at", lambda row, hops, loops: 0.5)  # a toy has no 20 hops
        options = StudyOptions(seeds=2, out=tmp_path_factory.mktemp("deep"), json=True)
        yield options, hops_deep.hops_fig5(options)


def test_figure_5_at_toy_size(deep):
    options, found = deep
    assert [row["model"] for row in found["rows"]] == ["R = 2", "dynamic", "reset"]
    row = found["rows"][2]
    assert {(c["value"], c["loops"]) for c in row["cells"]} == {(h, r) for h in range(2, 7) for r in (1, 2, 4, 24, 64)}
    assert all(cell["seeds"] == 2 for cell in row["cells"])
    assert len(row["learnable_depth"]) == 2 and set(row["reach"]) == {"1", "2", "4", "24", "64"}
    assert {"figure.png", "map-r2.png", "map-dynamic.svg", "map-reset.pdf"} <= files(options.out / "hops-fig5")
    assert [v["trained_on"] for v in found["verdicts"]] == ["reset"] * 3


def test_figures_6_8_9_and_10_from_the_same_runs(deep, monkeypatch):
    options, _ = deep
    before = {path: path.stat().st_mtime_ns for path in options.out.rglob("model.safetensors")}
    six = hops_cost.hops_fig6(options)
    assert {row["hops"] for row in six["rows"]} == {2, 3} and all(row["steps"] > 0 for row in six["rows"])
    assert len(six["fine_tuning"]) == 6 and {row["hops"] for row in six["fine_tuning"]} <= {3, 4}
    monkeypatch.setattr(hops_loops, "MARGIN_HOPS", (2, 5))
    eight = hops_loops.hops_fig8(replace(options, models=("reset",)))
    assert [(row["hops"], row["loop"]) for row in eight["rows"]] == [(h, r) for h in (2, 5) for r in range(1, 65)]
    monkeypatch.setattr(hops_loops, "MOST_LOOPS", 6)
    nine = hops_loops.hops_fig9_10(options)
    assert {row["model"] for row in nine["mix"]} == {"dynamic", "reset"}
    for row in nine["rows"]:
        assert 1 <= row["loops"] <= 6 and 0 <= row["accuracy"] <= 1
        assert row["rule"] != "hop-rate" or row["loops"] == min(row["value"], 6)
    oracle = {(r["model"], r["value"]): r["accuracy"] for r in nine["rows"] if r["rule"] == "oracle"}
    for row in nine["rows"]:
        assert row["accuracy"] <= oracle[row["model"], row["value"]] + 1e-9  # no rule is right where it is not
    now = {path: path.stat().st_mtime_ns for path in options.out.rglob("model.safetensors")}
    assert now == before  # nothing was trained again, nothing overwritten
    for name in ("hops-fig6", "hops-fig8", "hops-fig9-10"):
        assert {"results.json", "table.md"} <= files(options.out / name)


def test_figure_7_trains_all_on_the_same_rows(monkeypatch, tmp_path):
    toys(monkeypatch, hops_deep, "R = 1", "R = 2", "reset")
    monkeypatch.setattr(hops_deep, "EQUAL", {"laptop": (2, 512)})
    monkeypatch.setattr(hops_deep, "SWEEP", (1, 2, 4))
    found = hops_deep.hops_fig7(StudyOptions(out=tmp_path, json=True))
    assert [row["model"] for row in found["rows"]] == ["R = 2", "reset"] and found["trained_to"] == 2
    assert set(found["examples"].values()) == {512}
    assert {cell["value"] for cell in found["rows"][0]["cells"]} == set(range(2, 7))


def cells_of(table: dict[int, dict[int, float]]) -> list[dict]:
    return [
        {"value": hops, "loops": loops, "accuracy": accuracy, "chance": 0.1}
        for hops, row in table.items()
        for loops, accuracy in row.items()
    ]


def test_reach_and_the_best_fixed_number_of_loops():
    cells = cells_of({2: {1: 0.1, 2: 1.0, 4: 0.99}, 3: {1: 0.1, 2: 0.2, 4: 0.96}, 4: {1: 0.1, 2: 0.1, 4: 0.9}})
    assert [hops_deep.reached(cells, loops) for loops in (1, 2, 4)] == [1, 2, 3]
    assert hops_deep.reached(cells[:3], 2) == 2
    assert hops_deep.few_loops({"cells": cells}) == pytest.approx(0.1)
    assert halting.best_fixed(cells) == (4, pytest.approx((0.99 + 0.96 + 0.9) / 3))
    assert halting.best_fixed(cells_of({2: {1: 0.5, 2: 0.9, 9: 0.9004}}))[0] == 2  # a hair is no reason to loop on


def test_what_halting_saves_over_a_mix():
    fixed = cells_of({2: {2: 1.0, 4: 1.0}, 4: {2: 0.0, 4: 1.0}, 9: {2: 0.0, 4: 0.0}})
    cells = [
        {"rule": "kl", "value": v, "accuracy": a, "loops": r} for v, a, r in ((2, 1.0, 2.0), (4, 1.0, 4.0), (9, 0, 4))
    ]
    (found,) = halting.over_mix(cells, fixed, (2, 4))
    assert found == {
        "rule": "kl", "accuracy": 1.0, "loops": 3.0, "fixed_accuracy": 1.0, "fixed_loops": 4, "saved": 0.25,
    }  # fmt: skip


def test_a_rule_that_is_less_accurate_saves_nothing():
    fixed = cells_of({2: {2: 1.0, 4: 1.0}, 4: {2: 0.0, 4: 1.0}, 9: {2: 0.0, 4: 0.1}})
    early = [{"rule": "kl", "value": v, "accuracy": a, "loops": 1.0} for v, a in ((2, 1.0), (4, 0.9), (9, 0.1))]
    assert halting.over_mix(early, fixed, (2, 4))[0]["saved"] is None
    assert halting.over_mix(early, fixed, (2,))[0]["saved"] == 0.5
    assert halting.over_mix(early, fixed, (9,))[0]["saved"] is None  # at chance there is nothing to save


def test_the_halt_command(deep, capsys):
    from algoprobe.cli import main

    options, _ = deep
    folder = next(path.parent for path in options.out.glob("hops-deep/*/model.safetensors"))
    assert (
        main(["halt", str(folder), "--at", "2..3", "--rows", "10", "--most", "4", "--rule", "hop-rate", "--json"]) == 0
    )
    found = json.loads(capsys.readouterr().out)
    assert [(c["value"], c["loops"], c["rule"]) for c in found["cells"]] == [(2, 2.0, "hop-rate"), (3, 3.0, "hop-rate")]
    assert found["halting"]["rate"] == 1.0 and found["mix"]["loops"] == 2.5 and found["most"] == 4
    assert {"accuracy", "low", "high", "chance", "shortcut", "rows", "seeds"} <= found["cells"][0].keys()
    assert main(["halt", str(folder), "--at", "2", "--rows", "10"]) == 0
    assert "confidence" in capsys.readouterr().out
    for arguments, message in (
        (["--rows", "0"], "rows: 0 is not possible; allowed: 1 to 20, the reserved test rows of a cell"),
        (["--rows", "21"], "rows: 21 is not possible; allowed: 1 to 20"),
        (["--at", "99"], "at: 99 is not possible; allowed: 2, 3"),
        (["--most", "0"], "most: 0 is not possible"),
        (["--kl", "-1"], "halting.kl: -1.0 is not possible"),
        (["--on", "nowhere"], "on: 'nowhere' is unknown; allowed: walks, atomic"),
    ):
        assert main(["halt", str(folder), *arguments]) == 2
        assert message in capsys.readouterr().err


@pytest.mark.parametrize("name", ["hops-two-paper", "hops-paper"])
def test_the_papers_models_have_its_parameters(name):
    """4 blocks of 7,087,872 and a final norm, and a vector a token (and a position); the paper has six marks more."""
    experiment = find_preset(name).make()
    sizes = experiment.task.build().sizes
    with torch.device("meta"):
        model = type(experiment.model.build(experiment.task.build().sizes))(experiment.model, sizes)
    positions = 4 * 768 if experiment.model.position == "learned" else 0
    vocabulary = {"hops-two-paper": 2202, "hops-paper": 212}[name]
    assert sum(p.numel() for p in model.parameters()) == 4 * 7_087_872 + 2 * 768 + vocabulary * 768 + positions


@pytest.mark.slow
@pytest.mark.parametrize("name", ["hops-two-paper", "hops-paper"])
def test_the_papers_presets_run_and_go_on(name, tmp_path):
    from algoprobe.core.run import RunFolder
    from tests.training.test_loop import interrupted_after
    from tests.training.tiny import run

    experiment = changed(find_preset(name).make(), train={"examples": 48, "batch": 8, "validate_rows": 8})
    if name == "hops-two-paper":
        experiment = changed(experiment, train={"snapshots": 1})
    run(experiment, tmp_path / "whole")
    from algoprobe.training import loop

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop.State, "save", interrupted_after(loop.State.save, 2))
        with pytest.raises(KeyboardInterrupt):
            run(experiment, tmp_path / "part")
    run(experiment, tmp_path / "part")
    whole, part = (RunFolder(tmp_path / side).file("model.safetensors").read_bytes() for side in ("whole", "part"))
    assert whole == part


def test_a_model_that_is_no_row_is_refused(tmp_path):
    with pytest.raises(UsageError, match="models: 'R = 3' is unknown"):
        hops_deep.hops_fig5(StudyOptions(models=("R = 3",), out=tmp_path))
    assert not list(tmp_path.iterdir())
