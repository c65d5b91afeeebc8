"""Baselines, card, leak report, drawings."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from collections import Counter, defaultdict

import numpy as np
import pytest

from algoprobe.tasks.hops import HopsTask
from algoprobe.tasks.hops.baselines import counted_rows
from algoprobe.tasks.hops.drawing import draw
from algoprobe.tasks.hops.reference import facts_of
from algoprobe.tasks.hops.reserve import training_size

from .sizes import ALL, CHAINS, FRESH
from .test_laws import rows_of


@pytest.mark.parametrize("name", ["partial", "chains"])
def test_baselines_against_brute_force(name: str) -> None:
    config = ALL[name]
    task, facts = HopsTask(config), facts_of(config)
    whole = task.chains("train", 0, np.arange(training_size(config)))
    counts: dict[str, dict] = defaultdict(lambda: defaultdict(Counter))
    for (head, relations), answer in zip(rows_of(whole), whole.answer.tolist()):
        for shortcut, key in looks(head, relations).items():
            counts[shortcut][key][answer] += 1
    for batch in (task.sample("train", 9, np.arange(100)), *(task.test(cell, 30) for cell in task.cells())):
        found = task.baselines(batch)
        assert set(found) == {"chance", *looks(1, (1,)), "tail_of_head"}
        for row, (head, relations) in enumerate(rows_of(batch.source)):
            right = int(batch.targets[row, 0])
            assert found["chance"][row] == 1 / config.entities
            for shortcut, key in looks(head, relations).items():
                of_key = counts[shortcut].get(key)
                best = {a for a, n in of_key.items() if n == max(of_key.values())} if of_key else set()
                wanted = (right in best) / len(best) if best else 1 / config.entities
                assert found[shortcut][row] == pytest.approx(wanted)
            tail = facts[head].get(relations[-1])
            assert found["tail_of_head"][row] == (1 / config.entities if tail is None else tail == right)
    atomic = task.test(task.cells(("atomic",))[0], 50)
    assert task.baselines(atomic)["head_and_last_relation"].min() == 1.0


def looks(head: int, relations: tuple[int, ...]) -> dict[str, tuple]:
    """What each shortcut looks at."""
    k, last = len(relations), relations[-1]
    return {
        "last_relation": (k, last),
        "head_and_last_relation": (k, head, last),
        "last_two_relations": (k, *relations[-2:]),
    }


def test_an_endless_stream_is_counted_on_its_first_rows() -> None:
    rows = [len(chains) for chains in counted_rows(FRESH)]
    assert sum(rows) == 100_000
    task = HopsTask(FRESH)
    found = task.baselines(task.test(task.cells()[0], 50))
    assert all(values.min() >= 0 and values.max() <= 1 for values in found.values())


@pytest.mark.parametrize("name", ALL)
def test_card(name: str) -> None:
    config = ALL[name]
    card = json.loads(json.dumps(HopsTask(config).card(0, 2000)))
    assert card["rows"] == sum(card["histograms"]["hops"].values()) == 2000
    assert sum(card["histograms"]["in_degree"].values()) == config.entities
    if config.tails == "permutation":
        assert card["histograms"]["in_degree"] == {"4": 20}
    if name == "partial":
        assert card["phi"] == 2.5 and card["training_set"] == 650 and card["pairs"]["trained"] == 450
        # Pairs are 450 of the 650 rows of an epoch.
        assert card["histograms"]["hops"]["2"] == pytest.approx(2000 * 450 / 650, abs=60)
    assert ("attempts" in card["histograms"]) == config.fresh


@pytest.mark.parametrize("name", ALL)
def test_leak_report(name: str) -> None:
    config = ALL[name]
    report = json.loads(json.dumps(HopsTask(config).leaks(0, 3000)))
    assert report["equal_test_rows"] == 0 and report["training_rows"] == 3000
    assert report["reserved_rows"] == sum(cell["rows"] for cell in report["test_rows_by_cell"])
    assert all(cell["distinct"] == cell["rows"] for cell in report["test_rows_by_cell"])
    assert (report["draws_dropped_as_reserved"] > 0) == config.fresh
    cells = {cell["cell"]: cell for cell in report["test_rows_by_cell"]}
    if name == "partial":
        assert set(cells) == {"id", "ood", "first-ood", "second-ood"}
        # An OOD fact is inside no training pair.
        assert all(cells[group]["every_fact_trained_in_a_chain"] == 0 for group in ("ood", "first-ood", "second-ood"))
        assert cells["id"]["every_fact_trained_in_a_chain"] > 0.8 * cells["id"]["rows"]
    else:
        assert cells["walks hops 2"]["relation_sequence_trained"] == 50
        assert cells["walks hops 8"]["relation_sequence_trained"] == 0
        assert cells["walks hops 5"]["every_fact_trained_in_a_chain"] == 50


def test_the_leak_report_sees_leaks(monkeypatch) -> None:
    """Were training rows drawn without the reserve, the report's own comparison would find test rows among them."""
    from algoprobe.tasks.hops import leaks as report
    from algoprobe.tasks.hops.sampling import walks

    task = HopsTask(CHAINS)
    monkeypatch.setattr(
        type(task), "chains", lambda *_: walks(CHAINS.graph_fields, np.full(2000, 2), np.arange(2000)), raising=True
    )
    found = report.leaks(task, 0, 2000)
    assert found["equal_test_rows"] > 100 and found["same_relations"] > 1500


@pytest.mark.parametrize("name", ALL)
def test_drawings_are_well_formed(name: str) -> None:
    task = HopsTask(ALL[name])
    batches = [task.sample("example", 0, np.arange(10))]
    if name != "partial":
        longer = task.at_size(12)
        batches.append(longer.test(longer.cells()[-2], 3))
    for batch in batches:
        for row in range(len(batch)):
            for answer in (batch.targets[row], np.array([0]), batch.targets[row] % 20 + 1):
                worked = json.loads(json.dumps(task.worked(batch, row, answer)))
                tree = ElementTree.fromstring(task.draw(worked))
                words = ["".join(node.itertext()) for node in tree.iter("{http://www.w3.org/2000/svg}text")]
                assert {str(e) for e in worked["entities"]} | {f"r{r}" for r in worked["relations"]} <= set(words)
                right = answer[0] == batch.targets[row, 0]
                assert any(("✓ right" if right else "✗ wrong") in word for word in words)
                if answer[0] == 0:
                    assert any("padding" in word for word in words)


def test_a_wrong_answer_is_ringed_where_the_chain_passes_it() -> None:
    row = {"head": 3, "relations": [1, 2], "entities": [3, 7, 9], "accepted": [9]}
    assert "ring" not in draw(row).split("</style>")[1]
    assert draw({**row, "answer": 7}).count('class="ring wrong"') == 2
    assert draw({**row, "answer": 8}).count('class="ring wrong"') == 1
    assert draw({**row, "answer": 9}).count('class="ring right"') == 2
    with pytest.raises(ValueError, match="one entity more"):
        draw({**row, "entities": [3, 7]})
