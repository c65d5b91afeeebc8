"""Held-out rows: as many of each number of hops as in training, from rows that are never trained on."""

from __future__ import annotations

import numpy as np
from jaxtyping import Int

from .chains import Chains
from .config import HopsConfig
from .graph import random_words, whole_below
from .reserve import kept_walks, training_size
from .sampling import walks
from .splits import chains_of, pairs_of


def validation_stream(config: HopsConfig, key: int, indices: Int[np.ndarray, "batch"]) -> Chains:
    """Of one hop any fact, and all facts are trained on; of more hops any of the rows kept for validation."""
    words = random_words(key, indices, 2)
    if config.fresh and config.setting == "k-hop":
        hops = 1 + whole_below(words[:, 0], config.hops)
        fact = whole_below(words[:, 1], config.facts)
    else:
        fact = whole_below(words[:, 0], training_size(config))
        each = config.train_pairs if config.setting == "two-hop" else config.train_rows
        hops = np.where(fact < config.facts, 1, 2 + (fact - config.facts) // each)
    which, is_fact = whole_below(words[:, 1], config.validation_rows), hops == 1
    if config.setting == "two-hop":
        return chains_of(config, np.where(is_fact, fact, pairs_of(config).validation[which]), is_fact)
    if is_fact.all():
        return walks(config.graph_fields, hops, fact)
    kept = kept_walks(config.graph_fields, config.hops, config.test_rows, config.validation_rows)
    return walks(config.graph_fields, hops, np.where(is_fact, fact, kept[np.maximum(hops - 2, 0), which]))
