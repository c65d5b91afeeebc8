"""Parts that architectures share: attention, feed-forward, embeddings, norms, taps."""
