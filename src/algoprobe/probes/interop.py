"""Recordings under the names and axis orders of TransformerLens. nnsight needs no bridge: it traces our models."""

from __future__ import annotations

from types import SimpleNamespace

from torch import Tensor
from torch.nn import functional as F

from algoprobe.core.errors import UsageError
from algoprobe.models.parts.norms import EPSILON
from algoprobe.models.parts.taps import Tap
from algoprobe.models.transformer import Transformer

from .record import Recording

SITES = {
    "embed.token": "hook_embed",
    "embed.pos": "hook_pos_embed",
    "final": "ln_final.hook_out",
    "logits": "unembed.hook_out",
}
"""Sites outside the blocks with a name of their own in TransformerLens."""
LEAVES = {"attn_in": "ln1.hook_out", "mlp_in": "ln2.hook_out", "scores": "hook_attn_scores"}
"""The same for sites within a block, by the last part of the name (`hook_attn_in` is something else there)."""
SCALES = {"resid_pre": "ln1.hook_scale", "resid_mid": "ln2.hook_scale"}
"""Where the scale of the norm that reads a site belongs."""
NORMS = {"layer": "LN", "rms": "RMS", "none": None}


def hook_name(site: str) -> str:
    """The name of a site in TransformerLens: `blocks.0.attn.pattern` is `blocks.0.attn.hook_pattern`."""
    *path, leaf = site.split(".")
    return SITES.get(site) or ".".join([*path, LEAVES.get(leaf, f"hook_{leaf}")])


def activation_caches(recording: Recording, model: Transformer) -> dict:
    """A TransformerLens `ActivationCache` for each recorded loop, `{loop: cache}`, of one forward pass of `model`.

        with record(model, ["*"]) as seen:
            model(tokens, lengths)
        activation_caches(seen, model)[0]["pattern", 3]  # [batch, heads, query, key] of block 3 in loop 0

    Sites (taps) are translated, other recorded modules left out. q, k, v and z become `[batch, columns, heads,
    d_head]`; token and position channels are put at their places in the model's width, so that their sum enters the
    first block. The embedding is in the cache of loop 0; `final` and `logits`, computed once after all loops, are in
    that of the last recorded loop. The scales that norms divide by are computed from the residual streams recorded.

    Raises `UsageError` when TransformerLens is not installed or no site of `model` was recorded.
    """
    try:
        from transformer_lens import ActivationCache
    except ImportError as error:
        raise UsageError(f"interop: {error}; TransformerLens comes with pip install -e '.[interop]'") from error
    modules = dict(model.named_modules())
    found = [address for address in recording if isinstance(modules.get(address[0]), Tap)]
    if not found:
        raise UsageError("recording: it holds no site of this model; record for example ['*']")
    last, width = max(loop for _, loop in found), model.config.model_width(model.sizes)
    caches = {loop: {} for loop in sorted({loop for _, loop in found})}
    for site, loop in found:
        cache, x = caches[last if site in ("final", "logits") else loop], recording[site, loop]
        *path, leaf = site.split(".")
        if leaf in ("q", "k", "v", "z"):
            x = x.transpose(1, 2)
        elif site == "embed.token":
            x = F.pad(x, (0, width - x.shape[-1]))
        elif site == "embed.pos":
            x = F.pad(x, (width - x.shape[-1], 0))
        cache[hook_name(site)] = x
        if leaf in SCALES and model.config.norm != "none":
            cache[".".join([*path, SCALES[leaf]])] = norm_scale(x, model.config.norm)
        if site == f"blocks.{len(model.blocks) - 1}.resid_post" and model.config.norm != "none":
            cache["ln_final.hook_scale"] = norm_scale(x, model.config.norm)
    position = caches[0].get("hook_pos_embed") if 0 in caches else None
    if position is not None and position.ndim == 2:  # learned positions have no batch axis
        batch = next((len(x) for x in caches[0].values() if x.ndim > 2), 1)
        caches[0]["hook_pos_embed"] = position.expand(batch, -1, -1)
    described = described_model(model)
    return {loop: ActivationCache(cache, described) for loop, cache in caches.items()}


def norm_scale(x: Tensor, norm: str) -> Tensor:
    """What the norm divides by, `[batch, columns, 1]`: sqrt(mean(x²) + ε), for LayerNorm of x less its mean."""
    centred = x - x.mean(-1, keepdim=True) if norm == "layer" else x
    return (centred.square().mean(-1, keepdim=True) + EPSILON).sqrt()


def described_model(model: Transformer) -> SimpleNamespace:
    """What the methods of a cache ask of its model: sizes, output matrices by head and by neuron, the last norm."""
    config, sizes, heads = model.config, model.sizes, model.config.heads
    width = config.model_width(sizes)
    cfg = SimpleNamespace(
        n_layers=len(model.blocks),
        n_heads=heads,
        n_ctx=sizes.length,
        d_model=width,
        d_head=width // heads,
        d_mlp=model.blocks[0].mlp.input.out_features,
        attn_only=False,
        normalization_type=NORMS[config.norm],
    )
    blocks = [
        SimpleNamespace(
            attn=SimpleNamespace(W_O=block.attn.output.weight.detach().T.unflatten(0, (heads, -1))),
            mlp=SimpleNamespace(W_out=block.mlp.output.weight.detach().T),
        )
        for block in model.blocks
    ]
    return SimpleNamespace(cfg=cfg, blocks=blocks, ln_final=model.final_norm)
