"""What a circuit says, in terms that a drawing needs: the path, names of columns, causes in words, one derivation."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from functools import cached_property
from typing import Any

Node = tuple[int, int]
"""(step, column): a token's residual stream after so many steps."""

KINDS = {
    "forward": "forward: what the source holds is reachable from the destination",
    "backward": "backward: the destination is reachable from what the source holds",
    "both": "both: the same vertex, or reachable either way",
    "copy": "copy of the goal, or of start and goal",
    "none": "neither reaches the other, or a column is no vertex",
}
SIGNS = {
    1: "positive: matters when the attention is taken away",
    -1: "negative: matters when the attention is raised",
    0: "both signs: matters when the attention is taken away and when it is raised",
}


@dataclass(frozen=True)
class Reading:
    """A circuit and what follows from it."""

    circuit: dict[str, Any]

    @cached_property
    def nodes(self) -> dict[Node, dict[str, Any]]:
        """The nodes by place."""
        return {(node["step"], node["column"]): node for node in self.circuit["nodes"]}

    @property
    def operations(self) -> list[dict[str, Any]]:
        """The important attention operations."""
        return self.circuit["operations"]

    @property
    def start(self) -> int:
        """The vertex where the path starts."""
        return self.circuit["graph"]["start"]

    @property
    def goal(self) -> int:
        """The vertex where it ends."""
        return self.circuit["graph"]["goal"]

    @property
    def packed(self) -> bool:
        """Whether a column is an edge; otherwise it is one token."""
        return self.circuit["encoding"] == "packed"

    @property
    def last(self) -> int:
        """The column that the answer is read from."""
        return len(self.circuit["columns"]) - 1

    @property
    def root(self) -> Node:
        """The answer's column at the end."""
        return len(self.circuit["steps"]), self.last

    def known(self, node: Node) -> frozenset[int]:
        """The vertices that a node knows of; none where there is no such node."""
        return frozenset(self.nodes[node]["vertices"]) if node in self.nodes else frozenset()

    @cached_property
    def path(self) -> tuple[int, ...]:
        """A shortest path from start to goal: one that the root knows, else one through the answer, if there is one."""
        edges = [tuple(edge) for edge in self.circuit["graph"]["edges"]]
        root = self.known(self.root)
        inside = shortest_path([e for e in edges if root.issuperset(e)], self.start, self.goal, self.circuit["answer"])
        return inside or shortest_path(edges, self.start, self.goal, self.circuit["answer"])

    @cached_property
    def right(self) -> bool:
        """Whether the answer is right: among `accepted`, or without it a child of start that reaches the goal."""
        answer, edges = self.circuit["answer"], [tuple(edge) for edge in self.circuit["graph"]["edges"]]
        if "accepted" in self.circuit:
            return answer in self.circuit["accepted"]
        return (self.start, answer) in edges and bool(shortest_path(edges, answer, self.goal))

    @cached_property
    def groups(self) -> list[tuple[str, tuple[int, ...]]]:
        """The columns that belong together, from left to right: `edge` groups, then the `query`."""
        count, wide, query = self.last + 1, (1 if self.packed else 3), (1 if self.packed else 5)
        edges = [("edge", tuple(range(i, i + wide))) for i in range(0, count - query, wide)]
        return [*edges, ("query", tuple(range(count - query, count)))]

    def token(self, column: int) -> str:
        """What stands in a column: a vertex, `EDGE`, `QUERY` or `PATH`; for `packed`, `u→v` or `start→goal?`."""
        vertices = self.circuit["columns"][column]["vertices"]
        if self.packed:
            return f"{vertices[0]}→{vertices[1]}{'?' if column == self.last else ''}"
        if vertices[0]:
            return str(vertices[0])
        return {self.last - 4: "QUERY", self.last - 1: "PATH"}.get(column, "EDGE")

    def role(self, column: int) -> str:
        """What a column of the query is for; empty elsewhere."""
        if self.packed:
            return "query" if column == self.last else ""
        return {self.last - 3: "start", self.last - 2: "goal", self.last: "answer here"}.get(column, "")

    def name(self, column: int) -> str:
        """A column in words."""
        if self.packed:
            return f"{'query' if column == self.last else 'edge'} {self.token(column)}"
        if column >= self.last - 4:
            return f"{self.role(column) or 'marker'} {self.token(column)} of the query"
        u, v = (self.token(column - column % 3 + i) for i in (1, 2))
        return f"{self.token(column)} of edge {u}→{v}"

    def brings(self, operation: dict[str, Any]) -> frozenset[int]:
        """The vertices that an operation can carry. A packed query hands out start and goal, explained or not."""
        source = (operation["step"], operation["source"])
        explained = source in self.nodes and self.nodes[source]["explained"]
        ends = {self.start, self.goal} if self.packed and operation["source"] == self.last else set()
        return (self.known(source) if explained else frozenset()) | ends

    @cached_property
    def derivation(self) -> tuple[frozenset[int], frozenset[Node]]:
        """One way in which the path comes together at the root: indices of kept operations, and nodes.

        From the root downwards, what a node needs comes from its own column one step earlier where that knew all of
        it, else from one kept operation that brings all of it, else from both, by as few operations as a greedy cover
        finds.
        """
        needs: dict[Node, set[int]] = {self.root: set(self.path) & self.known(self.root)}
        used: set[int] = set()
        for step in range(self.root[0], 0, -1):
            for node in [node for node in needs if node[0] == step]:
                below = (step - 1, node[1])
                missing, carried = needs[node] - self.known(below), needs[node] & self.known(below)
                arriving = self.arriving(node)
                if missing and any(needs[node] <= self.brings(self.operations[i]) for i in arriving):
                    missing, carried = set(needs[node]), set()
                if carried:
                    needs.setdefault(below, set()).update(carried)
                while missing and (best := self._best(arriving, missing)) is not None:
                    source, given = self.operations[best]["source"], missing & self.brings(self.operations[best])
                    used.add(best)
                    needs.setdefault((step - 1, source), set()).update(given)
                    missing -= given
        return frozenset(used), frozenset(node for node in needs if node in self.nodes)

    def arriving(self, node: Node) -> list[int]:
        """Indices of the kept operations into a node."""
        ops = enumerate(self.operations)
        return [i for i, op in ops if op["kept"] and (op["step"] + 1, op["destination"]) == node]

    def _best(self, indices: list[int], missing: set[int]) -> int | None:
        """The operation that brings most of what is missing, by drop where several do; None where none does."""
        size = {i: len(missing & self.brings(self.operations[i])) for i in indices}
        best = max(indices, key=lambda i: (size[i], self.operations[i]["drop"]), default=None)
        return best if best is not None and size[best] else None


def shortest_path(edges: list[tuple[int, ...]], start: int, goal: int, through: int | None = None) -> tuple[int, ...]:
    """A shortest path, stepping first to `through` where one does; empty where the goal is out of reach."""
    left, queue = {goal: 0}, deque([goal])
    while queue:
        v = queue.popleft()
        for a, b in edges:
            if b == v and a not in left:
                left[a] = left[v] + 1
                queue.append(a)
    if start not in left:
        return ()
    path = [start]
    while path[-1] != goal:
        nearer = [b for a, b in edges if a == path[-1] and left.get(b) == left[a] - 1]
        path.append(min(nearer, key=lambda v: (v != through, v)))
    return tuple(path)


def kind(operation: dict[str, Any]) -> str:
    """The key of `KINDS` that says what an operation does: its direction, or `copy`.

    The goal stands for a vertex too, so a match on it that has a direction is no mere copy.
    """
    copies = [cause["kind"] for cause in operation["causes"] if cause["kind"].endswith("copy")]
    only = len(copies) == len(operation["causes"]) or operation["direction"] == "none"
    return "copy" if copies and (only or "start and goal copy" in copies) else operation["direction"]


def matched(operation: dict[str, Any]) -> list[str]:
    """What an operation matched on, in words."""
    words = []
    vertices = [str(cause["source"]) for cause in operation["causes"] if cause["kind"] == "token match"]
    if vertices:
        words.append(f"token match on vertex {', '.join(vertices)}")
    for cause in operation["causes"]:
        if cause["kind"] == "position step":
            words.append(f"position step from column {cause['source']} to {cause['destination']}")
        elif cause["kind"] != "token match":
            words.append(cause["kind"])
    return words


def short(operation: dict[str, Any], most: int = 2) -> str:
    """The same in a few characters: `=6` (vertex), `+1` (reads the column after), `goal`, `start+goal`."""
    kinds = [cause["kind"] for cause in operation["causes"]]
    if "start and goal copy" in kinds:
        return "start+goal"
    vertices = [str(cause["source"]) for cause in operation["causes"] if cause["kind"] == "token match"]
    if vertices:
        return "=" + ",".join(vertices[:most]) + (",…" if len(vertices) > most else "")
    steps = {c["source"] - c["destination"] for c in operation["causes"] if c["kind"] == "position step"}
    if steps:
        return "±1" if len(steps) > 1 else ("+1" if steps == {1} else "−1")
    return "goal" if "goal copy" in kinds else ""


def standing(operation: dict[str, Any]) -> str:
    """Whether an operation is part of the circuit, in words."""
    if operation["kept"]:
        return "accepted, in the circuit"
    return "accepted, but not connected to the answer" if operation["accepted"] else "not accepted"


def heading(reading: Reading) -> list[str]:
    """The title in pieces: which row, what was answered, whether it is explained, how many operations."""
    circuit, kept = reading.circuit, sum(op["kept"] for op in reading.operations)
    where = [str(circuit[key]) for key in ("model", "cell") if key in circuit]
    where += [f"row {circuit['row']}"] if "row" in circuit else []
    count, missing = len(reading.operations), [str(v) for v in reading.path if v not in reading.known(reading.root)]
    more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
    lack = f": its column never knows {', '.join(missing[:3])}{more}" if missing else ""
    return [
        *where,
        f"from {reading.start} to {reading.goal}",
        f"answer {circuit['answer']}: {'right' if reading.right else 'wrong'}",
        standing_of_answer(circuit["explained"], reading.right, lack),
        f"{count} important operation{'s' * (count != 1)}, {kept} in the circuit",
    ]


def summary(circuit: dict[str, Any]) -> dict[str, Any]:
    """One circuit in a few JSON values, `text` among them."""
    reading = Reading(circuit)
    kept = {key: circuit[key] for key in ("model", "cell", "row", "answer", "explained") if key in circuit}
    kept |= {"correct": reading.right, "path": list(reading.path), "operations": len(reading.operations)}
    return kept | {"text": " · ".join(heading(reading))}


def standing_of_answer(explained: bool, right: bool, lack: str) -> str:
    """Whether path merging explains an answer, in words; a path that is there and not followed explains no answer."""
    if explained:
        return "explained by path merging" if right else "its column knows a path, and answers otherwise"
    return f"not explained by path merging{lack}"


def reasons(operation: dict[str, Any]) -> str:
    """What falls when the operation is perturbed."""
    words = {"answer": "the answer's logit", "final copy": "the product of a final copy"}
    named = [words[name] for name in operation.get("lowers", ())]
    return " and ".join(named) or ("it is the strongest final copy" if operation.get("final") else "nothing")


def about_operation(reading: Reading, operation: dict[str, Any]) -> list[str]:
    """An operation in full, line by line."""
    ends = [f"{reading.name(operation[side])} (column {operation[side]})" for side in ("source", "destination")]
    final = "; final copy" if operation.get("final") else ""
    return [
        f"{reading.circuit['steps'][operation['step']]}, head {operation['head']}: {standing(operation)}",
        f"from {ends[0]} to {ends[1]}",
        f"matched on: {'; '.join(matched(operation)) or 'nothing known'}",
        KINDS[kind(operation)],
        f"without it falls: {reasons(operation)}",
        f"drop of the answer's logit: {operation['drop']:.2f} of {reading.circuit['logit']:.2f}{final}",
        f"sign {SIGNS[operation['sign']]}",
    ]


def about_node(reading: Reading, node: Node) -> list[str]:
    """A node in full, line by line."""
    facts, when = reading.nodes[node], "input" if node[0] == 0 else f"after {reading.circuit['steps'][node[0] - 1]}"
    gained = sorted(reading.known(node) - reading.known((node[0] - 1, node[1]))) if node[0] else []
    news = f" (new: {', '.join(map(str, gained))})" if gained else ""
    state = "explained" if facts["explained"] else "not explained"
    return [
        f"{when}: {reading.name(node[1])} (column {node[1]})",
        f"knows {', '.join(map(str, facts['vertices'])) or 'no vertex'}{news}",
        f"{state}, {'in the circuit' if facts['kept'] else 'not connected to the answer'}",
    ]
