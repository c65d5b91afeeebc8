"""Presets of the hops task, after *Loop, Think, & Generalize* (arXiv 2604.07822).

Two questions: does a looped model compose facts that it has only seen alone, and does it answer deeper chains than it
was trained on when it is looped more? For each there are the paper's loop and a recipe that cures it, at toy size; then
the paper's own sizes.
"""

from __future__ import annotations

from algoprobe.models.config import TransformerConfig
from algoprobe.tasks.hops.config import HopsConfig
from algoprobe.training.config import CurriculumConfig, Experiment, LoopsConfig, OptimiserConfig, TrainConfig

from .comparison import changed
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


def muon(weight_decay: float) -> OptimiserConfig:
    """Muon for matrices inside blocks, AdamW for the rest."""
    return OptimiserConfig(name="muon", lr=0.02, lr_other=3e-3, weight_decay=weight_decay)


@preset("hops-two-loop", "laptop")
def hops_two_loop() -> Experiment:
    """The paper's plain loop on two hops over 500 facts, a tenth of them never inside a training pair."""
    return Experiment(
        task=HopsConfig(
            entities=50,
            relations=10,
            out_degree=10,
            tails="permutation",
            ood_share=0.1,
            test_share=0.1,
            answer_at="padded",
        ),
        model=block(64, position="learned", loops=2),
        train=TrainConfig(
            examples=3_000_000,
            batch=512,
            optimiser=muon(weight_decay=0.3),
            warmup=51_200,
            decay=0.5,  # at a constant rate the OOD accuracies bounce
            clip=None,
            snapshots=40,
        ),
    )


@preset("hops-two", "laptop")
def hops_two() -> Experiment:
    """The cure of the plateau: only what a loop would answer enters the next; every fact composed in a minute."""
    return changed(
        hops_two_loop(),
        task={"answer_at": "last"},
        # What the next loop reads is a token that the first could have read, wherever the fact was learned.
        model={"position": "relative", "recurrence": "reset", "inject": True},
        loops={"loss": "from-difficulty"},
    )


@preset("hops-loop", "laptop")
def hops_loop() -> Experiment:
    """The paper's plain loop on chains over ten permutations, a hop more whenever the last is right; random R."""
    return Experiment(
        task=HopsConfig.paper(
            "k-hop",
            entities=30,
            hops=12,
            hops_max_test=24,
            fresh=True,
            answer_at="last",
            test_rows=200,
            validation_rows=200,
        ),
        model=block(64, position="relative", relative_slope=1.0, loops=4),
        train=TrainConfig(
            examples=1_500_000,
            batch=256,
            optimiser=muon(weight_decay=0.1),
            warmup=12_800,
            decay=0.5,
            curriculum=CurriculumConfig(on=True, start=2, gate=0.95),
            loops=LoopsConfig(draw="poisson", low=2, high=8, mean=4.0),
            validate_every=50_000,
        ),
    )


@preset("hops-deep", "laptop")
def hops_deep() -> Experiment:
    """The cure of the price: trained to five hops in two minutes, it answers forty with as many loops."""
    return changed(
        hops_loop(),
        task={"hops": 5, "hops_max_test": 40},
        model={"recurrence": "reset", "inject": True},
        train={"examples": 600_000},
        curriculum={"gate": 0.8},
        loops={"draw": "uniform", "low": 1, "high": 4, "follow_stage": True, "loss": "from-difficulty"},
    )


@preset("hops-deep-200", "laptop")
def hops_deep_200() -> Experiment:
    """hops-deep over the paper's 200 entities, trained to ten hops: ten minutes on one core."""
    return changed(hops_deep(), task={"entities": 200, "hops": 10}, train={"examples": 2_000_000})


def paper_block(**changes: object) -> TransformerConfig:
    """The paper's model: GPT-2's block, four layers of width 768, applied R times; nothing between the loops."""
    return TransformerConfig(
        layers=4,
        heads=12,
        width=768,
        # The authors' framework starts embeddings at 1 and so tied logits at 28; ours start at 1.
        embedding_scale=768**-0.5,
        causal=True,
        activation="gelu-tanh",
        zero_init=True,
        output="tied",
        **changes,
    )


@preset("hops-two-paper", "paper")
def hops_two_paper() -> Experiment:
    """The paper's two-hop model: 2,000 entities, 200 relations, R = 4, 2,000 epochs of 313,600 rows."""
    return Experiment(
        task=HopsConfig.paper("two-hop"),
        model=paper_block(position="learned", loops=4),
        train=TrainConfig(
            examples=2_000 * 313_600,
            batch=512,
            optimiser=OptimiserConfig(lr=1e-4, betas=(0.9, 0.999), weight_decay=0.1),
            schedule="constant",
            warmup=2_000 * 512,
            clip=None,
            label_smoothing=0.1,
            validate_every=20 * 313_600,
            snapshots=40,
        ),
    )


@preset("hops-paper", "paper")
def hops_paper() -> Experiment:
    """The paper's chains: 200 entities, 10 permutations, up to 40 hops, R from a clipped Poisson of mean 4."""
    return Experiment(
        task=HopsConfig.paper("k-hop"),
        model=paper_block(loops=4),
        train=TrainConfig(
            examples=3_000_000 * 128,
            batch=128,
            optimiser=OptimiserConfig(lr=1e-4, betas=(0.9, 0.999), weight_decay=0.01),
            schedule="constant",
            warmup=2_000 * 128,
            clip=None,
            # An epoch of the first stage; what a later one takes longer costs a few looks more.
            curriculum=CurriculumConfig(on=True, start=2, every=133, patience=1_500_000, restart=True),
            loops=LoopsConfig(draw="poisson", low=2, high=8, mean=4.0),
            validate_every=1_000 * 128,
        ),
    )
