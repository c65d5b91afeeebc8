"""Presets of the hops task at toy size, after *Loop, Think, & Generalize* (arXiv 2604.07822).

Two questions: does a looped model compose facts that it has only seen alone, and does it answer deeper chains than it
was trained on when it is looped more?
"""

from __future__ import annotations

from algoprobe.models.config import TransformerConfig
from algoprobe.tasks.hops.config import HopsConfig
from algoprobe.training.config import CurriculumConfig, Experiment, LoopsConfig, OptimiserConfig, TrainConfig

from .registry import preset


def block(width: int, **changes: object) -> TransformerConfig:
    """One causal block that starts as the identity, with the answer's matrix tied to the embedding."""
    fields = {
        "layers": 1,
        "heads": 4,
        "width": width,
        "embedding_scale": width**-0.5,  # so that tied logits start at a size of 1
        "causal": True,
        # With LayerNorm, biases and clipped gradients two-hop rows were learned by heart; which does it is open.
        "norm": "rms",
        "bias": False,
        "activation": "gelu",
        "zero_init": True,
        "output": "tied",
    }
    return TransformerConfig(**(fields | changes))


@preset("hops-two-hop-demo", "laptop")
def hops_two_hop_demo() -> Experiment:
    """Two hops over 500 facts, a tenth of them never inside a training pair: a minute on one core."""
    return Experiment(
        task=HopsConfig(
            entities=50,
            relations=10,
            out_degree=10,
            tails="permutation",
            ood_share=0.1,
            test_share=0.1,
            answer_at="last",
        ),
        # The channel hands the bridge to the second loop as a token that the first could have read.
        model=block(64, position="learned", loops=2, recurrence="embedding"),
        train=TrainConfig(
            examples=1_400_000,
            batch=512,
            optimiser=OptimiserConfig(name="muon", lr=0.02, lr_other=3e-3, weight_decay=0.3),
            warmup=51_200,
            decay=0.5,  # at a constant rate the OOD accuracies bounce
            clip=None,
            loops=LoopsConfig(loss="from-difficulty"),
        ),
    )


@preset("hops-demo", "laptop")
def hops_demo() -> Experiment:
    """Chains of up to four hops over ten permutations, tested to sixteen: a minute on one core."""
    return Experiment(
        task=HopsConfig.paper(
            "k-hop",
            entities=30,
            hops=4,
            hops_max_test=16,
            fresh=True,
            answer_at="last",
            test_rows=300,
            validation_rows=200,
        ),
        model=block(64, position="rotary", loops=6, inject=True, recurrence="reset"),
        train=TrainConfig(
            examples=400_000,
            batch=256,
            optimiser=OptimiserConfig(name="muon", lr=0.02, lr_other=3e-3, weight_decay=0.1),
            warmup=12_800,
            decay=0.5,
            curriculum=CurriculumConfig(on=True, start=2, gate=0.8),
            loops=LoopsConfig(draw="uniform", low=1, high=4, follow_stage=True, loss="from-difficulty"),
            validate_every=50_000,
        ),
    )
