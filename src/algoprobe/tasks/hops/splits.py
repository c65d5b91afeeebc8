"""Two-hop rows: which facts are ID and OOD, and which pairs of facts are trained on, held out, tested or left out.

A pair is named by its code f · out_degree + j: fact f, then fact j of the entity f leads to. Pairs of two ID facts go
to the ID test with probability `test_share`, else into the pool: its first φ · (number of ID facts) train, its last
`validation_rows` validate, what lies between is left out. Pairs with an OOD fact never train: two OOD facts are the OOD
test, one is a group of its own (the paper drops those). All groups stand in a random order that the config names.

Source: *Loop, Think, & Generalize* (arXiv 2604.07822), §5.1, whose generator is that of Wang et al. (2405.15071).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from jaxtyping import Bool, Int

from algoprobe.core.errors import outside
from algoprobe.core.stream import Stream

from .chains import Chains
from .config import GraphFields, HopsConfig
from .graph import graph_of, random_words


@dataclass(frozen=True)
class Pairs:
    """Codes of pairs by group, and of facts, each group in random order."""

    train: Int[np.ndarray, "train"]
    """Pairs of ID facts that are trained on."""
    validation: Int[np.ndarray, "validation"]
    """Pairs of ID facts for validation."""
    left_out: int
    """Pairs of ID facts that are used nowhere."""
    id: Int[np.ndarray, "id"]
    """The ID test."""
    ood: Int[np.ndarray, "ood"]
    """Both facts are OOD."""
    first_ood: Int[np.ndarray, "first"]
    """An OOD fact, then an ID one."""
    second_ood: Int[np.ndarray, "second"]
    """An ID fact, then an OOD one."""
    facts: Int[np.ndarray, "facts"]
    """Every fact."""
    fact_is_ood: Bool[np.ndarray, "facts"]
    """Of fact number f, whether it is OOD."""


def shuffled(key: int, numbers: Int[np.ndarray, "rows"]) -> Int[np.ndarray, "rows"]:
    """`numbers` in the random order that `key` names: each has a place of its own, whoever else is there."""
    return numbers[np.argsort(random_words(key, numbers, 1)[:, 0], kind="stable")]


def pairs_of(config: HopsConfig) -> Pairs:
    """The groups of `config`. Raises `UsageError` when there are too few pairs of ID facts for its φ."""
    test = _test(config.graph_fields, config.ood_facts, config.test_share)
    pool, wanted = test.train, config.train_pairs
    rest = len(pool) - wanted
    if len(pool) < 2:
        name = "ood_share" if len(pool) + len(test.id) < 2 else "test_share"
        raise outside(f"task.{name}", getattr(config, name), f"less (of pairs of ID facts it leaves {len(pool)})")
    if len(pool) <= config.validation_rows:
        raise outside(
            "task.validation_rows",
            config.validation_rows,
            f"at most {max(1, rest)} ({len(pool)} pairs of ID facts are not reserved for the test)",
        )
    if rest < config.validation_rows:
        most = (len(pool) - config.validation_rows) / config.id_facts
        digits = 10**3 if most >= 1 else 10**9
        raise outside(
            "task.phi",
            config.phi,
            f"at most {int(digits * most) / digits:g} ({len(pool)} pairs of ID facts are not reserved for the test, "
            f"{config.validation_rows} of them validate)",
        )
    parts = vars(test) | {
        "train": pool[:wanted],
        "validation": pool[len(pool) - config.validation_rows :],
        "left_out": rest - config.validation_rows,
    }
    return Pairs(**parts)


@lru_cache(maxsize=4)
def _test(fields: GraphFields, ood_facts: int, test_share: float) -> Pairs:
    """The groups before training takes its share: all of the pool stands in `train`."""
    graph, degree = graph_of(fields), fields.out_degree
    name = f"{fields.digest} {ood_facts}"
    facts = shuffled(Stream("hops", name, "fact order", 0).key, np.arange(graph.tail.size))
    is_ood = np.zeros(len(facts), np.bool_)
    is_ood[facts[:ood_facts]] = True
    codes = np.arange(graph.tail.size * degree)
    first, second = both_facts(codes, graph.tail)
    kind = 2 * is_ood[first] + is_ood[second]
    words = random_words(Stream("hops", name, "pairs", 0).key, codes, 2)
    in_test = (words[:, 1] >> np.uint64(11)).astype(np.float64) * 2.0**-53 < test_share
    order = np.argsort(words[:, 0], kind="stable")
    kind, in_test = kind[order], in_test[order]
    groups = [order[(kind == 0) & ~in_test], order[(kind == 0) & in_test], *(order[kind == k] for k in (3, 2, 1))]
    train, test, ood, first_ood, second_ood = groups
    return Pairs(train, train[:0], 0, test, ood, first_ood, second_ood, facts, is_ood)


def both_facts(
    codes: Int[np.ndarray, "rows"], tail: Int[np.ndarray, "E degree"]
) -> tuple[Int[np.ndarray, "rows"], Int[np.ndarray, "rows"]]:
    """The two facts of each pair."""
    degree = tail.shape[1]
    first, place = codes // degree, codes % degree
    return first, tail.reshape(-1)[first].astype(np.int64) * degree + place


def chains_of(config: HopsConfig, numbers: Int[np.ndarray, "batch"], is_fact: Bool[np.ndarray, "batch"]) -> Chains:
    """The rows of pairs, by their codes, and of facts, by their numbers."""
    graph, degree = graph_of(config.graph_fields), config.out_degree
    first, second = both_facts(np.where(is_fact, 0, numbers), graph.tail)
    first = np.where(is_fact, numbers, first)
    entities, relations = np.zeros((len(numbers), 3), np.int32), np.zeros((len(numbers), 2), np.int32)
    relation, tail = graph.relation.reshape(-1), graph.tail.reshape(-1)
    entities[:, 0] = first // degree + 1
    entities[:, 1], relations[:, 0] = tail[first] + 1, relation[first] + 1
    entities[:, 2] = np.where(is_fact, 0, tail[second] + 1)
    relations[:, 1] = np.where(is_fact, 0, relation[second] + 1)
    ones = np.ones(len(numbers), np.int64)
    return Chains(entities, relations, np.where(is_fact, 1, 2), ones, config.entities, config.relations)
