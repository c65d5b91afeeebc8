"""A batch of chains of facts as arrays."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Int, Int32


@dataclass(frozen=True)
class Chains:
    """Rows: a head, relations, and the entities that following them passes. Names count from 1; 0 stands for none."""

    entities: Int32[np.ndarray, "batch most_1"]
    """Head, bridges, answer; 0 after the answer."""
    relations: Int32[np.ndarray, "batch most"]
    """Relations in the order they are followed; 0 after the last."""
    hops: Int[np.ndarray, "batch"]
    """Number of relations."""
    attempts: Int[np.ndarray, "batch"]
    """Draws that the row took, the last one included."""
    entity_count: int
    """Entities are named 1..entity_count."""
    relation_count: int
    """Relations are named 1..relation_count."""

    def __len__(self) -> int:
        return len(self.hops)

    def __getitem__(self, rows: slice | np.ndarray) -> Chains:
        """The chains of some rows."""
        columns = {name: value[rows] for name, value in vars(self).items() if isinstance(value, np.ndarray)}
        return replace(self, **columns)

    @property
    def head(self) -> Int[np.ndarray, "batch"]:
        """The entity that each row begins with."""
        return self.entities[:, 0]

    @property
    def answer(self) -> Int[np.ndarray, "batch"]:
        """The entity that each row ends with."""
        return np.take_along_axis(self.entities, self.hops[:, None], axis=1)[:, 0]

    def relation_from_end(self, back: int) -> Int[np.ndarray, "batch"]:
        """The last relation of each row (`back` 1), the one before it (2), …; 0 where the row is shorter."""
        place = self.hops - back
        found = np.take_along_axis(self.relations, np.maximum(place, 0)[:, None], axis=1)[:, 0]
        return np.where(place < 0, 0, found)

    def fields_of(self, row: int) -> dict[str, object]:
        """One row as JSON values: head, relations, the entities passed, and the accepted answer."""
        hops = int(self.hops[row])
        return {
            "head": int(self.entities[row, 0]),
            "relations": self.relations[row, :hops].tolist(),
            "entities": self.entities[row, : hops + 1].tolist(),
            "accepted": [int(self.entities[row, hops])],
            "hops": hops,
        }
