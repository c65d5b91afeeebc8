from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import pytest
import torch
from torch import nn

from algoprobe.core.errors import UsageError
from algoprobe.core.sizes import Sizes
from algoprobe.models.config import TransformerConfig
from algoprobe.probes.edit import edit
from algoprobe.probes.record import record

SIZES = Sizes(vocabulary=12, length=10, outputs=6, fields=2)
LOOPED = TransformerConfig(layers=2, heads=2, width=16, loops=3, inject=True, outer_norm=True)


@pytest.fixture
def model():
    return LOOPED.build(SIZES).use_attention("explicit").eval()


def rows():
    tokens = torch.randint(0, 12, (4, 10, 2), generator=torch.Generator().manual_seed(0))
    return tokens, torch.tensor([10, 9, 5, 3])


def test_recording_everything_changes_no_bit_and_sees_every_loop(model):
    plain = model(*rows())
    with record(model, ["*"]) as seen:
        recorded = model(*rows())
    assert torch.equal(plain, recorded)
    assert {loop for site, loop in seen if site == "blocks.1.attn.pattern"} == {0, 1, 2}
    assert torch.equal(seen["logits", 0], plain)
    assert torch.equal(seen["blocks.0.resid_post", 2], seen["blocks.1.resid_pre", 2])
    assert seen.stack("loop_out").shape == (3, 4, 10, 16)
    assert torch.equal(model(*rows()), plain)  # and no hook is left behind


def test_loops_are_counted_anew_in_every_forward_pass(model):
    with record(model, ["loop_out"], loops=[1]) as seen:
        model(*rows())
        first = seen["loop_out", 1].clone()
        model(*(part.flip(0) for part in rows()))
    assert set(seen) == {("loop_out", 1)} and torch.equal(seen["loop_out", 1].flip(0), first)


def test_a_small_budget_spills_to_disk_and_loses_nothing(model):
    with record(model, ["blocks.*"]) as whole:
        model(*rows())
    size = whole["blocks.0.resid_post", 0].nbytes
    with record(model, ["blocks.*"], budget=3 * size) as seen:
        model(*rows())
        assert seen.bytes_in_memory <= 3 * size and len(seen) == len(whole)
        assert all(torch.equal(seen[address], whole[address]) for address in whole)


def test_patching_a_site_with_its_own_value_changes_no_bit(model):
    plain = model(*rows())
    with record(model, ["blocks.*", "loop_*", "final"]) as seen:
        model(*rows())
    kept = dict(seen)
    for address in kept:
        with edit(model, {address: lambda _, address=address: kept[address]}):
            assert torch.equal(model(*rows()), plain), address


def test_an_edit_acts_in_its_loop_alone(model):
    plain = model(*rows())
    with record(model, ["loop_out"]) as before:
        model(*rows())
    with edit(model, {("blocks.0.attn.z", 1): torch.zeros_like}), record(model, ["loop_out"]) as after:
        changed = model(*rows())
    assert torch.equal(before["loop_out", 0], after["loop_out", 0])
    assert not torch.equal(before["loop_out", 1], after["loop_out", 1])
    assert not torch.equal(plain, changed)
    with edit(model, {("blocks.0.attn.z", None): torch.zeros_like, ("blocks.0.attn.z", 2): lambda z: z + 1}):
        both = model(*rows())
    assert not torch.equal(both, changed)


def test_gradients_flow_through_an_edit(model):
    direction = torch.zeros(16, requires_grad=True)
    with edit(model, {("blocks.0.resid_post", 1): lambda x: x + direction}):
        model(*rows()).sum().backward()
    assert direction.grad.abs().sum() > 0


def test_mistakes_are_errors(model):
    with pytest.raises(UsageError, match=r"'blocks\.9\.attn\.pattern' matches no module.*'blocks\.\d\.attn\.pattern'"):
        with record(model, ["blocks.9.attn.pattern"]):
            pass
    with pytest.raises(UsageError, match="loop_out in loop 7 never fired"):
        with edit(model, {("loop_out", 7): lambda x: x}):
            model(*rows())
    with pytest.raises(UsageError, match=r"made \(4, 10, 8\)"), edit(model, {("loop_out", 0): lambda x: x[..., :8]}):
        model(*rows())
    with pytest.raises(UsageError, match=r"never fired; .*use_attention"):
        with record(model.use_attention("fused"), ["blocks.0.attn.pattern"]):
            model(*rows())


def test_an_error_inside_the_context_is_not_hidden_and_leaves_no_hook(model):
    with pytest.raises(ZeroDivisionError), edit(model, {("loop_out", 7): lambda x: x}):
        raise ZeroDivisionError
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


def test_compiled_models_are_refused(model):
    with pytest.raises(UsageError, match="compiled, and hooks added after compiling never fire"):
        with record(torch.compile(model), ["*"]):
            pass
    model.blocks[1] = torch.compile(model.blocks[1])
    with pytest.raises(UsageError, match=r"its module 'blocks\.1' is compiled"), record(model, ["*"]):
        pass


def test_any_module_can_be_opened():
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.LSTM(8, 3))
    x = torch.randn(5, 2, 4)
    with record(net, ["0", "2"]) as seen:
        out, _ = net(x)
    assert torch.equal(seen["2", 0], out) and seen["0", 0].shape == (5, 2, 8)
    with edit(net, {("2", 0): torch.zeros_like}):
        out, state = net(x)
    assert out.abs().sum() == 0 and len(state) == 2


def test_looped_sites_of_one_block_have_as_many_calls_as_loops():
    model = replace(LOOPED, layers=1).build(SIZES)
    for loops in (1, 4):
        with record(model, ["blocks.0.resid_post"]) as seen:
            model(*rows(), loops=loops)
        assert [loop for _, loop in sorted(seen)] == list(range(loops))


def test_an_address_that_is_none_is_named(model):
    with record(model, ["blocks.0.resid_post"]) as kept:
        model(*rows())
    with pytest.raises(UsageError, match=r'give \(site, loop\), as in \("blocks.0.resid_post", 0\)'):
        kept["blocks.0.resid_post"]
    with pytest.raises(KeyError, match="was not recorded; it holds 3 addresses"):
        kept["blocks.0.resid_post", 9]
    assert ("blocks.0.resid_post", 9) not in kept
    with pytest.raises(UsageError, match=r"\(site, None\) for every loop"):
        with edit(model, {"blocks.0.resid_post": lambda x: x}):
            model(*rows())


class Two(NamedTuple):
    first: torch.Tensor
    second: int


class Named(nn.Module):
    def forward(self, x):
        return Two(x, 3)


def test_a_named_tuple_keeps_its_kind_when_edited():
    net = nn.Sequential(nn.Linear(4, 4), Named())
    with edit(net, {("1", 0): torch.zeros_like}):
        out = net(torch.ones(2, 4))
    assert isinstance(out, Two) and out.second == 3 and not out.first.any()


def test_an_edit_takes_no_pattern(model):
    with pytest.raises(
        UsageError, match=r"site: '\*l\*' is a pattern; an edit takes an exact name, such as 'embed.tables'"
    ):
        with edit(model, {("*l*", None): torch.zeros_like}):
            pass


def test_spilled_values_go_with_the_context_and_say_so(model):
    with record(model, ["blocks.0.resid_post"], budget=0) as seen:
        model(*rows())
        assert seen["blocks.0.resid_post", 0].shape == (4, 10, 16)
    assert ("blocks.0.resid_post", 0) in seen and len(seen) == 3
    with pytest.raises(UsageError, match="spilled values go with the context; read it inside the `with`"):
        seen["blocks.0.resid_post", 0]
    with pytest.raises(UsageError, match="budget: -1 is not possible; allowed: 0 bytes and more"):
        with record(model, ["blocks.0.resid_post"], budget=-1):
            pass


def test_spilled_values_do_not_mix_when_one_returns_to_memory():
    net = nn.ModuleDict({name: nn.Identity() for name in "abc"})
    with record(net, ["*"], budget=8) as seen:
        net["a"](torch.full((9,), 1.0))
        net["b"](torch.full((9,), 2.0))
        net.register_forward_pre_hook(lambda *_: None)
        for hook in net._forward_pre_hooks.values():  # as a second forward pass begins
            hook(net, ())
        net["a"](torch.full((2,), 3.0))  # now fits
        net["c"](torch.full((9,), 4.0))
        assert [float(seen[name, 0][0]) for name in "abc"] == [3, 2, 4]


def test_loops_that_never_happened_are_an_error(model):
    with pytest.raises(UsageError, match=r"loops: 7 never happened; allowed: those that did, \[0, 1, 2\]"):
        with record(model, ["loop_out"], loops=[1, 7]):
            model(*rows())


def test_a_bare_string_is_one_site(model):
    with record(model, "loop_out") as seen:
        model(*rows())
    assert {site for site, _ in seen} == {"loop_out"}


def test_a_recording_sees_edits_opened_before_it(model):
    zero = {("loop_out", 2): torch.zeros_like}
    with record(model, "loop_out") as outer, edit(model, zero), record(model, "loop_out") as inner:
        model(*rows())
    assert outer["loop_out", 2].any() and not inner["loop_out", 2].any()


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_scripted_modules_are_refused():
    net = nn.Sequential(torch.jit.trace(nn.Linear(4, 4), torch.ones(1, 4)), nn.ReLU())
    with pytest.raises(UsageError, match=r"its module '0' is a torch\.jit.ScriptModule, which takes no hooks"):
        with record(net, "1"):
            pass
