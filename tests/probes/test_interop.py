"""nnsight traces our models unchanged; TransformerLens reads our recordings."""

from __future__ import annotations

import builtins
from dataclasses import replace

import pytest
import torch

from algoprobe.core.errors import UsageError
from algoprobe.core.sizes import Sizes
from algoprobe.models.config import TransformerConfig
from algoprobe.probes.edit import edit
from algoprobe.probes.interop import activation_caches, hook_name
from algoprobe.probes.record import record

# nnsight warns that the linear layers called `output` are `.E_output` there, `.output` being what a module returns.
pytestmark = pytest.mark.filterwarnings("ignore:Module ['`].*(submodule named|pre-defined):UserWarning")

LEARNED = TransformerConfig(layers=2, heads=2, width=16, position="learned")
ONE_HOT = TransformerConfig(layers=2, heads=2, embedding="one-hot", position="one-hot", spare=6, norm="rms", bias=False)
LOOPED = replace(LEARNED, loops=3, inject=True, outer_norm=True)
CONFIGS = pytest.mark.parametrize("config", [LEARNED, ONE_HOT, LOOPED], ids=["learned", "one-hot", "looped"])


def build(config, **sizes):
    sizes = Sizes(**{"vocabulary": 12, "length": 10, "outputs": 6, "fields": 2, **sizes})
    model = config.build(sizes).use_attention("explicit").eval()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "norm" in name:  # as if trained: gains that are not 1 and offsets that are not 0
                weight += 0.3 * torch.randn(weight.shape, generator=generator)
    return model


def rows(fields=2):
    tokens = torch.randint(0, 12, (4, 10, fields), generator=torch.Generator().manual_seed(0))
    return tokens, torch.tensor([10, 9, 5, 3])


def recorded(model, **options):
    with record(model, ["*"]) as seen, torch.no_grad():
        model(*rows(model.sizes.fields), **options)
    return seen


# nnsight


@CONFIGS
def test_nnsight_reads_what_record_reads(config):
    nnsight = pytest.importorskip("nnsight")
    model = build(config)
    seen = recorded(model)
    net = nnsight.NNsight(model)
    with torch.no_grad(), net.trace(*rows()):
        first = nnsight.save(net.blocks[0].resid_post.output)
        pattern = nnsight.save(net.blocks[1].attn.pattern.output)
        logits = nnsight.save(net.output)
    assert torch.equal(first, seen["blocks.0.resid_post", 0])
    assert torch.equal(pattern, seen["blocks.1.attn.pattern", 0])
    assert torch.equal(logits, seen["logits", 0])
    assert torch.equal(model(*rows()), logits)  # and the model is as it was


def test_nnsight_reads_one_loop_or_all():
    """`tracer.iter[r]` is nnsight's name for the call r of a site within a forward pass, our loop r."""
    nnsight = pytest.importorskip("nnsight")
    model = build(LOOPED)
    seen = recorded(model)
    net = nnsight.NNsight(model)
    with torch.no_grad(), net.trace(*rows()) as tracer:
        for _ in tracer.iter[1]:
            second = nnsight.save(net.blocks[0].resid_post.output)
        for _ in tracer.iter[2]:
            third = nnsight.save(net.blocks[1].attn.z.output)
    assert torch.equal(second, seen["blocks.0.resid_post", 1])
    assert torch.equal(third, seen["blocks.1.attn.z", 2])
    with torch.no_grad(), net.trace(*rows(), loops=4) as tracer:
        every = nnsight.save([])
        for _ in tracer.iter[:4]:
            every.append(net.loop_out.output)
    assert torch.equal(torch.stack(every), recorded(model, loops=4).stack("loop_out"))


@CONFIGS
def test_nnsight_edits_as_edit_does(config):
    nnsight = pytest.importorskip("nnsight")
    model = build(config)
    net, loop = nnsight.NNsight(model), config.loops - 1
    # Assigned, not changed in place: a tap hands its own input on, which others may still read.
    with torch.no_grad(), net.trace(*rows()) as tracer:
        for _ in tracer.iter[loop]:
            net.blocks[0].resid_pre.output = 2 * net.blocks[0].resid_pre.output
        changed = nnsight.save(net.output)
    with edit(model, {("blocks.0.resid_pre", loop): lambda x: 2 * x}):
        expected = model(*rows())
    assert torch.equal(changed, expected) and not torch.equal(changed, model(*rows()))


# TransformerLens


def test_sites_have_the_names_of_transformer_lens():
    assert hook_name("blocks.0.attn.pattern") == "blocks.0.attn.hook_pattern"
    assert hook_name("blocks.11.resid_mid") == "blocks.11.hook_resid_mid"
    assert hook_name("blocks.1.attn.scores") == "blocks.1.attn.hook_attn_scores"
    assert hook_name("embed.token") == "hook_embed" and hook_name("loop_out") == "hook_loop_out"


def test_without_transformer_lens_the_extra_is_named(monkeypatch):
    def refuse(name, *args, **kwargs):
        if name.partition(".")[0] == "transformer_lens":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return real(name, *args, **kwargs)

    real = builtins.__import__
    model = build(LEARNED)
    seen = recorded(model)
    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(UsageError, match=r"transformer_lens.*\.\[interop\]"):
        activation_caches(seen, model)


def test_a_cache_agrees_with_transformer_lens_on_the_same_weights():
    pytest.importorskip("transformer_lens")
    from transformer_lens.config import TransformerBridgeConfig
    from transformer_lens.model_bridge import TransformerBridge

    model = build(replace(LEARNED, causal=True), fields=1, align="left")
    sizes = {"d_model": 16, "d_head": 8, "n_heads": 2, "n_layers": 2, "d_mlp": 64, "n_ctx": 10, "d_vocab": 12}
    theirs = TransformerBridge.boot_native(
        TransformerBridgeConfig(**sizes, d_vocab_out=6, act_fn="relu", normalization_type="LN")
    )
    pairs = [(theirs.embed, model.embed.tables[0]), (theirs.pos_embed, model.embed.position)]
    pairs += [(theirs.ln_final, model.final_norm), (theirs.unembed, model.unembed)]
    for their, our in zip(theirs.blocks, model.blocks):
        pairs += [(their.ln1, our.norm1), (their.ln2, our.norm2)]
        pairs += [(their.attn.q, our.attn.query), (their.attn.k, our.attn.key), (their.attn.v, our.attn.value)]
        pairs += [(their.attn.o, our.attn.output)]
        pairs += [(getattr(their.mlp, "in"), our.mlp.input), (their.mlp.out, our.mlp.output)]
    with torch.no_grad():
        for their, our in pairs:
            their.weight.copy_(our.weight)
            if getattr(our, "bias", None) is not None:
                their.bias.copy_(our.bias)
        tokens, full = rows(fields=1)[0], torch.full((4,), 10)
        _, expected = theirs.run_with_cache(tokens[..., 0])
        with record(model, ["*"]) as seen:
            model(tokens, full)
    (cache,) = activation_caches(seen, model).values()
    # In TransformerLens's own small models `hook_attn_scores` holds the pattern, so it is not compared here.
    shared = [name for name in cache if not name.endswith(("attn_scores", "loop_in", "loop_out"))]
    assert len(shared) == 5 + 2 * 16  # 14 sites and 2 scales a block
    for name in shared:
        torch.testing.assert_close(cache[name], expected[name], msg=lambda text, name=name: f"{name}: {text}")
    for method, options in (
        ("decompose_resid", {}),
        ("decompose_resid", {"apply_ln": True}),
        ("decompose_resid", {"layer": 1, "mlp_input": True, "apply_ln": True}),
        ("accumulated_resid", {"apply_ln": True, "incl_mid": True}),
        ("stack_head_results", {"apply_ln": True}),
        ("stack_neuron_results", {"layer": -1}),
    ):
        found, labels = getattr(cache, method)(return_labels=True, **options)
        known, their_labels = getattr(expected, method)(return_labels=True, **options)
        assert labels == their_labels
        torch.testing.assert_close(found, known, msg=lambda text, method=method: f"{method}: {text}")


@CONFIGS
def test_each_loop_has_a_cache_that_adds_up(config):
    pytest.importorskip("transformer_lens")
    model = build(config)
    seen = recorded(model)
    caches = activation_caches(seen, model)
    assert list(caches) == list(range(config.loops))
    for loop, cache in caches.items():
        assert torch.equal(cache["pattern", 0], seen["blocks.0.attn.pattern", loop])
        for site in "qkvz":
            assert torch.equal(cache[site, -1], seen[f"blocks.1.attn.{site}", loop].transpose(1, 2))
        torch.testing.assert_close(cache["attn_scores", 1].softmax(-1), cache["pattern", 1])
        entered = cache["hook_loop_in"] if loop else 0  # only the first loop starts from the embedding
        total = cache.decompose_resid().sum(0) + entered
        torch.testing.assert_close(total, cache["resid_post", -1])
        heads, neurons = cache.stack_head_results(layer=1), cache.get_neuron_results(0).sum(-2)
        bias = 0 if model.blocks[0].attn.output.bias is None else model.blocks[0].attn.output.bias.detach()
        torch.testing.assert_close(heads.sum(0) + bias, cache["attn_out", 0])
        torch.testing.assert_close(neurons + model.blocks[0].mlp.output.bias.detach(), cache["mlp_out", 0])
    with torch.no_grad():
        lens = model.unembed(caches[config.loops - 1].accumulated_resid(apply_ln=True))
    torch.testing.assert_close(lens[-1], seen["logits", 0])
    assert torch.equal(caches[config.loops - 1]["unembed.hook_out"], seen["logits", 0])


def test_a_recording_of_some_sites_gives_a_cache_of_those():
    pytest.importorskip("transformer_lens")
    model = build(LOOPED)
    with record(model, ["blocks.*.attn.z", "embed.pos"], loops=[0, 2]) as seen:
        model(*rows())
    caches = activation_caches(seen, model)
    assert list(caches) == [0, 2] and "hook_embed" not in list(caches[0])
    assert caches[2]["z", 0].shape == (4, 10, 2, 8) and caches[0]["pos_embed"].shape == (4, 10, 16)
    with record(model, ["blocks.0.norm1"]) as seen:  # a norm is no site
        model(*rows())
    with pytest.raises(UsageError, match="holds no site of this model"):
        activation_caches(seen, model)
