"""Path patching: change what one component sends to another, along the residual stream alone.

A receiver reads the residual stream, a sum; so what it would read if the sender alone had been corrupted is what it
reads now plus δ = sender(corrupted) - sender(clean). Only the receiver gets that δ: everybody else sees the sender's
clean value, which is the same as freezing everything else at the clean run. Between loops δ goes through what the state
h hands on, S (the outer norm, the embedding channel), as S(h + δ) - S(h). Sources: Wang et al. 2022 (IOI), section 3.1;
Goldowsky-Dill et al. 2023.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from algoprobe.core.errors import UsageError, nearest, outside

from .edit import Change, edit
from .inputs import Inputs, answer_logits, loops_of
from .patching import check_pair, effect_of, metric_named
from .record import record
from .sites import refuse_outer_blocks

SENDERS = ("attn_out", "attn.z", "mlp_out")
RECEIVERS = ("attn_in", "attn.q", "attn.k", "attn.v", "mlp_in")


@dataclass(frozen=True)
class Node:
    """One end of a path: what a site hands on in one loop; of one head, where it has heads and `head` is given."""

    site: str
    loop: int
    head: int | None = None

    @property
    def label(self) -> str:
        """`blocks.0.attn.z head 2`: the site and head without the loop."""
        return self.site if self.head is None else f"{self.site} head {self.head}"


def time_of(node: Node, layers: int, loops: int) -> tuple[int, int]:
    """When a node computes: (loop, place in the stack). A sender reaches receivers with a later time."""
    if node.site == "embed":
        return (0, -1)
    if node.site == "final":
        return (loops - 1, 2 * layers)
    block, part = int(node.site.split(".")[1]), node.site.split(".", 2)[2]
    return (node.loop, 2 * block + part.startswith("mlp"))


def check_node(node: Node, model: nn.Module, loops: int, parts: Sequence[str], end: str) -> None:
    """Raise `UsageError` unless `node` can be that end ("sender" or "receiver") of a path."""
    layers, alone = len(model.blocks), "embed" if end == "sender" else "final"
    allowed = [alone, *(f"blocks.{block}.{part}" for block in range(layers) for part in parts)]
    if node.site not in allowed:
        shown = f"{alone}, blocks.i.{', blocks.i.'.join(parts)} with i from 0 to {layers - 1}"
        raise UsageError(f"{end}: {node.site!r} is unknown; allowed: {shown}.{nearest(node.site, allowed)}")
    most = 1 if node.site == alone else loops
    if not 0 <= node.loop < most:
        raise outside(f"{end} loop", node.loop, f"0 to {most - 1} for {node.site}")
    heads = model.config.heads if re.search(r"attn\.[zqkv]$", node.site) else 0
    if node.head is not None and not 0 <= node.head < heads:
        raise outside(f"{end} head", node.head, f"0 to {heads - 1}" if heads else f"none ({node.site} has no heads)")


def sent(model: nn.Module, node: Node, clean: Tensor, corrupted: Tensor) -> Float[Tensor, "batch columns width"]:
    """δ: what corrupting `node` alone adds to the residual stream."""
    change = corrupted - clean
    if not node.site.endswith("attn.z"):
        return change
    if node.head is not None:
        kept = torch.zeros_like(change)
        kept[:, node.head] = change[:, node.head]
        change = kept
    block = model.blocks[int(node.site.split(".")[1])]
    return change.transpose(1, 2).flatten(2) @ block.attn.output.weight.T


class Path:
    """The changes of one forward pass that hand δ to the receivers, and δ as the pass carries it from loop to loop."""

    def __init__(self, model: nn.Module, sender: Node, change: Tensor, receivers: Iterable[Node], loops: int) -> None:
        self.model, self.sender, self.loops = model, sender, loops
        self.sent, self.change = change, change
        self.stream: Tensor | None = None
        self.changes: dict[tuple[str, int | None], Change] = {}
        layers = len(model.blocks)
        for receiver in receivers:
            if time_of(receiver, layers, loops) <= time_of(sender, layers, loops):
                raise UsageError(
                    f"receiver: {receiver.label} of loop {receiver.loop} computes before {sender.label} of loop "
                    f"{sender.loop} and cannot hear it"
                )
            self._attach(receiver)
        for loop in range(sender.loop, loops):
            self.changes["loop_out", loop] = self._at_loop_end(loop)

    def _attach(self, receiver: Node) -> None:
        if receiver.site == "final":
            self.changes["final", 0] = lambda _: self.model.final_norm(self.stream + self.change)
            return
        index, part = int(receiver.site.split(".")[1]), receiver.site.split(".", 2)[2]
        block, before = self.model.blocks[index], "resid_mid" if part == "mlp_in" else "resid_pre"
        self.changes[f"blocks.{index}.{before}", receiver.loop] = self._see
        if part in ("attn_in", "mlp_in"):
            norm = block.norm2 if part == "mlp_in" else block.norm1
            self.changes[receiver.site, receiver.loop] = lambda _: norm(self.stream + self.change)
            return
        layer = {"q": block.attn.query, "k": block.attn.key, "v": block.attn.value}[part[-1]]
        earlier = self.changes.get((receiver.site, receiver.loop))

        def into_heads(x: Tensor) -> Tensor:
            made = layer(block.norm1(self.stream + self.change)).unflatten(-1, (x.shape[1], -1)).transpose(1, 2)
            x = x if earlier is None else earlier(x)
            if receiver.head is None:
                return made
            x = x.clone()
            x[:, receiver.head] = made[:, receiver.head]
            return x

        self.changes[receiver.site, receiver.loop] = into_heads

    def _see(self, x: Tensor) -> Tensor:
        self.stream = x
        return x

    def _at_loop_end(self, loop: int) -> Change:
        def carry(x: Tensor) -> Tensor:
            self.stream = x
            if loop < self.loops - 1:
                self.change = self.model.carry(x + self.change) - self.model.carry(x)
                if self.sender.site == "embed" and self.model.config.inject:
                    self.change = self.change + self.sent
            return x

        return carry


@torch.no_grad()
def path_logits(
    model: nn.Module, clean: Inputs, sender: Node, change: Tensor, receivers: Sequence[Node], loops: int | None = None
) -> Float[Tensor, "batch read outputs"]:
    """Logits of the clean rows when `receivers`, and nobody else, read the sender with `change` added.

    A receiver after another receiver also sees what that one makes of it. Raises `UsageError` on a receiver that
    computes before the sender.
    """
    count = loops_of(model, loops)
    path = Path(model, sender, change, receivers, count)
    with edit(model, path.changes):
        return answer_logits(model, clean, count)


@torch.no_grad()
def path_patching(
    model: nn.Module,
    clean: Inputs,
    corrupted: Inputs,
    senders: Sequence[Node],
    receivers: Sequence[Node],
    loops: int | None = None,
    metric: str = "logit_difference",
) -> list[dict[str, Any]]:
    """For each sender and each receiver after it: the share of the metric that is lost along that one path.

    effect = mean(clean - patched) / mean(clean - corrupted): 0 when the path carries nothing, 1 when corrupting it
    alone does as much as corrupting the whole run. Senders write to the residual stream (`embed`,
    `blocks.i.attn_out`, `.attn.z`, `.mlp_out`), receivers read it (`blocks.i.attn_in`, `.attn.q`, `.attn.k`,
    `.attn.v`, `.mlp_in`, `final`). Raises `UsageError` on other sites, loops or heads.
    """
    refuse_outer_blocks(model, "path patching")
    check_pair(clean, corrupted)
    measure, count, layers = metric_named(metric), loops_of(model, loops), len(model.blocks)
    for nodes, parts, end in ((senders, SENDERS, "sender"), (receivers, RECEIVERS, "receiver")):
        for node in nodes:
            check_node(node, model, count, parts, end)
    sites = dict.fromkeys(node.site for node in senders)
    kept, ends = [], []
    for side in (clean, corrupted):
        with record(model, sites) as seen:
            ends.append(measure(answer_logits(model, side, count), clean, corrupted))
            kept.append({(node.site, node.loop): seen[node.site, node.loop] for node in senders})
    rows = []
    for sender in senders:
        change = sent(model, sender, *(side[sender.site, sender.loop] for side in kept))
        for receiver in receivers:
            if time_of(receiver, layers, count) <= time_of(sender, layers, count):
                continue
            patched = measure(path_logits(model, clean, sender, change, [receiver], count), clean, corrupted)
            place = {
                f"{end}{key}": value
                for end, node in (("sender", sender), ("receiver", receiver))
                for key, value in (("", node.label), ("_loop", node.loop))
            }
            rows.append(place | effect_of(patched, ends[0], ends[1], metric))
    return rows
