"""Figure 2 of *Transformers Struggle to Learn to Search*: trained on one distribution, tested on every other.

Laptop scale: graphs of up to 20 vertices (n = 65, lookahead 1 to 9), a looped model, minutes on one core.
Paper scale: n = 128, lookahead up to 20, six layers, 883 million examples.
"""

from __future__ import annotations

from dataclasses import replace

from algoprobe.models.config import TransformerConfig
from algoprobe.tasks.search.config import SearchConfig
from algoprobe.training.config import CurriculumConfig, Experiment, LoopsConfig, OptimiserConfig, TrainConfig

from .registry import preset


def paper() -> Experiment:
    """The paper's model and recipe: six layers, one-hot channels, n = 128, balanced graphs."""
    return Experiment(
        task=SearchConfig(n=128, distribution="balanced", encoding="triples"),
        model=TransformerConfig(
            layers=6,
            heads=1,
            embedding="one-hot",
            spare=16,  # the paper's "hidden dimension 16": 16 channels beside 46 token and 128 position channels
            position="one-hot",
            norm="layer",
            feedforward=1.0,
            activation="relu",
            output="tied",  # logits are the token channels themselves; there are no output weights
        ),
        train=TrainConfig(
            examples=3370 * 2**18,  # 883 million: 3,370 of the paper's blocks
            batch=1024,
            chunks=16,  # sorted by length: a quarter of the columns are padding otherwise
            optimiser=OptimiserConfig(name="sign-momentum", lr=1e-5, weight_decay=0.1),
            schedule="constant",
            warmup=0,
            clip=None,
            validate_every=2**18,
        ),
    )


@preset("search-paper", "paper")
def search_paper() -> Experiment:
    """The search paper's own model and training: n = 128, six layers, balanced graphs, 883 million examples."""
    return paper()


@preset("search-paper-small", "paper")
def search_paper_small() -> Experiment:
    """search-paper trained on lookahead up to 12 only."""
    experiment = paper()
    return replace(experiment, task=replace(experiment.task, lookahead=12))


@preset("search-paper-naive", "paper")
def search_paper_naive() -> Experiment:
    """search-paper trained on naive graphs."""
    experiment = paper()
    return replace(experiment, task=replace(experiment.task, distribution="naive"))


@preset("search-paper-star", "paper")
def search_paper_star() -> Experiment:
    """search-paper trained on star graphs."""
    experiment = paper()
    return replace(experiment, task=replace(experiment.task, distribution="star"))


def demo() -> Experiment:
    """One block applied again and again to packed edges, with a gated curriculum over lookahead."""
    return Experiment(
        task=SearchConfig(n=65, distribution="balanced", encoding="packed"),
        model=TransformerConfig(
            layers=1,
            heads=4,
            width=64,
            bias=False,
            zero_init=True,  # every block starts as the identity, which keeps fifteen loops trainable
            inject=True,
            outer_norm=True,
            loops=12,
        ),
        train=TrainConfig(
            examples=450_000,
            batch=128,
            optimiser=OptimiserConfig(name="adamw", lr=1e-3, weight_decay=0.1),
            curriculum=CurriculumConfig(on=True, gate=0.93),
            loops=LoopsConfig(draw="uniform", low=1, high=6, follow_stage=True),
            validate_every=50_000,
        ),
    )


@preset("search-demo-balanced", "laptop")
def search_demo_balanced() -> Experiment:
    """Graphs of up to 20 vertices, balanced: learns to search in minutes on one core."""
    return demo()


@preset("search-demo-naive", "laptop")
def search_demo_naive() -> Experiment:
    """The same model and budget on naive graphs, where shortcuts answer most rows."""
    experiment = demo()
    return replace(
        experiment,
        task=replace(experiment.task, distribution="naive"),
        # Naive graphs have no order of difficulty to walk through; the loops are those the balanced model ends with.
        train=replace(
            experiment.train,
            curriculum=CurriculumConfig(on=False),
            loops=LoopsConfig(draw="uniform", low=10, high=15),
        ),
    )
