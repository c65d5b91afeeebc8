"""The circuit method one perturbation at a time: a whole forward pass for each, in the words of the paper's appendix.

It is what tests hold the fast version against, and the baseline of `bench circuits`.
"""

from __future__ import annotations

from itertools import product

import numpy as np
import torch
from torch import Tensor

from algoprobe.models.transformer import Transformer

from ..circuit_settings import Settings
from ..edit import edit
from ..record import record
from .effects import Effects
from .layout import Feature, Layout
from .operations import Operation

NEAR = 1e-6


@torch.no_grad()
def one_pass(model: Transformer, tokens: Tensor, loops: int, sites: list[str]) -> tuple[Tensor, dict]:
    """Logits of the answer and the recorded sites of one full pass."""
    with record(model, sites) as kept:
        logits = model(tokens[None], torch.tensor([len(tokens)]), loops=loops)[0, -1]
    return logits, {address: kept[address][0] for address in kept}


def final_products(model: Transformer, destination: Tensor, sources: Tensor, bound: str) -> Tensor:
    """Products u_a W_Qᵀ W_K u_b of the last block, `[heads, sources]`; or log attention weights, biases and all."""
    attention = model.blocks[-1].attn
    query, key = attention.query, attention.key
    heads, width = attention.heads, query.weight.shape[0] // attention.heads
    if bound == "product":
        q, k = query.weight @ destination, sources @ key.weight.T
    else:
        q, k = query(destination), key(sources)
    products = torch.einsum("hc,bhc->hb", q.view(heads, width), k.view(len(sources), heads, width))
    return products if bound == "product" else (products / width**0.5).log_softmax(-1)


@torch.no_grad()
def effects_one_at_a_time(model: Transformer, layout: Layout, loops: int, settings: Settings) -> Effects:
    """What `effects.measure` finds, by one full forward pass for each perturbation."""
    model.use_attention("explicit")
    layers, heads, n = len(model.blocks), model.config.heads, layout.columns
    tokens, steps = torch.from_numpy(layout.tokens), layers * loops
    last_input = (f"blocks.{layers - 1}.attn_in", loops - 1)
    patterns = [f"blocks.{layer}.attn.pattern" for layer in range(layers)]
    logits, base = one_pass(model, tokens, loops, [last_input[0], *patterns])
    answer, u = int(logits.argmax()), base[last_input]
    before = final_products(model, u[-1], u, settings.bound)
    logit_drop = np.zeros((steps, 2, heads, n, n), np.float32)
    source_drop, destination_drop = np.zeros((2, steps - 1, 2, heads, n, n, heads, n), np.float32)
    for step, variant, h, a, b in product(range(steps), range(2), range(heads), range(n), range(n)):
        loop, layer = divmod(step, layers)
        pattern = base[patterns[layer], loop].clone()
        if variant == 0:
            pattern[h, a, b] = 0.0
        elif settings.maxing == "column":
            pattern[h, a, b] = pattern[h, :, b].max()
        else:
            pattern[h, a, b] = pattern[h, a].max()
            pattern[h, a] /= pattern[h, a].sum()
        with edit(model, {(patterns[layer], loop): lambda x, to=pattern: to[None].expand_as(x)}):
            changed, seen = one_pass(model, tokens, loops, [last_input[0]])
        logit_drop[step, variant, h, a, b] = logits[answer] - changed[answer]
        if step == steps - 1:
            continue
        moved, at = seen[last_input], (step, variant, h, a, b)
        destination_drop[at] = before - final_products(model, moved[-1], u, settings.bound)
        if settings.bound == "product":
            source_drop[at] = before - final_products(model, u[-1], moved, settings.bound)
            continue
        for k in range(n):
            mixed = u.clone()
            mixed[k] = moved[k]
            source_drop[at][:, k] = (before - final_products(model, u[-1], mixed, settings.bound))[:, k]
    return Effects(answer, float(logits[answer]), logit_drop, source_drop, destination_drop)


def marked_one_at_a_time(effects: Effects, settings: Settings, head_width: int) -> set[tuple[int, int, int, int, int]]:
    """(step, head, destination, source, sign) of every important operation, in plain loops."""
    drops, last = effects.logit_drop, len(effects.logit_drop) - 1
    heads, n = drops.shape[2], drops.shape[3]
    weights = list(product(range(heads), range(n), range(n)))
    into_answer = [(h, k) for h, k in product(range(heads), range(n))]
    copies = [(h, k) for h, k in into_answer if drops[last, 0, h, n - 1, k] > settings.alpha]
    if not copies:
        largest = max(drops[last, 0, h, n - 1, k] for h, k in into_answer)
        copies = [(h, k) for h, k in into_answer if drops[last, 0, h, n - 1, k] >= largest - NEAR]
    found = set()
    for step in range(last + 1):
        positive, negative = set(), set()
        zeroed = {w for w in weights if drops[step, 0][w] > settings.alpha}
        raised = {w for w in weights if drops[step, 1][w] > settings.alpha}
        if zeroed and (not raised or len(zeroed) <= len(raised)):
            positive |= zeroed
        else:
            negative |= raised
        if step == last:
            positive |= {(h, n - 1, k) for h, k in copies}
        else:
            for (h, k), side in product(copies, (effects.source_drop, effects.destination_drop)):
                bound = settings.final_bound(head_width)
                zeroed = {w for w in weights if side[step, 0][w][h, k] > bound}
                raised = {w for w in weights if side[step, 1][w][h, k] > bound}
                if settings.lists == "smaller-filled" and not (zeroed and raised):
                    positive |= zeroed
                    negative |= raised
                elif len(zeroed) <= len(raised):
                    positive |= zeroed
                else:
                    negative |= raised
        for w in positive | negative:
            found.add((step, *w, (w in positive) - (w in negative)))
    return found


@torch.no_grad()
def dependences_one_at_a_time(
    model: Transformer,
    layout: Layout,
    loops: int,
    operations: list[Operation],
    features: list[Feature],
    settings: Settings,
) -> list[tuple[set[int], set[int]]]:
    """What `features.dependences` finds, by one full forward pass for each feature."""
    model.use_attention("explicit")
    layers, heads = len(model.blocks), model.config.heads
    tokens = torch.from_numpy(layout.tokens)
    sites = [f"blocks.{layer}.{tap}" for layer in range(layers) for tap in ("attn.pattern", "attn_in", "mlp.pre")]
    _, base = one_pass(model, tokens, loops, sites)
    found = [(set(), set()) for _ in operations]
    for index, feature in enumerate(features):
        changes = {}
        for loop, layer in product(range(loops), range(layers)):
            pattern = base[f"blocks.{layer}.attn.pattern", loop]
            changes[f"blocks.{layer}.attn.pattern", loop] = lambda x, to=pattern: to[None].expand_as(x)
            if settings.freeze_relu:
                # The unit's input is seen first and its output replaced: open units pass it on, shut ones nothing.
                seen, opened = [], base[f"blocks.{layer}.mlp.pre", loop] > 0
                changes[f"blocks.{layer}.mlp.pre", loop] = lambda x, seen=seen: (seen.append(x), x)[1]
                changes[f"blocks.{layer}.mlp.post", loop] = lambda x, seen=seen, opened=opened: seen[-1] * opened
        if feature.kind == "position":
            changes["embed.pos", None] = lambda x, at=feature.value: x.index_fill(-2, torch.tensor([at]), 0.0)
        if feature.kind == "place":
            token = torch.from_numpy(feature.tokens)[-1]
            part = model.embed.part(token, feature.value)
            changes["embed", None] = lambda x, part=part: torch.cat([x[:, :-1], x[:, -1:] - part], dim=1)
        with edit(model, changes):
            _, patched = one_pass(model, torch.from_numpy(feature.tokens), loops, ["blocks.*.attn_in"])
        for number, op in enumerate(operations):
            loop, layer = divmod(op.step, layers)
            address = (f"blocks.{layer}.attn_in", loop)
            attention = model.blocks[layer].attn
            width = attention.query.weight.shape[0] // heads
            rows = slice(op.head * width, (op.head + 1) * width)

            def value(a: Tensor, b: Tensor, attention=attention, rows=rows) -> float:
                return float((attention.query.weight[rows] @ a) @ (attention.key.weight[rows] @ b))

            u, moved = base[address], patched[address]
            before = value(u[op.destination], u[op.source])
            falls = (
                before - value(u[op.destination], moved[op.source]),
                before - value(moved[op.destination], u[op.source]),
            )
            for side, fall in enumerate(falls):
                if (-fall if op.sign < 0 else fall) > settings.feature_bound(width):
                    found[number][side].add(index)
    return found
