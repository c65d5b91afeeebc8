"""Where attention goes: mean patterns, their entropy, and shares by kind of column."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from algoprobe.core.errors import outside

from .inputs import Inputs, answer_logits
from .record import record
from .sites import Address, find_sites


@contextlib.contextmanager
def explicit_attention(model: nn.Module) -> Iterator[None]:
    """The explicit path, which has patterns, while the context is open; then each block's own path again."""
    before = [block.attn.path for block in model.blocks]
    model.use_attention("explicit")
    try:
        yield
    finally:
        for block, path in zip(model.blocks, before):
            block.attn.path = path


def attention_for(model: nn.Module, sites: Iterable[str]) -> contextlib.AbstractContextManager[None]:
    """The explicit path while the context is open where `sites` (names or patterns) match scores or patterns."""
    names = [name for matching in find_sites(model, sites).values() for name in matching]
    needed = any(name.endswith((".attn.scores", ".attn.pattern")) for name in names)
    return explicit_attention(model) if needed else contextlib.nullcontext()


@torch.no_grad()
def attention_patterns(
    model: nn.Module, inputs: Inputs, loops: int | None = None
) -> dict[Address, Float[Tensor, "batch heads columns columns"]]:
    """softmax(Q Kᵀ / sqrt(d_head) + mask) of each (site, loop), queries down, keys across, in order of computation."""
    with explicit_attention(model), record(model, ["blocks.*.attn.pattern"]) as seen:
        answer_logits(model, inputs, loops)
        order = sorted(seen, key=lambda address: (address[1], int(address[0].split(".")[1])))
        return {address: seen[address] for address in order}


def mean_pattern(
    pattern: Float[Tensor, "batch heads columns columns"], real: Bool[Tensor, "batch columns"]
) -> Float[Tensor, "heads columns columns"]:
    """Mean over the rows in which query and key are both real; 0 where there is no such row.

    Rows are aligned, so column -k from the aligned end is the same place in each. A query's shares sum to 1 exactly
    where all rows are equally long.
    """
    both = real[:, :, None] & real[:, None, :]
    total = torch.where(both[:, None], pattern, 0).sum(0)
    return total / both.sum(0).clamp_min(1)


def entropy(
    pattern: Float[Tensor, "batch heads columns columns"], queries: Bool[Tensor, "batch columns"]
) -> Float[Tensor, "heads"]:
    """-Σ p log p over the keys, in nats, mean over `queries`: 0 is one column, log n are n columns alike."""
    each = -torch.special.xlogy(pattern, pattern).sum(-1)
    return torch.where(queries[:, None], each, 0).sum((0, 2)) / queries.sum().clamp_min(1)


def shares_by_kind(
    pattern: Float[Tensor, "batch heads columns columns"],
    queries: Bool[Tensor, "batch columns"],
    kinds: Mapping[str, Bool[Tensor, "batch columns"]],
) -> dict[str, Float[Tensor, "heads"]]:
    """Attention from `queries` to each kind of key column, mean over the queries; shares of a partition sum to 1."""
    found = {}
    for name, keys in kinds.items():
        each = torch.where(keys[:, None, None, :], pattern, 0).sum(-1)
        found[name] = torch.where(queries[:, None], each, 0).sum((0, 2)) / queries.sum().clamp_min(1)
    return found


def pattern_rows(
    model: nn.Module,
    inputs: Inputs,
    kinds: Mapping[str, Bool[Tensor, "batch columns"]] | None = None,
    loops: int | None = None,
) -> list[dict[str, Any]]:
    """A row for each site, loop, head, kind of query and kind of key: mean share of attention, and the entropy.

    `uniform` is the share that a head which attends to all real columns alike would give, on the same rows. Without
    `kinds` all real columns are one kind. Kinds that no row has are left out.
    """
    real = inputs.real(model.sizes.align)
    groups = {name: mask & real for name, mask in (kinds or {"all": real}).items()}
    groups = {name: mask for name, mask in groups.items() if bool(mask.any())}
    readable = real[:, None, None, :].expand(-1, -1, real.shape[1], -1).double()
    if model.config.causal:
        readable = readable.tril()
    flat = readable / readable.sum(-1, keepdim=True).clamp_min(1)
    rows = []
    for (site, loop), pattern in attention_patterns(model, inputs, loops).items():
        pattern = pattern.double()
        for query, queries in groups.items():
            spread, level = entropy(pattern, queries), shares_by_kind(flat, queries, groups)
            for key, share in shares_by_kind(pattern, queries, groups).items():
                rows += [
                    {"site": site, "loop": loop, "head": head, "query": query, "key": key}
                    | {"share": float(share[head]), "uniform": float(level[key][0]), "entropy": float(spread[head])}
                    | {"columns": int(queries.sum())}
                    for head in range(pattern.shape[1])
                ]
    return rows


def column_rows(
    model: nn.Module, inputs: Inputs, row: int | None = None, loops: int | None = None
) -> list[dict[str, Any]]:
    """The pattern itself, a row for each site, loop, head, query column and key column: of one row, or (None) the mean.

    Columns are numbered from the aligned end. Raises `UsageError` on a row that is not there.
    """
    if row is not None and not 0 <= row < len(inputs):
        raise outside("row", row, f"0 to {len(inputs) - 1}")
    align, chosen = model.sizes.align, slice(None) if row is None else slice(row, row + 1)
    real, names = inputs.real(align)[chosen], inputs.names(align)
    places = [(i, name) for i, name in enumerate(names) if bool(real[:, i].any())]
    rows = []
    for (site, loop), pattern in attention_patterns(model, inputs, loops).items():
        for head, values in enumerate(mean_pattern(pattern[chosen], real).tolist()):
            place = {"site": site, "loop": loop, "head": head}
            rows += [place | {"query": q, "key": k, "share": values[i][j]} for i, q in places for j, k in places]
    return rows
