"""Search models whose weights are set by hand, so that an instrument can be tested against a circuit that is known.

A model works on edge columns (the source token of an edge in `triples`, the whole token in `packed`). Its residual
stream has named blocks of channels, and no norms. All of them count rather than decide: an attention weight gives each
match the same small share ε and the rest to a column that nobody needs, so that sums over matches come out exact (up to
a share of ε a match) and every contribution shows in the answer's logit.
"""

from __future__ import annotations

import math
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from algoprobe.core.sizes import Sizes
from algoprobe.models.config import TransformerConfig
from algoprobe.models.transformer import Transformer
from algoprobe.tasks.search.encoding import sizes as sizes_of

Encoding = Literal["triples", "packed"]

SHARE = 1e-5
"""ε: the attention that each match gets."""
SCORE = 120.0
"""Score of each thing that a match needs. Without one of them a weight is e^-120 of a match's, 0 in float32."""
FAR = 1e4
"""What a gate subtracts while it is shut; larger than any count."""


class Blueprint:
    """A transformer of zero weights, and what it takes to set them block by block."""

    def __init__(self, encoding: Encoding, vertices: int, layers: int, blocks: dict[str, int], hidden: int) -> None:
        sizes: Sizes = sizes_of(encoding, vertices, 3 * vertices + 5)
        packed, spare = encoding == "packed", sum(blocks.values())
        config = TransformerConfig(
            layers=layers,
            heads=1,
            embedding="one-hot",
            spare=spare,
            position="none" if packed else "one-hot",
            norm="none",
            activation="relu",
            output="linear",
        )
        width = config.model_width(sizes)
        config = TransformerConfig(**{**config.__dict__, "feedforward": hidden / width})
        self.vertices, self.packed, self.width = vertices, packed, width
        self.model: Transformer = config.build(sizes)
        for parameter in self.model.parameters():
            torch.nn.init.zeros_(parameter)
        first = sizes.vocabulary * sizes.fields
        self.tokens, self.columns = sizes.vocabulary, sizes.length
        self.positions = first + spare
        self.blocks = {}
        for name, size in blocks.items():
            self.blocks[name] = slice(first, first + size)
            first += size
        self.units = [0] * layers

    def channels(self, *numbers: int) -> Float[Tensor, "channels width"]:
        """A view of some channels, one a row."""
        return torch.eye(self.width)[list(numbers)]

    def block(self, name: str) -> Float[Tensor, "channels width"]:
        """A view of a named block."""
        return torch.eye(self.width)[self.blocks[name]]

    def field(self, field: int, query: bool = False) -> Float[Tensor, "channels width"]:
        """Packed: the vertex, 0 to V, in a field of an edge or of the query."""
        first = field * self.tokens + (self.vertices if query else 0)
        view = self.channels(*range(first, first + self.vertices + 1))
        view[0] = 0.0  # no vertex has the id 0; the query's ids are V + vertex
        return view

    @property
    def source(self) -> Float[Tensor, "channels width"]:
        """The vertex that an edge column's edge comes from."""
        return self.field(0) if self.packed else self.channels(*range(self.vertices + 1))

    @property
    def start(self) -> Float[Tensor, "channels width"]:
        """The start, at the answer's column."""
        return self.field(0, query=True) if self.packed else self.source

    @property
    def goal(self) -> Float[Tensor, "channels width"]:
        """The goal, at the column that holds it."""
        return self.field(1, query=True) if self.packed else self.source

    @property
    def one(self) -> Float[Tensor, "1 width"]:
        """1 at every column."""
        return self.channels(*range(self.tokens)).sum(0, keepdim=True)

    @property
    def is_edge(self) -> Float[Tensor, "1 width"]:
        """1 at every edge column."""
        if self.packed:
            return self.field(0)[1:].sum(0, keepdim=True)
        return self.at(*range(self.columns - 7, 0, -3))

    @property
    def is_goal(self) -> Float[Tensor, "1 width"]:
        """1 at the column that holds the goal."""
        return self.field(1, query=True).sum(0, keepdim=True) if self.packed else self.at(self.columns - 3)

    @property
    def is_rest(self) -> Float[Tensor, "1 width"]:
        """1 at a column whose own blocks stay empty: the PATH marker, or the packed query."""
        return self.is_goal if self.packed else self.channels(self.vertices + 1)

    def at(self, *positions: int) -> Float[Tensor, "1 width"]:
        """1 at the given positions of a full row."""
        return self.channels(*(self.positions + position for position in positions)).sum(0, keepdim=True)

    def attend(
        self,
        layer: int,
        matches: list[tuple[Tensor, Tensor, float]],
        moves: list[tuple[Tensor, tuple[str, ...], float]],
    ) -> None:
        """Score = Σ strength · query(a) · key(b) over `matches`; `moves` carry views of b into blocks of a, scaled."""
        attention, row = self.model.blocks[layer].attn, 0
        with torch.no_grad():
            for query, key, strength in matches:
                rows = slice(row, row + len(query))
                attention.query.weight[rows] = query * strength * math.sqrt(self.width)
                attention.key.weight[rows] = key
                row += len(query)
            row = 0
            for view, targets, scale in moves:
                rows = slice(row, row + len(view))
                attention.value.weight[rows] = view
                for target in targets:
                    attention.output.weight[self.blocks[target], rows] = scale * torch.eye(len(view))
                row += len(view)

    def feed(self, layer: int, view: Tensor, offset: float, target: str, out: Float[Tensor, "channels units"]) -> None:
        """Hidden units relu(view + offset), written to a block through `out`."""
        mlp, first = self.model.blocks[layer].mlp, self.units[layer]
        units = slice(first, first + len(view))
        self.units[layer] = units.stop
        with torch.no_grad():
            mlp.input.weight[units], mlp.input.bias[units] = view, offset
            mlp.output.weight[self.blocks[target], units] = out

    def count(self, layer: int, query: Tensor, moves: list[tuple[Tensor, str]]) -> None:
        """Sum `moves` over the edge columns whose source the view `query` names (a set, or one vertex)."""
        matches = [
            (query, self.source, SCORE),
            (self.one, self.is_edge, SCORE),
            (self.one, self.is_rest, 2 * SCORE - math.log(SHARE)),
        ]
        self.attend(layer, matches, [(view, (target,), 1 / SHARE) for view, target in moves])

    def next_vertex(self, *targets: str) -> None:
        """In layer 1, write the vertex that each edge goes to: by a position step, or from the token itself."""
        if self.packed:
            for target in targets:
                self.feed(0, self.field(1), 0.0, target, torch.eye(self.vertices + 1))
            return
        columns = range(self.columns - 7, 0, -3)
        before, after = (torch.cat([self.at(p + step) for p in columns]) for step in (0, 1))
        # Columns that are no edge attend where there is no vertex.
        self.attend(0, [(before, after, 2 * SCORE), (self.one, self.is_rest, SCORE)], [(self.source, targets, 1.0)])

    def binary(self, layer: int, counts: str, flags: str) -> None:
        """flags ← min(1, 2·counts): 1 where a count is a half or more."""
        eye = torch.eye(len(self.block(flags)))
        self.feed(layer, 2 * self.block(counts), 0.0, flags, eye)
        self.feed(layer, 2 * self.block(counts), -1.0, flags, -eye)
        self.feed(layer, self.block(flags), 0.0, flags, -eye)

    def answer(self, layer: int, view: str) -> None:
        """Sum a block over the start's edges into the answer's column; those sums are the logits."""
        self.count(layer, self.start, [(self.block(view), "answer")])
        with torch.no_grad():
            self.model.unembed.weight[: self.vertices + 1] = self.block("answer")


def path_merger(encoding: Encoding, vertices: int) -> Transformer:
    """Exact search by merging: an edge's set of reached vertices doubles its depth in each merging layer.

    Layer 1 takes the vertex an edge goes to; then every edge merges the sets of all edges whose source is in its own
    set, ⌈log₂ V⌉ times; then edges copy the goal and keep the number of ways in which it was merged into them; the
    answer's column sums these over the start's edges. The logit of a child of the start is that number of ways.
    """
    V, doublings = vertices, math.ceil(math.log2(vertices))
    blocks = {"next": V + 1, "ways": V + 1, "reached": V + 1, "goal": V + 1, "found": 1, "out": V + 1, "answer": V + 1}
    hand = Blueprint(encoding, V, doublings + 4, blocks, hidden=3 * (V + 1))
    hand.next_vertex("next", "ways", "reached")
    for layer in range(1, doublings + 1):
        hand.count(layer, hand.block("reached"), [(hand.block("ways"), "ways")])
        hand.binary(layer, "ways", "reached")
    gather = doublings + 1
    hand.attend(gather, [(hand.one, hand.is_goal, SCORE)], [(hand.goal, ("goal",), 1.0)])
    hand.feed(gather, hand.block("ways") + FAR * hand.block("goal"), -FAR, "found", torch.ones(1, V + 1))
    gate = hand.block("found") + FAR * hand.block("next")
    hand.feed(gather + 1, gate, -FAR, "out", torch.eye(V + 1))
    hand.answer(gather + 2, "out")
    return hand.model


def most_children(encoding: Encoding, vertices: int) -> Transformer:
    """A shortcut: the logit of a child of the start is 1 + its number of children."""
    V = vertices
    blocks = {"next": V + 1, "children": 1, "out": V + 1, "answer": V + 1}
    hand = Blueprint(encoding, V, 3, blocks, hidden=V + 1)
    hand.next_vertex("next")
    hand.count(1, hand.block("next"), [(hand.is_edge, "children")])
    hand.feed(1, hand.block("children") + FAR * hand.block("next"), 1 - FAR, "out", torch.eye(V + 1))
    hand.answer(2, "out")
    return hand.model


def deepest_subtree(encoding: Encoding, vertices: int, depth: int = 5) -> Transformer:
    """A shortcut that merges paths without a look at the goal: the logit of a child of the start is 1 + its depth.

    The depth, capped at `depth`, is the length of the longest path that leaves the child; step k of the stack finds out
    which edges have one of k edges behind them.
    """
    V = vertices
    blocks = {"next": V + 1, "out": V + 1, "answer": V + 1} | {f"walks{k}": 1 for k in range(1, depth + 1)}
    blocks |= {f"deep{k}": 1 for k in range(1, depth + 1)}
    hand = Blueprint(encoding, V, depth + 3, blocks, hidden=V + 1)
    hand.next_vertex("next")
    for k in range(1, depth + 1):
        behind = hand.is_edge if k == 1 else hand.block(f"deep{k - 1}")
        hand.count(k, hand.block("next"), [(behind, f"walks{k}")])
        hand.binary(k, f"walks{k}", f"deep{k}")
    deep = sum(hand.block(f"deep{k}") for k in range(1, depth + 1))
    hand.feed(depth + 1, deep + FAR * hand.block("next"), 1 - FAR, "out", torch.eye(V + 1))
    hand.answer(depth + 2, "out")
    return hand.model
