"""Algoprobe: train small transformers on algorithmic tasks, say whether they learned the algorithm, show how."""

from algoprobe.core.compilation import find_a_cache

find_a_cache()
