"""Experiments that train in a second, and a way to kill one at a chosen moment."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from algoprobe.core.errors import Interrupted
from algoprobe.core.run import RunFolder
from algoprobe.models.config import TransformerConfig
from algoprobe.tasks.multiplication.config import MultiplicationConfig
from algoprobe.tasks.search.config import SearchConfig
from algoprobe.training.config import (
    AuxiliaryConfig,
    CurriculumConfig,
    Experiment,
    LoopsConfig,
    OptimiserConfig,
    TrainConfig,
)


def tiny(**train: object) -> Experiment:
    """A looped model on graphs of five vertices: 30 steps of 16 rows."""
    options = {"examples": 480, "batch": 16, "warmup": 64, "validate_every": 160, "validate_rows": 32} | train
    return Experiment(
        task=SearchConfig(n=20, encoding="packed", test_rows=20),
        model=TransformerConfig(layers=1, heads=2, width=16, inject=True, outer_norm=True, loops=2),
        train=TrainConfig(**options),
    )


# The gate is so low that every look opens the next stage.
OPEN = CurriculumConfig(on=True, gate=0.01, every=7, rows=16, measure="mix")
RECIPES = {
    "plain": tiny(chunks=3),
    "curriculum": tiny(curriculum=OPEN),
    "random loops": tiny(loops=LoopsConfig(draw="uniform", low=1, high=3, follow_stage=True), curriculum=OPEN),
    "sign momentum": tiny(optimiser=OptimiserConfig(name="sign-momentum", lr=1e-3), clip=None),
    "muon": tiny(optimiser=OptimiserConfig(name="muon", lr=0.01), schedule="cosine"),
    "auxiliary": tiny(
        auxiliary=AuxiliaryConfig(target="steps_to_goal", weight=0.5, growth="doubling"),
        loops=LoopsConfig(draw="uniform", low=1, high=4),
        optimiser=OptimiserConfig(name="muon", lr=0.01),
        chunks=3,
    ),
    "embedding channel": tiny(loops=LoopsConfig(loss="every"), chunks=3),
    "reset": tiny(loops=LoopsConfig(draw="uniform", low=1, high=4, loss="from-difficulty")),
    "sophia": tiny(optimiser=OptimiserConfig(name="sophia-g", lr=1e-3, hessian_every=4)),
}
RECIPES["curriculum"] = replace(RECIPES["curriculum"], task=replace(RECIPES["curriculum"].task, n=29))
RECIPES["random loops"] = replace(RECIPES["random loops"], task=replace(RECIPES["random loops"].task, n=29))
# Each stage begins with a new optimiser, and the run ends where the last one passes.
RECIPES["curriculum that ends"] = replace(
    tiny(
        curriculum=replace(OPEN, patience=20, restart=True),
        snapshots=5,
        label_smoothing=0.1,
    ),
    task=RECIPES["curriculum"].task,
)
# The embedding channel needs answers that are tokens.
CHANNEL = TransformerConfig(layers=1, heads=2, width=16, position="learned", output="tied", loops=2)
RECIPES["embedding channel"] = replace(
    RECIPES["embedding channel"],
    task=replace(RECIPES["embedding channel"].task, encoding="triples"),
    model=replace(CHANNEL, recurrence="embedding"),
)
RECIPES["reset"] = replace(
    RECIPES["reset"],
    task=replace(RECIPES["reset"].task, encoding="triples", n=29),
    model=replace(CHANNEL, inject=True, recurrence="reset"),
)
# Products: a chain that goes token by token, each stage with a new optimiser; and running sums read off two heads.
PRODUCTS = MultiplicationConfig(digits=3, digits_b=2, base=5, test_rows=20, shorter=0.3, sparse=0.3)
DECODER = TransformerConfig(layers=2, heads=2, width=16, causal=True, prefix=True)
RECIPES["removal"] = replace(
    tiny(curriculum=CurriculumConfig(on=True, pace=3, first=5, restart=True, measure="mix", rows=16)),
    task=replace(PRODUCTS, chain="implicit", places="kept"),
    model=DECODER,
)
RECIPES["running sums"] = replace(
    tiny(auxiliary=AuxiliaryConfig(target="running_sum", site="heads", heads=(0, 1)), column_rows=16),
    task=replace(PRODUCTS, train_rows=100, shorter=0.0, sparse=0.0),
    model=replace(DECODER, prefix=False),
)


class Silent:
    """Progress that nobody sees."""

    def line(self, line: dict) -> None:
        pass

    def say(self, text: str) -> None:
        pass

    def close(self) -> None:
        pass


def die(*_: object, **__: object) -> None:
    """Kill this process without any chance to clean up."""
    os.kill(os.getpid(), signal.SIGKILL)


def at_call(function, number: int):
    """`function`, but its call `number` kills the process first."""
    calls = iter(range(1, 10**9))

    def wrapped(*arguments, **options):
        return die() if next(calls) == number else function(*arguments, **options)

    return wrapped


def run(
    experiment: Experiment, path: Path, kill: tuple[str, int] | None = None, checkpoint_seconds: float = 0.0
) -> None:
    """Train in this process; `kill` names a moment and how often it may pass before it is the last."""
    from algoprobe.training import loop
    from algoprobe.training.curriculum import Curriculum

    if kill:
        moment, number = kill
        if moment == "step":
            loop.update = at_call(loop.update, number)
        elif moment in ("state.pt", "model.safetensors", "record.json"):
            Path.write_bytes = torn(Path.write_bytes, moment, number)
        elif moment == "rename":
            os.replace = at_call(os.replace, number)
        elif moment == "stage":
            Curriculum.move_to = at_call(Curriculum.move_to, number)
        else:
            raise ValueError(moment)
    loop.train(experiment, RunFolder(path), Silent(), checkpoint_seconds=checkpoint_seconds)


def torn(write, name: str, number: int):
    """`write(path, data)`, but call `number` for a file called `name` writes half of it and kills the process."""
    calls = iter(range(1, 10**9))

    def wrapped(path, data):
        if name in path.name and next(calls) == number:
            write(path, data[: len(data) // 2])
            die()
        return write(path, data)

    return wrapped


def interrupted(experiment: Experiment, folder: Path, monkeypatch, step: int) -> RunFolder:
    """A run that was asked to stop at `step` and went on, which has ended in the weights of one that was not."""
    from algoprobe.training import loop

    whole, cut, steps = RunFolder(folder / "whole"), RunFolder(folder / "cut"), []
    loop.train(experiment, whole, Silent())
    update = loop.update

    def interrupt(*arguments):
        steps.append(1)
        if len(steps) == step:
            os.kill(os.getpid(), signal.SIGTERM)
        return update(*arguments)

    monkeypatch.setattr(loop, "update", interrupt)
    with pytest.raises(Interrupted):
        loop.train(experiment, cut, Silent())
    loop.train(experiment, cut, Silent())
    one, two = (load_file(folder.file("model.safetensors")) for folder in (whole, cut))
    assert all(torch.equal(one[name], two[name]) for name in one)
    return cut
