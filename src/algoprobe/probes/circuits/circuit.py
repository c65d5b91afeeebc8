"""From important operations to a verdict: the graph, what each node comes to know, and whether merging explains it.

Steps 6 and 8 to 10 of the method. A node (t, column) is a column after t steps; the root is the answer's column at the
end. An operation of step t runs from (t, source) to (t+1, destination).
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from ..circuit_settings import Settings
from .causes import Cause, accepted, causes
from .effects import Measured
from .features import dependences
from .layout import Layout
from .operations import Operation, important

Node = tuple[int, int]


@dataclass(frozen=True)
class Explained:
    """An operation below the root, with its reason."""

    operation: Operation
    causes: tuple[Cause, ...]
    direction: str
    """`forward`: what the source knows can be reached from the destination; `backward`, `both`, `none`."""
    accepted: bool
    """Whether it merges what an explained source knows into its destination."""
    kept: bool
    """Whether it is accepted and connected to the root through explained nodes."""


@dataclass(frozen=True)
class Circuit:
    """The computation of one answer."""

    layout: Layout
    settings: Settings
    step_names: tuple[str, ...]
    answer: int
    logit: float
    operations: tuple[Explained, ...]
    known: dict[Node, int]
    """For each node of the graph the slots that it knows of."""
    explained_nodes: frozenset[Node]
    kept_nodes: frozenset[Node]
    explained: bool
    """Whether merging of paths explains the answer."""
    merges: int
    """Nodes into which something was merged, leaving out what holds start or goal."""
    not_maximal: int
    """Those whose merge did not double the path and that do not merely inherit this."""

    @property
    def root(self) -> Node:
        """The answer's column at the end."""
        return len(self.step_names), self.layout.last

    def to_dict(self) -> dict[str, Any]:
        """The circuit as JSON values: what drawings and tables take."""
        layout, k = self.layout, self.layout.slots_per_column
        columns = [
            {
                "tokens": [int(token) for token in layout.tokens[column]],
                "vertices": list(layout.slot_vertex[k * column : k * column + k]),
            }
            for column in range(layout.columns)
        ]
        nodes = [
            {
                "step": step,
                "column": column,
                "vertices": sorted(layout.vertices_of(known)),
                "explained": (step, column) in self.explained_nodes,
                "kept": (step, column) in self.kept_nodes,
            }
            for (step, column), known in sorted(self.known.items())
        ]
        operations = [
            {
                "step": e.operation.step,
                "head": e.operation.head,
                "destination": e.operation.destination,
                "source": e.operation.source,
                "sign": e.operation.sign,
                "drop": round(e.operation.drop, 4),
                "lowers": list(e.operation.lowers),
                "final": e.operation.final,
                "direction": e.direction,
                "causes": [
                    {"kind": c.kind, "source": c.source, "destination": c.destination} for c in e.causes
                ],
                "accepted": e.accepted,
                "kept": e.kept,
            }
            for e in self.operations
        ]  # fmt: skip
        return {
            "encoding": layout.encoding,
            "graph": {"edges": [list(edge) for edge in layout.edges], "start": layout.start, "goal": layout.goal},
            "answer": self.answer,
            "logit": round(self.logit, 4),
            "steps": list(self.step_names),
            "columns": columns,
            "nodes": nodes,
            "operations": operations,
            "explained": self.explained,
            "merges": self.merges,
            "not_maximal": self.not_maximal,
        }


def below_root(operations: list[Operation], steps: int, last: int) -> tuple[list[Operation], set[Node]]:
    """The operations that lead to the root, and the nodes of the graph."""
    nodes, kept = {(steps, last)}, []
    for step in range(steps - 1, -1, -1):
        mine = [op for op in operations if op.step == step and (step + 1, op.destination) in nodes]
        nodes |= {(step, column) for at, column in nodes if at == step + 1} | {(step, op.source) for op in mine}
        kept = mine + kept
    return kept, nodes


class Propagation:
    """What each node knows: its own slots, and all that explained sources merge into it, from the input upwards."""

    def __init__(self, layout: Layout, nodes: set[Node], steps: int) -> None:
        self.layout = layout
        self.known = {(step, column): layout.initial(column) for step, column in nodes}
        self.explained = {node for node in nodes if node[0] == 0 and node[1] != layout.last}
        self.edges: dict[Node, set[Node]] = defaultdict(set)
        self.accepted: set[Operation] = set()

    def offered(self, node: Node) -> int:
        """What operations can take from a node. A packed query hands out its start and goal, explained or not."""
        query = self.layout.encoding == "packed" and node[1] == self.layout.last
        offered = self.known[node] if node in self.explained else 0
        return offered | self.layout.own(node[1]) if query else offered

    def merge(self, source: Node, successor: Node, slots: int) -> bool:
        """Let `successor` absorb `slots`; whether anything is new."""
        before = (self.known[successor], successor in self.explained, source in self.edges[successor])
        self.known[successor] |= slots
        self.explained.add(successor)
        self.edges[successor].add(source)
        return before != (self.known[successor], True, True)

    def residuals(self, step: int) -> None:
        """Carry what each node knows to the same column one step on."""
        for at, column in list(self.known):
            if at == step and (step, column) in self.explained and (step + 1, column) in self.known:
                self.merge((step, column), (step + 1, column), self.known[step, column])

    def operation(self, op: Operation, reasons: list[Cause], direction: str) -> bool:
        """Merge through one operation if one of its causes allows it; whether anything is new."""
        source, successor = (op.step, op.source), (op.step + 1, op.destination)
        offered, new = self.offered(source), False
        for cause in reasons:
            if offered and accepted(cause, direction, offered, self.known[successor], self.layout):
                slots = offered if source in self.explained else self.taken(cause, offered)
                self.accepted.add(op)
                new |= self.merge(source, successor, slots)
        return new

    def taken(self, cause: Cause, offered: int) -> int:
        """What an operation takes from a query that is not explained: the end that it matched on."""
        if cause.kind == "token match":
            return self.layout.slots_of[cause.source] & offered
        return offered & (1 << self.layout.goal_slot)


def explain(measured: Measured, settings: Settings | None = None) -> Circuit:
    """The circuit of a measured row, under its own settings or others with the same `maxing` and `bound`."""
    settings = settings or measured.settings
    if (settings.maxing, settings.bound) != (measured.settings.maxing, measured.settings.bound):
        raise ValueError("effects were measured with another maxing or bound; measure again")
    stack, layout = measured.stack, measured.layout
    operations = important(measured.effects, settings, stack.head_width)
    operations, nodes = below_root(operations, stack.steps, layout.last)
    features = layout.features(settings, positions=stack.model.config.position in ("one-hot", "learned"))
    found = dependences(stack, layout, measured.base, operations, features, settings)
    reasons = {op: causes(op, dependence, features, layout) for op, dependence in zip(operations, found)}
    directions = {op: layout.direction(op.destination, op.source) for op in operations}

    flow = Propagation(layout, nodes, stack.steps)
    for step in range(stack.steps):
        flow.residuals(step)
        mine = [op for op in operations if op.step == step]
        # A merge can make room for another into the same node (its set has grown): go round until nothing is new.
        while any([flow.operation(op, reasons[op], directions[op]) for op in mine]):
            pass

    root = (stack.steps, layout.last)
    kept = connected(root, flow)
    merges, not_maximal = count_merges(kept, flow)
    return Circuit(
        layout=layout,
        settings=settings,
        step_names=tuple(stack.name(step) for step in range(stack.steps)),
        answer=measured.effects.answer,
        logit=measured.effects.logit,
        operations=tuple(
            Explained(
                op,
                tuple(reasons[op]),
                directions[op],
                op in flow.accepted,
                op in flow.accepted and (op.step + 1, op.destination) in kept,
            )
            for op in operations
        ),
        known=flow.known,
        explained_nodes=frozenset(flow.explained),
        kept_nodes=frozenset(kept),
        explained=root in flow.explained and layout.has_path(flow.known[root]),
        merges=merges,
        not_maximal=not_maximal,
    )


def connected(root: Node, flow: Propagation) -> set[Node]:
    """The explained nodes from which merges lead to the root."""
    found, waiting = set(), [root] if root in flow.explained else []
    while waiting:
        node = waiting.pop()
        if node not in found:
            found.add(node)
            waiting.extend(flow.edges[node])
    return found


def count_merges(kept: set[Node], flow: Propagation) -> tuple[int, int]:
    """Merges in the circuit, and how many of them are roots of non-maximality.

    A merge has a residual predecessor and another one, none of whose sets holds start or goal. It is maximal when some
    other predecessor's longest path is as long as the residual's: then the path doubles. A merge that has a non-maximal
    one below it inherits this, and is not counted again.
    """
    layout = flow.layout
    ends = layout.slots_of[layout.start] | layout.slots_of[layout.goal]
    merges, roots, tainted = 0, 0, set()
    for node in sorted(node for node in kept if node[0] > 0):
        residual = (node[0] - 1, node[1])
        others = [other for other in flow.edges[node] if other != residual and not flow.known[other] & ends]
        inherits = any(other in tainted for other in flow.edges[node])
        if residual in flow.edges[node] and others and not flow.known[residual] & ends:
            merges += 1
            length = layout.longest_path(flow.known[residual])
            if not any(layout.longest_path(flow.known[other]) == length for other in others):
                roots += not inherits
                inherits = True
        if inherits:
            tainted.add(node)
    return merges, roots
