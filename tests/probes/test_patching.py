from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from algoprobe.core.errors import UsageError
from algoprobe.probes.edit import edit
from algoprobe.probes.inputs import Inputs, answer_logits
from algoprobe.probes.patching import METRICS, activation_patching, each_column, logit_difference, matrix, put_clean
from algoprobe.probes.path_patching import Node, path_logits, path_patching, sent, time_of
from algoprobe.probes.record import record
from tests.probes.small import LOOPED, PACKED, PLAIN, SMALL, VARIANTS, build, partners


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("name", VARIANTS)
def test_everything_clean_is_exactly_one(name, metric):
    config, sizes = VARIANTS[name]
    model, (clean, corrupted) = build(config, sizes), partners(sizes)
    last = config.loops - 1
    table = activation_patching(model, clean, corrupted, ["embed", "loop_out"], metric=metric)
    effects = {(row["site"], row["loop"]): row["effect"] for row in table}
    assert effects["embed", 0] == 1.0 and effects["loop_out", last] == 1.0
    if not config.inject:
        assert set(effects.values()) == {1.0}
    else:
        assert effects["loop_out", 0] != 1.0


def test_a_corrupted_value_in_its_own_run_changes_no_bit():
    model, (clean, corrupted) = build(LOOPED, PACKED), partners(PACKED)
    plain = answer_logits(model, corrupted)
    with record(model, ["blocks.*", "loop_out"]) as seen:
        answer_logits(model, corrupted)
    everywhere = torch.ones(len(clean), 10, dtype=torch.bool)
    for address in dict(seen):
        if seen[address].shape[-2] == 10:
            with edit(model, {address: put_clean(seen[address], everywhere, None)}):
                assert torch.equal(answer_logits(model, corrupted), plain), address
    same = replace(corrupted, targets=clean.targets, accepted=clean.accepted)
    with pytest.raises(UsageError, match="the same targets"):
        activation_patching(model, clean, same, ["loop_out"])


def test_nothing_patched_is_zero_and_columns_and_heads_are_told_apart():
    model, (clean, corrupted) = build(SMALL, PLAIN), partners(PLAIN)
    nothing = {"none": torch.zeros(len(clean), 10, dtype=torch.bool)}
    table = activation_patching(model, clean, corrupted, ["blocks.*.resid_pre", "blocks.*.attn.z"], columns=nothing)
    assert {row["effect"] for row in table} == {0.0} and len(table) == 2 + 2 * 2
    columns = each_column(clean, "right")
    assert list(columns) == list(range(-10, 0)) and sum(mask.sum() for mask in columns.values()) == clean.lengths.sum()
    # After the last attention only the read column still counts.
    table = activation_patching(model, clean, corrupted, ["blocks.1.resid_mid"], columns=columns)
    assert [row["effect"] for row in table] == [0.0] * 9 + [1.0]
    down, across, values = matrix(table, "columns", "loop")
    assert down == list(columns) and across == [0] and values[-1] == [1.0]
    with pytest.raises(UsageError, match="pick between them"):
        matrix(table, "site", "loop")


def test_one_head_patched_is_its_slice_of_z():
    model, (clean, corrupted) = build(SMALL, PLAIN), partners(PLAIN)
    with record(model, ["blocks.1.attn.z"]) as seen:
        answer_logits(model, clean)

    def by_hand(z):
        return torch.stack([z[:, 0], seen["blocks.1.attn.z", 0][:, 1]], 1)

    with edit(model, {("blocks.1.attn.z", 0): by_hand}):
        value = logit_difference(answer_logits(model, corrupted), clean, corrupted).mean()
    (row,) = (r for r in activation_patching(model, clean, corrupted, ["blocks.1.attn.z"]) if r["head"] == 1)
    assert row["value"] == float(value)


def test_pairs_that_do_not_fit_and_mistakes_are_errors():
    model, (clean, corrupted) = build(SMALL, PLAIN), partners(PLAIN)
    with pytest.raises(UsageError, match="equal shapes and lengths"):
        activation_patching(model, clean, replace(corrupted, lengths=clean.lengths - 1), ["embed"])
    with pytest.raises(UsageError, match="Did you mean 'probability'"):
        activation_patching(model, clean, corrupted, ["embed"], metric="probabilty")
    twin = Inputs(clean.tokens, clean.lengths, corrupted.targets, corrupted.accepted)
    with pytest.raises(UsageError, match="score the same"):
        activation_patching(model, clean, twin, ["embed"])


def senders_of(config):
    return [Node("embed", 0)] + [
        Node(f"blocks.{b}.{part}", loop)
        for loop in range(config.loops)
        for b in range(config.layers)
        for part in ("attn_out", "mlp_out")
    ]


def all_receivers(config, sender):
    found = [
        Node(f"blocks.{b}.{part}", loop)
        for loop in range(config.loops)
        for b in range(config.layers)
        for part in ("attn_in", "mlp_in")
    ] + [Node("final", 0)]
    own = time_of(sender, config.layers, config.loops)
    return [node for node in found if time_of(node, config.layers, config.loops) > own]


@pytest.mark.parametrize("name", VARIANTS)
def test_all_paths_of_a_sender_together_are_activation_patching(name):
    config, sizes = VARIANTS[name]
    model, (clean, corrupted) = build(config, sizes), partners(sizes)
    for sender in senders_of(config):
        if sender.site == "embed" and config.inject:
            continue
        with record(model, [sender.site]) as seen:
            answer_logits(model, clean)
            kept = seen[sender.site, sender.loop].clone()
            answer_logits(model, corrupted)
        other = seen[sender.site, sender.loop]
        with edit(model, {(sender.site, sender.loop): lambda _, other=other: other}):
            wanted = answer_logits(model, clean)
        change = sent(model, sender, kept, other)
        found = path_logits(model, clean, sender, change, all_receivers(config, sender))
        assert torch.allclose(found, wanted, atol=1e-10, rtol=0), sender
        by_part = [
            Node(node.site.replace("attn_in", part), node.loop, head)
            for node in all_receivers(config, sender)
            for part in (("attn.q", "attn.k", "attn.v") if "attn_in" in node.site else ("",))
            for head in (range(config.heads) if part else [None])
        ]
        found = path_logits(model, clean, sender, change, by_part)
        assert torch.allclose(found, wanted, atol=1e-10, rtol=0), sender


def test_the_injected_embedding_is_heard_in_every_loop():
    model, (clean, corrupted) = build(LOOPED, PACKED), partners(PACKED)
    sender = Node("embed", 0)
    change = sent(model, sender, *(model.embed(side.tokens, torch.float64) for side in (clean, corrupted)))
    found = path_logits(model, clean, sender, change, all_receivers(LOOPED, sender))
    assert torch.allclose(found, answer_logits(model, corrupted), atol=1e-10, rtol=0)


def test_the_last_writer_has_one_path_and_effects_have_their_scale():
    model, (clean, corrupted) = build(SMALL, PLAIN), partners(PLAIN)
    last = Node("blocks.1.mlp_out", 0)
    (row,) = path_patching(model, clean, corrupted, [last], [Node("final", 0), Node("blocks.1.attn_in", 0)])
    assert (row["sender"], row["receiver"]) == ("blocks.1.mlp_out", "final")
    (patched,) = activation_patching(model, corrupted, clean, ["blocks.1.mlp_out"])  # roles exchanged: noise into clean
    assert row["effect"] == pytest.approx(patched["effect"])
    # Heads add up to their layer on the linear way to one receiver's input, so z of all heads is attn_out.
    z, out = Node("blocks.0.attn.z", 0), Node("blocks.0.attn_out", 0)
    table = path_patching(model, clean, corrupted, [z, out], [Node("blocks.1.attn.k", 0), Node("final", 0)])
    assert [row["effect"] for row in table[:2]] == pytest.approx([row["effect"] for row in table[2:]])


def test_impossible_paths_are_errors():
    model, pair = build(LOOPED, PACKED), partners(PACKED)
    sender, receiver = Node("blocks.0.mlp_out", 1), Node("final", 0)
    for senders, receivers, message in (
        ([Node("blocks.0.mlp_in", 0)], [receiver], r"sender: 'blocks\.0\.mlp_in' is unknown.*'blocks\.0\.mlp_out'"),
        ([sender], [Node("blocks.0.attn.z", 2)], r"receiver: 'blocks\.0\.attn\.z' is unknown"),
        ([Node("blocks.0.mlp_out", 3)], [receiver], "sender loop: 3 is not possible; allowed: 0 to 2"),
        ([Node("blocks.0.attn.z", 0, 2)], [receiver], "sender head: 2 is not possible; allowed: 0 to 1"),
        ([Node("blocks.0.mlp_out", 0, 1)], [receiver], "has no heads"),
    ):
        with pytest.raises(UsageError, match=message):
            path_patching(model, *pair, senders, receivers)
    with pytest.raises(UsageError, match="computes before"):
        path_logits(model, pair[0], sender, torch.zeros(6, 10, 16), [Node("blocks.0.mlp_in", 1)])


def test_a_site_without_a_value_for_each_row_and_column_is_named():
    config, sizes = VARIANTS["rms, tied, learned positions"]
    with pytest.raises(UsageError, match=r"'embed\.pos' hands on a value of shape \[.*wanted: .*\[6, 10, …\]"):
        activation_patching(build(config, sizes), *partners(sizes), ["embed.pos"])


def test_attention_patterns_can_be_patched_on_the_fused_path():
    model = build(SMALL, PLAIN).use_attention("fused")
    found = activation_patching(model, *partners(PLAIN), ["blocks.*.attn.pattern"])
    assert len(found) == 2 * 2 and {block.attn.path for block in model.blocks} == {"fused"}
