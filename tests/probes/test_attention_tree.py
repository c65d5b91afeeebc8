"""The tree of strong attention: what is fetched, where pairs meet, which edges matter; and what answers depend on."""

from __future__ import annotations

import pytest
import torch

from algoprobe.core.errors import UsageError
from algoprobe.probes.attention_tree import AttentionTree, Edge, attention_tree, column_accuracy, knock_out
from algoprobe.probes.counterfactual import counterfactual_attribution
from algoprobe.probes.inputs import Inputs, answer_logits
from algoprobe.probes.patterns import attention_patterns

from .small import PLAIN, SMALL, build, rows


def made(stages: list[dict[tuple[int, int, int], float]], columns: int = 6) -> AttentionTree:
    """A tree of one head or two from the entries (head, query, key) of each stage."""
    patterns = torch.zeros(len(stages), 2, columns, columns)
    for s, entries in enumerate(stages):
        for (head, query, key), weight in entries.items():
            patterns[s, head, query, key] = weight
    return AttentionTree([(f"blocks.{s}.attn.pattern", 0) for s in range(len(stages))], patterns, 0.1)


def test_leaves_are_what_edges_lead_to() -> None:
    # Column 3 reads 0 and 1 in two heads, column 4 reads 2; the answer, 5, reads column 3 in the second stage.
    tree = made([{(0, 3, 0): 0.9, (1, 3, 1): 0.8, (0, 4, 2): 0.9, (0, 5, 2): 0.05}, {(0, 5, 3): 0.7, (0, 5, 4): 0.09}])
    assert tree.way(5) == [{0, 1, 3, 5}, {3, 5}, {5}] and tree.fetched(5) == {0, 1, 3, 5}
    assert [(e.stage, e.head, e.query, e.key) for e in tree.edges] == [
        (0, 0, 3, 0),
        (0, 0, 4, 2),
        (0, 1, 3, 1),
        (1, 0, 5, 3),
    ]
    assert tree.pairs(5, [0, 2], [1]) == {(0, 1): (0, 3)}
    assert tree.pairs(4, [0, 2], [1]) == {}


def test_a_pair_is_found_where_it_first_meets() -> None:
    tree = made([{(0, 1, 0): 0.5}, {(0, 2, 1): 0.5}, {(0, 5, 2): 0.5}])
    assert tree.pairs(5, [0], [1]) == {(0, 1): (0, 1)}
    # 0 reaches 3 and 4 reaches 5 apart; they meet only at the answer.
    tree = made([{(0, 3, 0): 0.5, (0, 5, 4): 0.5}, {(0, 5, 3): 0.5}])
    assert tree.pairs(5, [0], [4]) == {(0, 4): (1, 5)}


def same_length(batch: int = 30) -> Inputs:
    found = rows(PLAIN, batch, read=2)
    return Inputs(found.tokens, torch.full((batch,), PLAIN.length), found.targets, found.accepted)


def test_a_model_s_tree_has_its_mean_patterns() -> None:
    model, inputs = build(SMALL, PLAIN), same_length()
    tree = attention_tree(model, inputs, threshold=0.2)
    seen = attention_patterns(model, inputs)
    assert tree.stages == list(seen)
    assert torch.allclose(tree.patterns, torch.stack([p.mean(0) for p in seen.values()]))
    assert all(edge.weight > 0.2 and edge.query != edge.key for edge in tree.edges)
    with pytest.raises(UsageError, match="one layout"):
        attention_tree(model, rows(PLAIN, 6))
    with pytest.raises(UsageError, match="threshold"):
        attention_tree(model, inputs, threshold=1.5)


def test_cutting_an_edge_takes_its_entry_away_and_nothing_else() -> None:
    model, inputs = build(SMALL, PLAIN), same_length()
    before = answer_logits(model, inputs)
    inputs = Inputs(inputs.tokens, inputs.lengths, before.argmax(-1), inputs.accepted)
    edges = [
        Edge(s, f"blocks.{s}.attn.pattern", 0, head, 9, key, 0.5) for s in (0, 1) for head in (0, 1) for key in range(9)
    ]
    lost = knock_out(model, inputs, [[edge] for edge in edges])
    assert (lost[:, 1] > 0).any()
    # Column 9 answers last, and in the last block nothing of it reaches column 8.
    late = torch.tensor([edge.stage == 1 for edge in edges])
    assert (lost[late, 0] == 0).all()
    every, none, first = knock_out(model, inputs, [edges, [], edges[:1]])
    assert every[1] > lost[:, 1].max() / 2 and (none == 0).all() and torch.equal(first, lost[0])
    assert torch.equal(column_accuracy(model, inputs, None), torch.ones(2, dtype=torch.float64))
    assert torch.equal(answer_logits(model, inputs), before)


def test_answers_depend_on_what_is_exchanged_and_on_nothing_that_is_not() -> None:
    model, inputs = build(SMALL, PLAIN), same_length()
    tokens = inputs.tokens.clone()
    tokens[:, 2] = (tokens[:, 2] + 1) % PLAIN.vocabulary
    found = counterfactual_attribution(model, inputs, {"third": tokens, "none": inputs.tokens})
    assert [(line["input"], line["column"]) for line in found] == [("third", 0), ("third", 1), ("none", 0), ("none", 1)]
    logits, other = (answer_logits(model, Inputs(t, *list(vars(inputs).values())[1:])) for t in (inputs.tokens, tokens))
    for line in found[:2]:
        k = line["column"]
        chosen = logits[:, k].argmax(-1)
        effect = [float(logits[r, k, chosen[r]] - other[r, k, chosen[r]]) for r in range(len(chosen))]
        assert line["effect"] == pytest.approx(sum(effect) / len(effect)) and line["changed"] > 0
    assert all(line["effect"] == line["changed"] == 0 for line in found[2:])
