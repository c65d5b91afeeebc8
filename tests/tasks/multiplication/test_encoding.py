"""Rows as tokens: what stands where, what is asked, and what removing a part of the chain leaves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from algoprobe.core.errors import UsageError
from algoprobe.tasks.batch import IGNORE
from algoprobe.tasks.multiplication import MultiplicationConfig
from algoprobe.tasks.multiplication.encoding import decode, encode, mark, place_ids, sizes
from algoprobe.tasks.multiplication.text import gpt2_ids, operands_of, stored_rows, trained_text

CONFIG = MultiplicationConfig(chain="implicit", places="kept")
OPERANDS = operands_of([(4706, 3159), (9999, 9999), (1000, 2050)], CONFIG)


def rows(removed: list[int], config: MultiplicationConfig = CONFIG):
    return encode(OPERANDS, config, np.array(removed), np.arange(3))


def test_operands_come_back_from_tokens() -> None:
    for config in (CONFIG, replace(CONFIG, chain="none"), replace(CONFIG, digits_b=4, places="coupled")):
        found = decode(rows([0, 0, 0], config).tokens[..., 0], config)
        assert np.array_equal(found.a, OPERANDS.a) and np.array_equal(found.b, OPERANDS.b)
    mixed = rows([0, 5, 46]).tokens[..., 0].copy()
    assert np.array_equal(decode(mixed, CONFIG).b, OPERANDS.b)
    mixed[1, 5] = 0
    with pytest.raises(UsageError, match="row 1"):
        decode(mixed, CONFIG)


def test_every_target_is_the_token_that_follows() -> None:
    batch = rows([0, 3, 46])
    says, read = batch.tokens[..., 0], batch.targets.shape[1]
    for row in range(3):
        start = says.shape[1] - batch.lengths[row]
        for k in range(read - 1):
            column = says.shape[1] - read + k
            asked = column >= start + 9  # from E on
            assert batch.targets[row, k] == (says[row, column + 1] if asked else IGNORE)
        assert batch.targets[row, -1] == OPERANDS.product[row, -1] + 1
    assert np.array_equal(batch.targets[:, -8:] - 1, OPERANDS.product)
    assert np.array_equal(batch.accepted.sum(2) == 1, batch.targets != IGNORE)


@pytest.mark.parametrize("removed", range(0, 47))
def test_removing_tokens_leaves_operands_and_answer(removed: int) -> None:
    whole, batch = rows([0, 0, 0]), rows([removed] * 3)
    says = whole.tokens[..., 0]
    assert np.array_equal(batch.tokens[..., 0], np.concatenate([says[:, :10], says[:, 10 + removed :]], axis=1))
    assert np.array_equal(batch.targets[:, -8:], whole.targets[:, -8:])
    kept = place_ids(CONFIG)[:, 0]
    assert batch.tokens[0, :, 1].tolist() == [*kept[:10], *kept[10 + removed :]]
    moved = encode(OPERANDS, replace(CONFIG, places="sequence"), np.array([removed] * 3), np.arange(3))
    assert moved.tokens[0, :, 1].tolist() == list(range(1, moved.tokens.shape[1] + 1))


def test_rows_that_lost_more_stand_on_the_right() -> None:
    batch = rows([2, 5, 2])
    assert batch.lengths.tolist() == [62, 59, 62]
    assert (batch.tokens[1, :3] == 0).all() and (batch.tokens[0, 0] > 0).all()
    assert np.array_equal(batch.tokens[1, 3:], rows([5, 5, 5]).tokens[1])


def test_without_a_chain_only_digits_are_asked() -> None:
    batch = rows([0, 0, 0], replace(CONFIG, chain="none"))
    assert batch.tokens.shape == (3, 18, 2) and batch.targets.shape == (3, 8)
    assert (batch.tokens[:, 10, 0] == mark(10, "#")).all()
    assert np.array_equal(rows([46] * 3).tokens[..., 0], batch.tokens[..., 0])


def test_coupled_places_say_weight_and_number() -> None:
    config = replace(CONFIG, places="coupled")
    batch, told = rows([0, 0, 0], config), sizes(config)
    assert told.fields == 3 and batch.tokens.shape[2] == 3 and batch.tokens[..., 1:].max() < told.vocabulary
    weight, number = batch.tokens[0, :, 1], batch.tokens[0, :, 2]
    # c_k and the totals before it have equal weights where they answer equal places.
    answers, totals = weight[-8:], weight[number == 6]
    assert answers.tolist() == list(range(1, 9)) and totals.tolist()[:-1] == list(range(1, len(totals)))
    assert len(set(zip(weight.tolist(), number.tolist()))) == len(weight)


def test_gpt2_tokens_are_as_many_as_in_the_data_of_the_paper() -> None:
    tokenizers = pytest.importorskip("tokenizers")
    from tokenizers import models, pre_tokenizers

    pieces = ["Ġ", "#", "<|endoftext|>", *"0123456789*+()", *(f"Ġ{c}" for c in "0123456789*+()#"), "##", "###"]
    merges = [("Ġ", c) for c in "0123456789*+()#"] + [("#", "#"), ("##", "#")]
    bpe = models.BPE(vocab={piece: i for i, piece in enumerate(pieces)}, merges=merges)
    tokenizer = tokenizers.Tokenizer(bpe)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    (row, *_) = stored_rows(OPERANDS, CONFIG)
    whole = gpt2_ids(trained_text(row), tokenizer)
    gone = gpt2_ids(trained_text(row, removed=47), tokenizer)
    assert len(whole) - len(gone) == 46 + 1  # the blank after the chain counts
    assert len(gone) == 14 + 8 + 2  # the prompt, the product, a blank and the end
    assert len(gpt2_ids(trained_text(row, removed=45), tokenizer)) == len(gone) + 2
    for removed in (-1, 48):
        with pytest.raises(UsageError, match="removed"):
            trained_text(row, removed)
    with pytest.raises(UsageError, match="OPERANDS"):
        trained_text("4 * 5")
