"""Laws of the drawings of circuits, on small circuits made here."""

from __future__ import annotations

import copy
import itertools
import random
import xml.etree.ElementTree as ET

import pytest
from markup import Markup

from algoprobe.report.circuits import draw, page
from algoprobe.report.circuits.drawing import draw_body
from algoprobe.report.circuits.layout import Places
from algoprobe.report.circuits.reading import Reading, heading, kind, matched, short

SVG = "{http://www.w3.org/2000/svg}"


def cause(kind, source=None, destination=None):
    return {"kind": kind, "source": source, "destination": destination}


def operation(step, source, destination, *causes, kept=True, **more):
    usual = {"head": 0, "sign": 1, "drop": 1.25, "final": False, "direction": "forward", "accepted": kept}
    ends = {"step": step, "source": source, "destination": destination}
    return {**ends, "causes": list(causes), "kept": kept, **usual, **more}


def node(step, column, vertices, explained=True, kept=True):
    return {"step": step, "column": column, "vertices": vertices, "explained": explained, "kept": kept}


def token_columns(edges, start, goal, encoding):
    if encoding == "packed":
        pairs = [*edges, (start, goal)]
        return [{"tokens": list(pair), "vertices": list(pair)} for pair in pairs]
    ids = [v for u, w in edges for v in (0, u, w)] + [0, start, goal, 0, start]
    return [{"tokens": [v or 99], "vertices": [v]} for v in ids]


def merged() -> dict:
    """1→2→3 in three layers of `triples`: 2 takes 3, then 1 takes 2 and all it knows, then the answer reads 1."""
    edges = [(1, 2), (2, 3), (1, 4)]
    nodes = [node(0, 1, [1]), node(0, 2, [2]), node(0, 4, [2]), node(0, 5, [3]), node(0, 7, [1], kept=False)]
    nodes += [node(1, 1, [1, 2]), node(1, 4, [2, 3]), node(2, 1, [1, 2, 3]), node(3, 13, [1, 2, 3])]
    nodes += [node(step, 13, [1], explained=False, kept=False) for step in range(3)]
    operations = [
        operation(0, 2, 1, cause("position step", 2, 1)),
        operation(0, 5, 4, cause("position step", 5, 4)),
        operation(0, 7, 4, kept=False, sign=-1, direction="none"),
        operation(1, 4, 1, cause("token match", 2), direction="forward"),
        operation(2, 1, 13, cause("start and goal copy"), cause("token match", 1), final=True, direction="both"),
    ]
    return {
        "encoding": "triples", "graph": {"edges": [list(e) for e in edges], "start": 1, "goal": 3}, "answer": 2,
        "logit": 5.0, "steps": ["layer 1", "layer 2", "layer 3"], "columns": token_columns(edges, 1, 3, "triples"),
        "nodes": nodes, "operations": operations, "explained": True, "merges": 1, "not_maximal": 0,
    }  # fmt: skip


def invented(seed: int, encoding: str, steps: int, edges: int, operations: int) -> dict:
    """A circuit of any shape: a chain of edges, operations anywhere, sets that only grow."""
    draws = random.Random(seed)
    ids = draws.sample(range(1, 42), edges + 1)
    pairs = list(itertools.pairwise(ids))
    draws.shuffle(pairs)
    columns = token_columns(pairs, ids[0], ids[-1], encoding)
    last, made = len(columns) - 1, []
    places = {(step, last) for step in range(steps + 1)}
    for _ in range(operations):
        step, source, destination = draws.randrange(steps), draws.randrange(last + 1), draws.randrange(last + 1)
        if step == steps - 1:
            destination = last
        accepted = draws.random() < 0.6
        reasons = draws.sample([cause("token match", ids[1]), cause("goal copy"), cause("position step", 3, 4)], 2)
        made.append(
            operation(
                step, source, destination, *reasons[: draws.randrange(3)], head=draws.randrange(3),
                kept=accepted and draws.random() < 0.7, sign=draws.choice([1, -1, 0]),
                direction=draws.choice(["forward", "backward", "both", "none"]),
            )
        )  # fmt: skip
        made[-1]["accepted"] = accepted or made[-1]["kept"]
        places |= {(t, destination) for t in range(step + 2)} | {(t, source) for t in range(step + 1)}
    known: dict = {}
    for step, column in sorted(places):
        fresh = set(columns[column]["vertices"]) - {0} | (set(draws.sample(ids, 1)) if draws.random() < 0.4 else set())
        known[step, column] = known.get((step - 1, column), set()) | fresh
    flags = {place: draws.random() for place in places}
    return {
        "encoding": encoding, "graph": {"edges": [list(e) for e in pairs], "start": ids[0], "goal": ids[-1]},
        "answer": draws.choice(ids), "logit": 3.5, "steps": [f"loop {i + 1}" for i in range(steps)], "columns": columns,
        "nodes": [node(*p, sorted(known[p]), flags[p] < 0.8, flags[p] < 0.5) for p in sorted(places)],
        "operations": made, "explained": draws.random() < 0.5, "cell": "balanced lookahead 4", "row": seed,
    }  # fmt: skip


CIRCUITS = {
    "merged": merged(),
    "triples": invented(1, "triples", 6, 9, 40),
    "wide": invented(2, "triples", 7, 12, 70),
    "looped": invented(3, "packed", 12, 15, 60),
    "packed": invented(4, "packed", 8, 8, 12),
    "one edge": invented(5, "packed", 1, 1, 2),
    "no operations": invented(6, "triples", 6, 9, 0),
    "no operations, packed": invented(7, "packed", 6, 9, 0),
}


@pytest.fixture(params=list(CIRCUITS))
def circuit(request):
    return copy.deepcopy(CIRCUITS[request.param])


def groups(svg: str, attribute: str) -> dict[str, ET.Element]:
    found = [element for element in ET.fromstring(svg).iter(f"{SVG}g") if attribute in element.attrib]
    assert len({element.get(attribute) for element in found}) == len(found)
    return {element.get(attribute): element for element in found}


def words(element: ET.Element) -> list[str]:
    return [text.text for text in element.iter(f"{SVG}text")]


def test_every_operation_is_drawn_once_and_marked_as_what_it_is(circuit):
    drawn = groups(draw(circuit), "data-operation")
    assert set(drawn) == {str(i) for i in range(len(circuit["operations"]))}
    for i, op in enumerate(circuit["operations"]):
        classes = set(drawn[str(i)].get("class").split())
        assert ("kept" in classes) == op["kept"]
        assert ("rejected" in classes) == (not op["accepted"])
        assert ("negative" in classes) == (op["sign"] == -1)
        assert kind(op) in classes
        assert drawn[str(i)].get("data-from") == f"{op['step']}.{op['source']}"
        assert drawn[str(i)].get("data-to") == f"{op['step'] + 1}.{op['destination']}"


def test_sets_are_written_where_they_grew_and_are_those_of_the_circuit(circuit):
    drawn = groups(draw(circuit), "data-node")
    known = {(n["step"], n["column"]): set(n["vertices"]) for n in circuit["nodes"]}
    assert set(drawn) == {f"{step}.{column}" for step, column in known}
    root = len(circuit["steps"]), len(circuit["columns"]) - 1
    for facts in circuit["nodes"]:
        step, column = facts["step"], facts["column"]
        written = words(drawn[f"{step}.{column}"])
        grew = step > 0 and known[step, column] > known[step - 1, column]
        if (step, column) == root or (facts["kept"] and grew):
            assert sorted(map(int, written)) == facts["vertices"]
        else:
            assert written == []


def test_residuals_join_neighbouring_nodes_of_a_column(circuit):
    places = {(n["step"], n["column"]) for n in circuit["nodes"]}
    drawn = [p for p in ET.fromstring(draw_body(circuit)).iter(f"{SVG}path") if "data-from" in p.attrib]
    assert {(p.get("data-from"), p.get("data-to")) for p in drawn} == {
        (f"{step}.{column}", f"{step + 1}.{column}") for step, column in places if (step + 1, column) in places
    }


def test_nothing_lies_outside_or_on_top_of_another_set(circuit):
    places = Places(Reading(circuit))
    for (step, column), box in places.boxes.items():
        top, bottom = places.rows[step]
        assert box.height <= bottom - top
        assert places.margin <= places.x[column] - box.width / 2
        assert places.x[column] + box.width / 2 <= places.width
    rows = places.rows
    assert all(lower[0] > upper[1] for lower, upper in itertools.pairwise(rows)) and rows[0][1] < places.height
    for (a, p), (b, q) in itertools.combinations(places.boxes.items(), 2):
        if a[0] == b[0]:
            assert abs(places.x[a[1]] - places.x[b[1]]) >= (p.width + q.width) / 2
    for op, curve in zip(circuit["operations"], places.curves):
        assert curve.y[0] >= curve.y[1] > curve.y[2] >= curve.y[3], op


def test_every_edge_stands_below_or_is_counted_as_left_out(circuit):
    reading = Reading(circuit)
    spans = Places(reading).spans
    assert sum(span.count for span in spans if span.kind != "query") == len(circuit["graph"]["edges"])
    shown = {column for span in spans for column in span.columns}
    assert {n["column"] for n in circuit["nodes"]} <= shown


def test_the_derivation_uses_kept_operations_alone(circuit):
    used, nodes = Reading(circuit).derivation
    assert all(circuit["operations"][i]["kept"] for i in used)
    assert nodes <= {(n["step"], n["column"]) for n in circuit["nodes"]}


def test_the_path_of_a_merged_circuit_is_followed_down_to_the_input():
    reading = Reading(merged())
    assert reading.path == (1, 2, 3) and reading.right
    assert reading.derivation[0] == {0, 1, 3, 4}
    assert {(3, 13), (2, 1), (1, 4), (0, 5)} <= reading.derivation[1]
    assert groups(draw(merged()), "data-operation")["3"].get("class") == "op kept main forward"


def test_what_an_unexplained_answer_lacks_is_named():
    circuit = merged()
    circuit.update(explained=False, answer=4)
    circuit["nodes"] = [
        {**n, "vertices": [1, 3]} if (n["step"], n["column"]) == (3, 13) else n for n in circuit["nodes"]
    ]
    pieces = heading(Reading(circuit))
    assert "not explained by path merging: its column never knows 2" in pieces
    assert "answer 4: wrong" in pieces
    assert "wrong" in "".join(ET.fromstring(draw(circuit)).itertext())


def test_an_accepted_answer_is_right_whatever_the_graph_says():
    assert Reading({**merged(), "answer": 4, "accepted": [4]}).right
    assert not Reading({**merged(), "accepted": [4]}).right


@pytest.mark.parametrize(
    ("causes", "label", "name"),
    [
        ([cause("token match", 7)], "=7", "forward"),
        ([cause("token match", v) for v in (3, 5, 7)], "=3,5,…", "forward"),
        ([cause("position step", 5, 4)], "+1", "forward"),
        ([cause("position step", 4, 5)], "−1", "forward"),
        ([cause("position step", 4, 5), cause("position step", 4, 3)], "±1", "forward"),
        ([cause("goal copy")], "goal", "copy"),
        ([cause("token match", 3), cause("goal copy")], "=3", "forward"),
        ([cause("start and goal copy"), cause("goal copy")], "start+goal", "copy"),
        ([], "", "forward"),
    ],
)
def test_causes_in_words(causes, label, name):
    op = operation(0, 2, 1, *causes)
    assert (short(op), kind(op)) == (label, name)
    assert bool(matched(op)) == bool(causes)


def test_a_page_holds_all_circuits_and_fetches_nothing():
    html = page(list(CIRCUITS.values()), "Some circuits")
    markup = Markup(html)
    assert not markup.fetched and not [name for name in markup.attributes if name.startswith("on")]
    assert markup.ids.count("tip") == 1 and f"circuit-{len(CIRCUITS)}" in markup.ids
    assert html.count("data-operation=") == sum(len(c["operations"]) for c in CIRCUITS.values())
    assert "drop of the answer's logit: 1.25 of 5.00; final copy".replace("'", "&#x27;") in html
    assert "No attention operation is important for this answer." in markup.text
    assert "token match on vertex 2" in markup.text and "not accepted" in markup.text


def test_a_page_without_circuits_says_so():
    assert "No circuits." in Markup(page([], "Nothing")).text


def test_names_are_escaped():
    circuit = {**merged(), "cell": '<b>"&', "steps": ["<i>1", "a&b", "c"]}
    ET.fromstring(draw(circuit))
    markup = Markup(page([circuit], "<script>alert(1)</script>"))
    assert "b" not in markup.tags and "i" not in markup.tags and markup.tags.count("script") == 1
    assert "<script>alert(1)</script>" in markup.text and '<b>"&' in markup.text
