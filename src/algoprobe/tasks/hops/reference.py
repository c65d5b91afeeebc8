"""A plain, slow second writing of the sampler in Python numbers, which only tests use. It has no kernel's code."""

from __future__ import annotations

from algoprobe.core.stream import Stream

from .config import HopsConfig

WORD = 2**64
GOLDEN = 0x9E3779B97F4A7C15

Facts = dict[int, dict[int, int]]
"""Head → relation → tail, all counted from 1."""


def mix(z: int) -> int:
    """The bijection of `core.generator`."""
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 % WORD
    z = (z ^ z >> 27) * 0x94D049BB133111EB % WORD
    return z ^ z >> 31


class Generator:
    """The counter generator of one example."""

    def __init__(self, key: int, index: int) -> None:
        self.state = mix(key ^ mix((index + GOLDEN) % WORD))
        self.step = mix((self.state + GOLDEN) % WORD) | 1

    def draw(self) -> int:
        """64 random bits."""
        self.state = (self.state + self.step) % WORD
        return mix(self.state)

    def below(self, bound: int) -> int:
        """A number in 0..bound-1."""
        return (self.draw() >> 32) * bound >> 32


def facts_of(config: HopsConfig) -> Facts:
    """The graph, fact by fact."""
    key = Stream("hops", config.graph_fields.digest, "facts", 0).key
    found: Facts = {head: {} for head in range(1, config.entities + 1)}
    if config.tails == "permutation":
        for relation in range(config.relations):
            generator, order = Generator(key, relation), list(range(config.entities))
            for v in range(config.entities - 1, 0, -1):
                j = generator.below(v + 1)
                order[v], order[j] = order[j], order[v]
            for head, tail in enumerate(order):
                found[head + 1][relation + 1] = tail + 1
        return found
    for head in found:
        generator, order = Generator(key, head - 1), list(range(config.relations))
        for place in range(config.out_degree):
            j = place + generator.below(config.relations - place)
            order[place], order[j] = order[j], order[place]
        for relation in sorted(order[: config.out_degree]):
            found[head][relation + 1] = generator.below(config.entities) + 1
    return found


def walk(config: HopsConfig, facts: Facts, hops: int, number: int) -> tuple[int, tuple[int, ...]]:
    """Head and relations of a numbered random walk."""
    generator = Generator(Stream("hops", f"{config.graph_fields.digest} {hops}", "walks", 0).key, number)
    head = here = generator.below(config.entities) + 1
    relations = []
    for _ in range(hops):
        relation = sorted(facts[here])[generator.below(config.out_degree)]
        relations.append(relation)
        here = facts[here][relation]
    return head, tuple(relations)


def distinct_walks(config: HopsConfig, facts: Facts, hops: int, count: int) -> list[tuple[int, tuple[int, ...]]]:
    """The first `count` walks that no earlier one equals."""
    found: dict[tuple[int, tuple[int, ...]], None] = {}
    number = 0
    while len(found) < count:
        found.setdefault(walk(config, facts, hops, number))
        number += 1
    return list(found)


def answer(facts: Facts, head: int, relations: tuple[int, ...]) -> int | None:
    """Where following the relations leads; None where a fact is missing."""
    here = head
    for relation in relations:
        if relation not in facts[here]:
            return None
        here = facts[here][relation]
    return here


def permuted(key: int, place: int, size: int) -> int:
    """The place of a fixed set of `size` rows that comes at `place` in the order of `key`."""
    half = 1
    while 4**half < size:
        half += 1
    low, x = 2**half - 1, place
    while True:
        left, right = x >> half, x & low
        for turn in range(1, 9):
            left, right = right, left ^ mix(key ^ mix((right + turn * GOLDEN) % WORD)) & low
        x = left << half | right
        if x < size:
            return x


def training_place(key: int, index: int, size: int) -> int:
    """The place in the fixed set of a training index."""
    epoch = mix(key ^ mix((index // size + GOLDEN) % WORD))
    return permuted(epoch, index % size, size)
