"""Algoprobe: train small transformers on algorithmic tasks, say whether they learned the algorithm, show how."""
