"""Figure 5 of *Transformers Struggle to Learn to Search*: how many answers path merging explains.

Laptop scale: one-hot models of six layers, as in the paper, on graphs of up to 12 vertices (n = 41, lookahead 1 to 5),
trained in minutes on one core. Paper scale: n = 128 and the models of Figure 2.
"""

from __future__ import annotations

from dataclasses import replace

from algoprobe.training.config import CurriculumConfig, Experiment, OptimiserConfig, TrainConfig

from .registry import preset
from .search_fig2 import paper, trained_on


def onehot() -> Experiment:
    """The paper's model at n = 41, with a recipe that learns it in a million examples.

    What does it is Muon: an attention that steps from each position to the next is a permutation matrix, all of whose
    singular values are equal, and Muon's updates raise all of them at once.
    """
    experiment = paper()
    return replace(
        experiment,
        task=replace(experiment.task, n=41),
        model=replace(experiment.model, zero_init=True),
        train=TrainConfig(
            examples=1_000_000,
            batch=128,
            optimiser=OptimiserConfig(name="muon", lr=0.01, lr_other=2e-3, weight_decay=0.1),
            decay=0.6,
            curriculum=CurriculumConfig(on=True, gate=0.8, measure="mix"),
            validate_every=50_000,
        ),
    )


@preset("search-onehot", "laptop")
def search_onehot() -> Experiment:
    """The paper's one-hot model on graphs of up to 12 vertices: every lookahead in minutes on one core."""
    return onehot()


@preset("search-onehot-naive", "laptop")
def search_onehot_naive() -> Experiment:
    """The same model and budget on naive graphs."""
    experiment = trained_on(onehot(), distribution="naive")
    # Naive graphs have no order of difficulty to walk through.
    return replace(experiment, train=replace(experiment.train, curriculum=CurriculumConfig(on=False)))


@preset("search-onehot-small", "laptop")
def search_onehot_small() -> Experiment:
    """The same model and budget on balanced graphs of lookahead up to 3."""
    return trained_on(onehot(), lookahead=3)
