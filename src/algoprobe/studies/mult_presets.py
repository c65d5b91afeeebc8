"""Presets of multiplication, after *Why Can't Transformers Learn Multiplication?* (arXiv 2510.00184)."""

from __future__ import annotations

from algoprobe.models.config import TransformerConfig
from algoprobe.tasks.multiplication.config import MultiplicationConfig
from algoprobe.training.config import AuxiliaryConfig, Experiment, OptimiserConfig, TrainConfig

from .comparison import changed
from .registry import Scale, preset

SPARSE = 0.6
"""Share of rows with zeros among their digits, where a preset has them."""


def body(width: int, **changes: object) -> TransformerConfig:
    """Two causal blocks that read the operands both ways and start as the identity."""
    fields = {
        "layers": 2,
        "heads": 4,
        "width": width,
        "embedding_scale": width**-0.5,
        "causal": True,
        "prefix": True,
        "norm": "rms",
        "bias": False,
        "activation": "gelu",
        "zero_init": True,
    }
    return TransformerConfig(**(fields | changes))


def looped(width: int) -> TransformerConfig:
    """Those blocks applied twice, with the input added again and the state between normalised, and more heads."""
    return body(width, heads=8, loops=2, inject=True, outer_norm=True)


def regimes(scale: Scale) -> dict[str, str]:
    """The preset of each training regime that is opened, one body for all."""
    return {row: ("mult-" if scale == "laptop" else "mult-paper-") + row for row in ("plain", "implicit", "auxiliary")}


@preset("mult-plain", "laptop")
def mult_plain() -> Experiment:
    """The paper's regimes at toy size, base 5: the answer alone; c_3 and c_4 stay near chance."""
    return Experiment(
        task=MultiplicationConfig(base=5, test_rows=5000),
        model=looped(96),
        train=TrainConfig(
            examples=600_000,
            optimiser=OptimiserConfig(name="muon", lr=0.02, lr_other=2e-3),
            decay=0.5,
            validate_every=50_000,
            column_rows=256,
        ),
    )


@preset("mult-plain-sparse", "laptop")
def mult_plain_sparse() -> Experiment:
    """mult-plain on rows of which six in ten have zeros among their digits."""
    return changed(mult_plain(), task={"sparse": SPARSE}, train={"examples": 500_000})


@preset("mult-auxiliary", "laptop")
def mult_auxiliary() -> Experiment:
    """mult-plain-sparse with a second loss: the running sum of each digit, read off linearly where it is answered."""
    auxiliary = {"target": "running_sum", "weight": 4.0}
    return changed(mult_plain_sparse(), train={"examples": 250_000}, auxiliary=auxiliary)


@preset("mult-explicit", "laptop")
def mult_explicit() -> Experiment:
    """mult-plain with the chain written out, in training and in tests."""
    return changed(mult_plain(), task={"chain": "explicit", "test_rows": 1000}, train={"examples": 100_000})


@preset("mult-implicit", "laptop")
def mult_implicit() -> Experiment:
    """mult-plain-sparse with a chain whose tokens are removed one by one, each when the product is answered right."""
    return changed(
        mult_plain_sparse(),
        task={"chain": "implicit", "places": "kept"},
        train={"examples": 1_000_000, "decay": 0.7},
        curriculum={"on": True, "measure": "mix", "gate": 0.8, "every": 10},
    )


@preset("mult-4x4", "laptop")
def mult_4x4() -> Experiment:
    """Four digits times four in base 10, by running sums and sparse rows: three minutes of one core."""
    return Experiment(
        task=MultiplicationConfig(sparse=SPARSE),
        model=looped(128),
        train=TrainConfig(
            examples=450_000,
            optimiser=OptimiserConfig(name="muon", lr=0.01, lr_other=2e-3),
            decay=0.4,
            auxiliary=AuxiliaryConfig(target="running_sum", weight=4.0),
            validate_every=50_000,
            column_rows=256,
        ),
    )


@preset("mult-4x4-plain", "laptop")
def mult_4x4_plain() -> Experiment:
    """Its twin trained plainly: operands as the paper draws them, and nothing but the answer to learn from."""
    return changed(mult_4x4(), task={"sparse": 0.0}, train={"auxiliary": AuxiliaryConfig()})


def paper_body() -> TransformerConfig:
    """Two layers, four heads, width 768: the smallest for which the authors got the implicit chain to work (§2)."""
    return TransformerConfig(
        layers=2, heads=4, width=768, embedding_scale=0.02, causal=True, norm="layer", activation="gelu-tanh", bias=True
    )


@preset("mult-paper-plain", "paper")
def mult_paper_plain() -> Experiment:
    """The paper's size: 808,000 fixed rows of four digits times four, AdamW at 5e-5, batches of 32."""
    return Experiment(
        task=MultiplicationConfig(train_rows=808_000, test_rows=1000),
        model=paper_body(),
        train=TrainConfig(
            examples=20_000_000,
            batch=32,
            optimiser=OptimiserConfig(name="adamw", lr=5e-5, betas=(0.9, 0.999), weight_decay=0.01),
            schedule="constant",
            warmup=0,
            column_rows=256,
            validate_every=500_000,
        ),
    )


@preset("mult-paper-auxiliary", "paper")
def mult_paper_auxiliary() -> Experiment:
    """The same with two heads of the second layer read for the running sums."""
    return changed(
        mult_paper_plain(),
        train={"examples": 35_000_000},
        auxiliary={"target": "running_sum", "site": "heads", "heads": (0, 1)},
    )


@preset("mult-paper-implicit", "paper")
def mult_paper_implicit() -> Experiment:
    """The same by stepwise internalisation: a token less every 3,156 steps, the optimiser made anew each time."""
    return changed(
        mult_paper_plain(),
        task={"chain": "implicit"},
        train={"examples": 10_504_000},
        curriculum={"on": True, "pace": 3156, "restart": True, "measure": "mix"},
    )


@preset("mult-paper-explicit", "paper")
def mult_paper_explicit() -> Experiment:
    """The same with the chain written out throughout."""
    return changed(mult_paper_plain(), task={"chain": "explicit"}, train={"examples": 808_000})
