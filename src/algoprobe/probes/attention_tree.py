"""Who fetches what from where: strong mean attention, step by step, followed back to the inputs.

A *stage* is one block in one loop, in order of computation. A *node* is a column before or after a stage. An *edge* of
a stage leads from a column that is read to the column that reads it, where some head's mean pattern is above a
threshold; the residual stream always leads from a column to itself. What an answer *fetches* are the inputs from which
edges lead to its column. A pair of inputs is *cached* where one node first holds both (what it read in earlier stages
counts); it is fetched as a pair where such a node lies on the way. Source: the attention tree of arXiv 2510.00184, §3,
recomputed by its procedure (mean patterns over rows, weights above 0.1), for any number of blocks and loops.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from algoprobe.core.errors import outside

from .edit import edit
from .inputs import Inputs, answer_logits
from .patterns import attention_patterns, explicit_attention, mean_pattern
from .sites import Address, refuse_outer_blocks

THRESHOLD = 0.1


@dataclass(frozen=True)
class Edge:
    """A head that looks from one column at another."""

    stage: int
    site: str
    loop: int
    head: int
    query: int
    key: int
    weight: float


@dataclass(frozen=True)
class AttentionTree:
    """Mean patterns of a model on rows of one layout, and what follows from them."""

    stages: list[Address]
    patterns: Float[Tensor, "stages heads columns columns"]
    threshold: float

    @property
    def edges(self) -> list[Edge]:
        """Every edge between two different columns, stage by stage."""
        strong = (self.patterns > self.threshold).nonzero().tolist()
        return [
            Edge(s, *self.stages[s], head, query, key, float(self.patterns[s, head, query, key]))
            for s, head, query, key in strong
            if query != key
        ]

    def way(self, column: int) -> list[set[int]]:
        """For each stage, and then the end, the columns whose state before it reaches `column` in the end."""
        strong = (self.patterns > self.threshold).any(1)
        found = [{column}]
        for s in reversed(range(len(self.stages))):
            reached = set(found[0])
            for query in found[0]:
                reached |= set(strong[s, query].nonzero()[:, 0].tolist())
            found.insert(0, reached)
        return found

    def fetched(self, column: int) -> set[int]:
        """The input columns that `column` fetches."""
        return self.way(column)[0]

    def pairs(self, column: int, left: Sequence[int], right: Sequence[int]) -> dict[tuple[int, int], tuple[int, int]]:
        """Pairs of an input in `left` and one in `right` that are cached on the way to `column`; (stage, node) where.

        A node holds what it read in earlier stages; a pair counts where a node first holds both.
        """
        way, strong = self.way(column), (self.patterns > self.threshold).any(1)
        holds = [{c} for c in range(self.patterns.shape[-1])]
        found: dict[tuple[int, int], tuple[int, int]] = {}
        for s in range(len(self.stages)):
            after = []
            for query in range(len(holds)):
                # The node's own column and what it looks at; only inputs count as what is held.
                keys = strong[s, query].nonzero()[:, 0].tolist()
                after.append(holds[query].union(*(holds[key] for key in keys)))
            for query in way[s + 1]:
                for i in left:
                    for j in right:
                        if i in after[query] and j in after[query]:
                            found.setdefault((i, j), (s, query))
            holds = after
        return found


@torch.no_grad()
def attention_tree(
    model: nn.Module, inputs: Inputs, loops: int | None = None, threshold: float = THRESHOLD
) -> AttentionTree:
    """The tree of `model` on rows of equal length. Raises `UsageError` on others, and on a prelude or coda."""
    refuse_outer_blocks(model, "an attention tree")
    if not 0 < threshold < 1:
        raise outside("threshold", threshold, "more than 0, below 1")
    if int(inputs.lengths.min()) != inputs.tokens.shape[1]:
        raise outside("rows", "of different lengths", "rows of one layout")
    found = attention_patterns(model, inputs, loops)
    real = inputs.real(model.sizes.align)
    return AttentionTree(list(found), torch.stack([mean_pattern(p, real) for p in found.values()]), threshold)


@torch.no_grad()
def knock_out(
    model: nn.Module, inputs: Inputs, cuts: Sequence[Sequence[Edge]], loops: int | None = None
) -> Float[Tensor, "cuts read"]:
    """The accuracy that every answered column loses by each cut: its edges' entries of the patterns are set to zero.

    The other weights of a query are scaled up to sum to 1 again.
    """
    lost = []
    with explicit_attention(model):
        before = column_accuracy(model, inputs, loops)
        for edges in cuts:
            places: dict[Address, list[Edge]] = {}
            for edge in edges:
                places.setdefault((edge.site, edge.loop), []).append(edge)
            with edit(model, {place: without(of_place) for place, of_place in places.items()}):
                lost.append(before - column_accuracy(model, inputs, loops))
    return torch.stack(lost)


def without(edges: Sequence[Edge]) -> Callable[[Tensor], Tensor]:
    """An edit of the patterns of one stage that takes these edges away."""

    def cut(pattern: Tensor) -> Tensor:
        pattern = pattern.clone()
        for edge in edges:
            pattern[:, edge.head, edge.query, edge.key] = 0
        for head, query in {(edge.head, edge.query) for edge in edges}:
            line = pattern[:, head, query]
            pattern[:, head, query] = line / line.sum(-1, keepdim=True).clamp_min(1e-9)
        return pattern

    return cut


def column_accuracy(model: nn.Module, inputs: Inputs, loops: int | None) -> Float[Tensor, "read"]:
    """Share of rows whose answer at each read column is the target."""
    return (answer_logits(model, inputs, loops).argmax(-1) == inputs.targets).double().mean(0)
