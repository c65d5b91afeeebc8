"""Figure 2 of *Transformers Struggle to Learn to Search*: trained on one distribution, tested on every other.

Laptop scale: graphs of up to 20 vertices (n = 65, lookahead 1 to 9), a looped model, minutes on one core.
Paper scale: n = 128, lookahead up to 20, six layers, 883 million examples.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from algoprobe.models.config import TransformerConfig
from algoprobe.tasks.search.config import SearchConfig
from algoprobe.training.config import CurriculumConfig, Experiment, LoopsConfig, OptimiserConfig, TrainConfig

from .comparison import Expected, chosen, compare
from .registry import StudyOptions, find_preset, preset, study


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


def trained_on(experiment: Experiment, **task: object) -> Experiment:
    """`experiment` with some fields of its task changed."""
    return replace(experiment, task=replace(experiment.task, **task))


@preset("search-paper", "paper")
def search_paper() -> Experiment:
    """The search paper's own model and training: n = 128, six layers, balanced graphs, 883 million examples."""
    return paper()


@preset("search-paper-small", "paper")
def search_paper_small() -> Experiment:
    """search-paper trained on lookahead up to 12 only."""
    return trained_on(paper(), lookahead=12)


@preset("search-paper-naive", "paper")
def search_paper_naive() -> Experiment:
    """search-paper trained on naive graphs."""
    return trained_on(paper(), distribution="naive")


@preset("search-paper-star", "paper")
def search_paper_star() -> Experiment:
    """search-paper trained on star graphs."""
    return trained_on(paper(), distribution="star")


def demo() -> Experiment:
    """One block applied again and again to packed edges, with a gated curriculum over lookahead."""
    return Experiment(
        task=SearchConfig(n=65, distribution="balanced", encoding="packed"),
        model=TransformerConfig(
            layers=1,
            heads=4,
            width=64,
            embedding_scale=0.5,
            norm="rms",
            bias=False,
            zero_init=True,  # every block starts as the identity, which keeps thirteen loops trainable
            inject=True,
            outer_norm=True,
            loops=12,
        ),
        train=TrainConfig(
            examples=520_000,
            batch=128,
            optimiser=OptimiserConfig(name="adamw", lr=2e-3, weight_decay=0.1),
            decay=0.7,  # the fall of the learning rate, not its height, turns a noisy solution into an exact one
            # A low gate: once lookahead 4 or 5 is learned the rest follows, and waiting for accuracy there is wasted.
            curriculum=CurriculumConfig(on=True, gate=0.8, measure="mix"),
            loops=LoopsConfig(draw="uniform", low=1, high=4, follow_stage=True),
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
            loops=LoopsConfig(draw="uniform", low=10, high=13),
        ),
    )


@preset("search-demo-star", "laptop")
def search_demo_star() -> Experiment:
    """The same model and budget on star graphs."""
    return trained_on(demo(), distribution="star")


@preset("search-demo-small", "laptop")
def search_demo_small() -> Experiment:
    """The same model and budget on balanced graphs of lookahead up to 5."""
    return trained_on(demo(), lookahead=5)


ROWS = {
    "laptop": {
        "naive": "search-demo-naive",
        "star": "search-demo-star",
        "balanced": "search-demo-balanced",
        "small-lookahead": "search-demo-small",
    },
    "paper": {
        "naive": "search-paper-naive",
        "star": "search-paper-star",
        "balanced": "search-paper",
        "small-lookahead": "search-paper-small",
    },
}

FIGURE = "Saparov et al., Figure 2 (n = 128, 883 million examples)"
PAPER = (
    Expected("naive", "naive", None, "0.99", 0.98, 1.0, FIGURE),
    Expected("naive", "lookahead", 5, "0.26", 0.16, 0.36, FIGURE),
    Expected("naive", "lookahead", 20, "0.49", 0.39, 0.59, FIGURE),
    Expected("star", "naive", None, "0.65", 0.55, 0.75, FIGURE),
    Expected("star", "lookahead", 20, "1.00", 0.98, 1.0, FIGURE),
    Expected("balanced", "naive", None, "0.99", 0.98, 1.0, FIGURE),
    Expected("balanced", "lookahead", 5, "1.00", 0.98, 1.0, FIGURE),
    Expected("balanced", "lookahead", 20, "0.97", 0.95, 1.0, FIGURE),
    Expected("small-lookahead", "lookahead", 13, "0.99", 0.97, 1.0, FIGURE),
    Expected("small-lookahead", "lookahead", 20, "0.49", 0.39, 0.59, FIGURE),
)
# At laptop size the paper has no figure. The bands say what its findings would mean there: training on balanced graphs
# answers everything; training on naive graphs answers naive rows and is no better than chance at the deepest lookahead.
FINDING = "the finding of Figure 2, whose values are of n = 128, at n = 65"
LAPTOP = (
    Expected("naive", "naive", None, "0.99", 0.97, 1.0, FINDING),
    Expected("naive", "lookahead", 9, "0.49 (L = 20)", 0.0, 0.6, FINDING),
    Expected("balanced", "naive", None, "0.99", 0.97, 1.0, FINDING),
    *(
        Expected("balanced", "lookahead", lookahead, paper, 0.97, 1.0, FINDING)
        for lookahead, paper in ((1, "–"), (5, "1.00"), (9, "0.97 (L = 20)"))
    ),
)


@study("search-fig2")
def search_fig2(options: StudyOptions) -> dict[str, Any]:
    """Trained on naive, star or balanced graphs, tested on every lookahead (the search paper's Figure 2)."""
    presets = ROWS[options.scale]
    return compare(
        name="search-fig2",
        title="Trained on, tested on",
        rows={row: find_preset(presets[row]) for row in chosen(options, presets)},
        expected=LAPTOP if options.scale == "laptop" else PAPER,
        options=options,
    )
