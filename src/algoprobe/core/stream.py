"""Keyed random streams: an example is a pure function of (task, config digest, split, seed, index).

`Stream` hashes everything but the index into one 64-bit key. A kernel then calls `begin(state, key, index)` and draws
from a small counter generator of its own, so examples can be made in any order, by any number of workers or ranks.

The generator is SplitMix64 with an increment of its own for each example (Steele, Lea & Flood, OOPSLA 2014): two
examples share neither their starting point nor their step, so their sequences cannot be shifted copies of each other.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

from .errors import UsageError, unknown

SPLITS = ("train", "validation", "test", "card", "example")


@dataclass(frozen=True)
class Stream:
    """A named sequence of examples."""

    task: str
    """Name of the task family."""
    digest: str
    """Digest of the config fields that decide what is drawn."""
    split: str
    """Which of the disjoint streams: train, validation, test, …"""
    seed: int
    """The data seed."""

    @property
    def key(self) -> int:
        """The 64-bit number that a kernel starts from."""
        text = json.dumps([self.task, self.digest, self.split, self.seed])
        return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def derived_seed(*parts: object) -> int:
    """A 63-bit seed that is a pure function of `parts`; for generators outside the kernels (initialisation, loops)."""
    text = json.dumps([str(part) for part in parts])
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little") >> 1


def check_split(split: str) -> None:
    """Raise `UsageError` where `split` names no stream: an unknown one, and `test`, whose cells have one each."""
    if split == "test":
        raise UsageError("split: 'test' has no single stream; ask test(cell, rows) for the rows of a cell.")
    if split not in SPLITS:
        raise unknown("split", split, [name for name in SPLITS if name != "test"])
