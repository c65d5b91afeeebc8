"""Task card: what a config's facts and training rows are, counted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from algoprobe.core.config import to_dict

from .baselines import baselines
from .graph import graph_of
from .reserve import training_size
from .splits import pairs_of

if TYPE_CHECKING:
    from .task import HopsTask


def _histogram(values: np.ndarray) -> dict[str, int]:
    found, counts = np.unique(values, return_counts=True)
    return {str(int(value)): int(count) for value, count in zip(found, counts)}


def card(task: HopsTask, seed: int, rows: int) -> dict[str, Any]:
    """Config, digests, sizes of all groups; histograms, means and baselines of `rows` rows of the card stream."""
    config = task.config
    chains = task.chains("card", seed, np.arange(rows))
    found = {
        "task": task.name,
        "config": to_dict(config),
        "train_digest": config.train_digest,
        "test_digest": config.test_digest,
        "seed": seed,
        "rows": rows,
        "facts": config.facts,
    }
    if config.setting == "two-hop":
        pairs = pairs_of(config)
        found["pairs"] = {
            "trained": len(pairs.train),
            "validation": len(pairs.validation),
            "left out": pairs.left_out,
            "id": len(pairs.id),
            "ood": len(pairs.ood),
            "first-ood": len(pairs.first_ood),
            "second-ood": len(pairs.second_ood),
        }
        found |= {"id_facts": config.id_facts, "ood_facts": config.ood_facts, "phi": len(pairs.train) / config.id_facts}
    if config.setting == "two-hop" or not config.fresh:
        found["training_set"] = training_size(config)
    counts = {"hops": chains.hops}
    if config.fresh and config.setting == "k-hop":
        counts["attempts"] = chains.attempts
    # How often each entity is a tail says whether chains can meet; in permutations it is the out-degree.
    tails = np.bincount(graph_of(config.graph_fields).tail.reshape(-1), minlength=config.entities)
    return found | {
        "means": {name: float(np.mean(values)) for name, values in counts.items()},
        "histograms": {name: _histogram(values) for name, values in (counts | {"in_degree": tails}).items()},
        "baselines": {name: float(values.mean()) for name, values in baselines(chains, config).items()},
    }
