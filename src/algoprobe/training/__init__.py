"""How it learns: experiment configs, the loop, objectives, curricula, optimisers, checkpoints, evaluation."""
