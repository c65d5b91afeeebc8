"""Configs small enough for plain Python, for tests."""

from __future__ import annotations

from algoprobe.tasks.hops import HopsConfig

PARTIAL = HopsConfig(
    entities=40, relations=8, out_degree=5, ood_share=0.1, phi=2.5, test_share=0.1, test_rows=60, validation_rows=20
)
"""Two hops over 200 facts that are defined on part of the entities."""
CHAINS = HopsConfig(
    setting="k-hop", entities=20, relations=4, out_degree=4, tails="permutation", hops=5, hops_max_test=8,
    train_rows=120, test_rows=50, validation_rows=30,
)  # fmt: skip
"""Chains over four permutations, fixed rows."""
FRESH = HopsConfig(
    setting="k-hop", entities=20, relations=4, out_degree=4, tails="permutation", hops=5, hops_max_test=8, fresh=True,
    test_rows=50, validation_rows=30,
)  # fmt: skip
"""The same with an endless training stream."""
ALL = {"partial": PARTIAL, "chains": CHAINS, "fresh": FRESH}
