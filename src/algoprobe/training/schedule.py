"""What changes along a run: the learning rate and the number of loops. Both are pure functions of the step."""

from __future__ import annotations

import math
import random

from algoprobe.core.stream import derived_seed

from .config import LoopsConfig, TrainConfig


def learning_rate_factor(config: TrainConfig, step: int, began: int = 0) -> float:
    """What the largest learning rate is multiplied by at `step` (0-based); it warms up from step `began` on."""
    done = step * config.batch
    factor = min(1.0, (done + (1 - began) * config.batch) / config.warmup) if config.warmup else 1.0
    total = config.steps * config.batch
    left = (total - done) / (config.decay * total) if config.decay else math.inf
    if config.schedule == "constant" or left >= 1:
        return factor
    return factor * (left if config.schedule == "linear" else 0.5 - 0.5 * math.cos(math.pi * left))


def loop_range(config: LoopsConfig, default: int, difficulty: int) -> tuple[int, int]:
    """Smallest and largest number of loops that training draws at this difficulty."""
    if config.draw == "fixed":
        return default, default
    shift = difficulty if config.follow_stage else 0
    return config.low + shift, config.high + shift


def draw_loops(config: LoopsConfig, default: int, difficulty: int, seed: int, step: int) -> int:
    """The number of loops of the batch at `step`: a pure function of the training seed and the step."""
    low, high = loop_range(config, default, difficulty)
    if low == high:
        return low
    generator = random.Random(derived_seed("loops", seed, step))
    if config.draw == "uniform":
        return generator.randint(low, high)
    # Knuth's product method: the number of uniforms whose product stays above exp(-mean).
    count, product, floor = 0, generator.random(), math.exp(-config.mean)
    while product > floor:
        count, product = count + 1, product * generator.random()
    return min(max(count + (difficulty if config.follow_stage else 0), low), high)


def recommended_loops(config: LoopsConfig, default: int, difficulty: int) -> int:
    """The number of loops a trained model should be read at: the middle of what it last trained with, rounded up.

    Of a Poisson draw the largest, which the rows of the largest difficulty may need and few batches have.
    """
    low, high = loop_range(config, default, difficulty)
    return high if config.draw == "poisson" else -(-(low + high) // 2)
