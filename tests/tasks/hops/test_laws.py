"""What the rows are, counted against a plain solver: splits, answers by walking, reserved rows, φ."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from algoprobe.core.errors import UsageError
from algoprobe.tasks.hops import HopsConfig, HopsTask
from algoprobe.tasks.hops.chains import Chains
from algoprobe.tasks.hops.reference import Facts, answer, facts_of
from algoprobe.tasks.hops.reserve import training_size
from algoprobe.tasks.hops.splits import pairs_of
from algoprobe.tasks.task import Cell

from .sizes import ALL, CHAINS, FRESH, PARTIAL

Row = tuple[int, tuple[int, ...]]


def rows_of(chains: Chains) -> list[Row]:
    """Head and relations of every row."""
    return [(int(chains.head[i]), tuple(chains.relations[i, : chains.hops[i]].tolist())) for i in range(len(chains))]


def group(name: str) -> Cell:
    return Cell("group", None, name)


def ood_facts(config: HopsConfig) -> set[Row]:
    """The OOD facts, as the test cell of them gives them."""
    return set(rows_of(HopsTask(config).test(group("ood-atomic"), config.test_rows).source))


@pytest.mark.parametrize("name", ALL)
def test_answers_are_where_walking_leads(name: str) -> None:
    config = ALL[name]
    task, facts = HopsTask(config), facts_of(config)
    for batch in (
        *(task.sample(split, 1, np.arange(300)) for split in ("train", "validation", "card")),
        *(task.test(cell, 20) for cell in task.cells()),
    ):
        chains = batch.source
        for row, (head, relations) in enumerate(rows_of(chains)):
            passed = [answer(facts, head, relations[:k]) for k in range(len(relations) + 1)]
            assert chains.entities[row, : len(passed)].tolist() == passed
            assert (
                batch.targets[row, 0] == passed[-1] and np.flatnonzero(batch.accepted[row, 0]).tolist() == passed[-1:]
            )
            assert batch.axes["hops"][row] == len(relations)


def test_two_hop_groups_against_all_pairs() -> None:
    config = replace(PARTIAL, test_rows=1000)
    facts, pairs, task = facts_of(config), pairs_of(config), HopsTask(config)
    ood = ood_facts(config)
    assert len(ood) == config.ood_facts == 20 and config.id_facts == 180
    wanted: dict[tuple[bool, bool], set[Row]] = {}
    for head, first, second in triples(facts):
        kind = (head, (first,)) in ood, (facts[head][first], (second,)) in ood
        wanted.setdefault(kind, set()).add((head, (first, second)))
    assert sum(map(len, wanted.values())) == 40 * 25
    found = {name: rows_of(task.test(group(name), 1000).source) for name in ("id", "ood", "first-ood", "second-ood")}
    trained = rows_of(task.test(group("trained"), 1000).source)
    assert set(found["ood"]) == wanted.get((True, True), set())
    assert set(found["first-ood"]) == wanted[True, False] and set(found["second-ood"]) == wanted[False, True]
    held = rows_of(task.sample("validation", 0, np.arange(2000)).source)
    held_pairs = {row for row in held if len(row[1]) == 2}
    assert len(held_pairs) == config.validation_rows
    parts = [set(found["id"]), set(trained), held_pairs]
    assert all(part <= wanted[False, False] for part in parts)
    assert (
        sum(map(len, parts)) + pairs.left_out == len(wanted[False, False]) == len(set().union(*parts)) + pairs.left_out
    )
    # Every fact is trained on alone, OOD ones too, and φ is exact.
    epoch = rows_of(task.chains("train", 0, np.arange(training_size(config))))
    assert {row for row in epoch if len(row[1]) == 1} == {(head, (r,)) for head in facts for r in facts[head]}
    assert sorted(row for row in epoch if len(row[1]) == 2) == sorted(trained)
    assert len(trained) == config.train_pairs == 2.5 * 180
    atomic = {name: rows_of(task.test(group(name), 1000).source) for name in ("atomic", "id-atomic", "ood-atomic")}
    assert sorted(atomic["atomic"]) == sorted(atomic["id-atomic"] + atomic["ood-atomic"])
    assert len(atomic["atomic"]) == len(set(atomic["atomic"])) == 200


def triples(facts: Facts):
    """Every (head, r1, r2) that leads somewhere."""
    for head, of_head in facts.items():
        for first, bridge in of_head.items():
            for second in facts[bridge]:
                yield head, first, second


def test_the_papers_sizes() -> None:
    config = HopsConfig()
    pairs, task = pairs_of(config), HopsTask(config)
    assert (config.facts, config.id_facts, config.ood_facts, config.pairs) == (40_000, 38_000, 2_000, 800_000)
    assert len(pairs.train) == 273_600 and training_size(config) == 313_600
    assert 1_800 < len(pairs.ood) < 2_200 and 75_000 < len(pairs.first_ood) + len(pairs.second_ood) < 77_500
    share = len(pairs.id) / (len(pairs.id) + len(pairs.train) + len(pairs.validation) + pairs.left_out)
    assert abs(share - 0.005) < 4 * np.sqrt(0.005 * 0.995 / 721_600)
    assert {cell.name: len(task.test(cell, 3000)) for cell in task.cells()} == {
        "id": 3000, "ood": len(pairs.ood), "first-ood": 3000, "second-ood": 3000, "atomic": 3000,
    }  # fmt: skip
    chains = HopsConfig.paper("k-hop")
    assert (chains.facts, chains.hops, training_size(chains)) == (2000, 40, 2000 + 39 * 15_000)
    assert [cell.value for cell in HopsTask(chains).cells()] == [*range(2, 41), None]
    assert HopsTask(chains).sizes.length == 42 and HopsTask(chains).sizes.vocabulary == 212


def test_phi_and_shares_keep_the_test_rows() -> None:
    cells = HopsTask(PARTIAL).cells()
    for other in (replace(PARTIAL, phi=1.0), replace(PARTIAL, validation_rows=7)):
        for cell in cells:
            assert np.array_equal(HopsTask(other).test(cell, 20).tokens, HopsTask(PARTIAL).test(cell, 20).tokens)
        assert other.test_digest == PARTIAL.test_digest and other.train_digest != PARTIAL.train_digest
    fewer, more = (pairs_of(replace(PARTIAL, phi=phi)).train for phi in (1.0, 2.0))
    assert np.array_equal(more[: len(fewer)], fewer)


@pytest.mark.parametrize("config", [CHAINS, FRESH], ids=["fixed", "fresh"])
def test_reserved_chains_are_never_trained_on(config: HopsConfig) -> None:
    task = HopsTask(config)
    tests = {row for cell in task.cells(("walks",)) for row in rows_of(task.test(cell, config.test_rows).source)}
    assert len(tests) == 7 * config.test_rows
    held = {row for row in rows_of(task.chains("validation", 0, np.arange(20_000))) if len(row[1]) > 1}
    assert len(held) == 4 * config.validation_rows and not held & tests
    for split in ("train", "card", "example"):
        rows = rows_of(task.chains(split, 0, np.arange(20_000)))
        assert not {row for row in rows if len(row[1]) > 1} & (tests | held)
    if config.fresh:
        # Of two hops there are 320 rows, and all but the reserved ones come.
        assert len({row for row in rows if len(row[1]) == 2}) == 320 - 80
        assert task.chains("train", 0, np.arange(1000)).attempts.sum() > 1000
        counts = np.bincount(task.chains("train", 0, np.arange(20_000)).hops)[1:]
        assert ((counts - 4000) ** 2 / 4000).sum() < 23.5  # chi-squared, 4 degrees: p = 1e-4


def test_walks_are_uniform_facts_and_edges() -> None:
    from algoprobe.tasks.hops.sampling import walks

    found = walks(CHAINS.graph_fields, np.full(40_000, 3), np.arange(40_000))
    for values, number in ((found.head, 20), *((found.relations[:, hop], 4) for hop in range(3))):
        counts = np.bincount(values, minlength=number + 1)[1:]
        assert ((counts - 40_000 / number) ** 2 / (40_000 / number)).sum() < 60


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"entities": 1}, "task.entities: 1 is not possible; allowed: 2 to"),
        ({"out_degree": 9}, "task.out_degree: 9 is not possible; allowed: 1 to 8, the number of relations"),
        ({"tails": "permutation"}, "task.out_degree: 5 is not possible; allowed: 8"),
        ({"ood_share": 1.0}, "task.ood_share: 1.0 is not possible; allowed: 0 to below 1"),
        ({"test_share": 1.0}, "task.test_share: 1.0 is not possible"),
        ({"phi": -1.0}, "task.phi: -1.0 is not possible"),
        ({"phi": float("nan")}, "task.phi: nan is not possible"),
        ({"phi": 6.0}, "task.phi: 6.0 is not possible; allowed: at most 5.55556 (there are 1000 pairs)"),
        ({"entities": 20_000, "relations": 13_000}, "task.relations: 13000 is not possible; allowed: at most 12765"),
        ({"entities": 9000, "relations": 2000, "out_degree": 99}, "task.entities: 9000 is not possible; allowed: at m"),
        ({"test_rows": 0}, "task.test_rows: 0 is not possible; allowed: 1 to 1000000"),
    ],
)  # fmt: skip
def test_impossible_two_hop_configs(fields: dict, message: str) -> None:
    with pytest.raises(UsageError) as error:
        replace(PARTIAL, **fields)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"train_rows": 241},
            "task.train_rows: 241 is not possible; allowed: at most 240 with 80 test and validation rows",
        ),
        (
            {"fresh": True, "test_rows": 131},
            "task.test_rows: 131 is not possible; allowed: at most 130 with 30 validation",
        ),
        ({"hops": 0}, "task.hops: 0 is not possible; allowed: 1 to 1000"),
        ({"hops_max_test": 1}, "task.hops_max_test: 1 is not possible; allowed: 2 to 1000"),
        ({"answer_at": "padded"}, "task.answer_at: 'padded' is not possible; allowed: 'query'"),
    ],
)
def test_impossible_chains(fields: dict, message: str) -> None:
    with pytest.raises(UsageError) as error:
        replace(CHAINS, **fields)
    assert message in str(error.value)


def test_every_row_of_two_hops_can_be_used() -> None:
    config = replace(CHAINS, train_rows=240, hops=2)
    assert len(set(rows_of(HopsTask(config).chains("train", 0, np.arange(320))))) == 320


def test_a_phi_that_the_graph_cannot_give_is_named() -> None:
    with pytest.raises(UsageError, match=r"task\.phi: 4\.9 is not possible; allowed: at most ([\d.]+) ") as error:
        HopsTask(replace(PARTIAL, phi=4.9))
    most = float(str(error.value).split("at most ")[1].split()[0])
    HopsTask(replace(PARTIAL, phi=most))
    with pytest.raises(UsageError):
        HopsTask(replace(PARTIAL, phi=most + 0.01))


def test_cells_without_rows_are_left_out_and_wrong_names_are_named() -> None:
    task = HopsTask(replace(PARTIAL, ood_share=0.0, phi=1.0))
    assert [cell.name for cell in task.cells()] == ["id", "atomic"]
    for ask, message in (
        (lambda: task.cells(("odd",)), "on: 'odd' is unknown; allowed: id, ood, first-ood"),
        (lambda: task.test(group("walks"), 1), "cell: 'walks' is unknown"),
        (lambda: task.test(task.cells()[0], 61), "rows: 61 is not possible; allowed: 1 to 60"),
        (lambda: task.sample("test", 0, np.arange(2)), "test(cell, rows)"),
        (lambda: task.sample("trian", 0, np.arange(2)), "Did you mean 'train'?"),
        (lambda: task.at_size(3), "n: 3 is not possible; allowed: 2 (two-hop rows have two hops"),
        (lambda: task.at_stage(2), "stage: 2 is not possible; allowed: 1 to 1"),
        (lambda: HopsTask(CHAINS).at_size(1001), "n: 1001 is not possible; allowed: 2 to 1000"),
        (lambda: task.grade(task.sample("train", 0, np.arange(2)), np.zeros((2, 2), int)), "answers:"),
    ):
        with pytest.raises(UsageError) as error:
            ask()
        assert message in str(error.value)


def test_grading_accepts_the_answer_alone() -> None:
    task = HopsTask(CHAINS)
    batch = task.test(task.cells()[0], 50)
    assert task.grade(batch, batch.targets).all() and task.grade(batch, batch.targets[:, 0]).all()
    assert not task.grade(batch, batch.targets % 20 + 1).any()
