"""The training loop: reads top to bottom, loses nothing, repeats to the bit.

Every step is a pure function of the state before it, so a run that is killed and started again ends in the same bits
(same machine class, same number of threads).
"""

from __future__ import annotations

import math
import os
import time
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.optim import Optimizer

from algoprobe.core.config import digest, to_dict
from algoprobe.core.errors import AlgoprobeError, Interrupted, UsageError
from algoprobe.core.machine import keep_freed_memory, provenance, resolve_device
from algoprobe.core.run import RunFolder

from .auxiliary import Auxiliary
from .checkpoint import damaged, first_line, load_state, load_weights, save_state, save_weights
from .columns import column_dynamics
from .config import Experiment
from .curriculum import Curriculum
from .evaluation import validate
from .forward import Arithmetic
from .interrupt import stop_requests
from .load import read_experiment
from .log import is_logged, is_validated
from .objective import first_loops
from .optimisers import build
from .progress import Progress
from .regression import Regression
from .schedule import draw_loops, learning_rate_factor, recommended_loops
from .snapshots import marks, snapshot_file
from .step import update
from .window import Window

CARD_ROWS = 10_000


def train(
    experiment: Experiment,
    folder: RunFolder,
    progress: Progress,
    *,
    preset: str = "custom",
    scale: str = "laptop",
    command: str | None = None,
    checkpoint_seconds: float = 60.0,
) -> None:
    """Train `experiment` in `folder` to the end of its budget, going on from the last checkpoint if there is one.

    `preset`, `scale` and `command` (what makes the run again) are for the record and change nothing.
    Raises `Interrupted`, after saving, when the process was asked to stop.
    """
    experiment.check()
    resolve_device(experiment.train.device)
    with folder.lock():
        prepare(folder, experiment, preset, scale)
        config, seeds = experiment.train, experiment.seeds
        settle(config.threads)
        run = State.begin(experiment, folder, progress, command)
        if run.ended:
            run.repair()
            progress.say(f"{folder.path} is trained already")
            return
        model, task, curriculum, arithmetic = run.model, run.curriculum.full, run.curriculum, run.arithmetic
        kept_after = marks(config)
        if kept_after:
            snapshot_file(folder, 0)  # what stands in the way of its folder is known before any work
        saved, started, resumed_at = time.monotonic(), time.monotonic(), run.step

        with stop_requests() as stop:
            while not run.ended:
                indices = np.arange(run.step * config.batch, (run.step + 1) * config.batch)
                batch = curriculum.task.sample("train", seeds.data, indices)
                loops = draw_loops(config.loops, experiment.model.loops, curriculum.stage, seeds.train, run.step)
                factor = learning_rate_factor(config, run.step, curriculum.began if config.curriculum.restart else 0)
                model.train()
                steps = run.auxiliary.targets(curriculum.task, batch) if run.auxiliary else None
                result = update(
                    model, run.optimisers, batch, loops, factor, config, arithmetic, run.step, seeds.train,
                    run.auxiliary, steps, first_loops(config.loops, batch, task.stage_axis),
                )  # fmt: skip
                run.window.add(result)
                run.step += 1
                examples, lines, stage = run.step * config.batch, [], curriculum.stage
                look = curriculum.look(model, arithmetic, run.loops, run.step)
                end = run.ended

                if is_logged(run.step, end):
                    rate = (run.step - resumed_at) * config.batch / (time.monotonic() - started)
                    lines.append(
                        run.window.close()
                        | {
                            "accuracy": float(curriculum.task.grade(batch, result.answered(batch)).mean()),
                            "learning_rate": config.optimiser.lr * factor,
                            "stage": stage,
                            "loops": loops,
                            "rate": round(rate, 1),
                            **run.clock.spent(),
                        }
                    )
                    if not math.isfinite(lines[0]["loss"]):
                        raise AlgoprobeError(f"the loss is not finite at step {run.step}; lower train.optimiser.lr")
                if look:
                    lines.append(look)
                    if curriculum.began == run.step and config.curriculum.restart:
                        run.optimisers = build(config.optimiser, model, run.auxiliary)
                if is_validated(config, run.step, end):
                    cells = validate(model, task, seeds.data, config.validate_rows, arithmetic, run.loops)
                    lines.append({"validation": cells})
                    if config.column_rows:
                        found = column_dynamics(model, task, seeds.data, config.column_rows, arithmetic, run.loops)
                        lines.append({"columns": found})
                if run.step in kept_after or (end and kept_after):
                    save_weights(snapshot_file(folder, run.step), model, digest(experiment))

                if lines:
                    lines = [{"step": run.step, "examples": examples} | line for line in lines]
                    folder.append("metrics.jsonl", lines)
                    for line in lines:
                        progress.line(line)
                if stop.requested and not end:
                    run.save("interrupted")
                    raise Interrupted(f"saved at {examples:,} examples in {folder.path}")
                if time.monotonic() - saved >= checkpoint_seconds and not end:
                    run.save("running")
                    saved = time.monotonic()
            run.save("finished")


@dataclass
class Clock:
    """Seconds spent on the run, earlier sittings included."""

    cpu: float = 0.0
    wall: float = 0.0
    began: tuple[float, float] = field(default_factory=lambda: (time.process_time(), time.monotonic()))

    def spent(self) -> dict[str, float]:
        """Processor and wall seconds so far."""
        cpu, wall = time.process_time() - self.began[0], time.monotonic() - self.began[1]
        return {"cpu_seconds": round(self.cpu + cpu, 3), "wall_seconds": round(self.wall + wall, 3)}


@dataclass
class State:
    """All that a step changes, and how it is kept."""

    experiment: Experiment
    folder: RunFolder
    arithmetic: Arithmetic
    curriculum: Curriculum
    model: nn.Module
    auxiliary: Auxiliary | Regression | None
    """Heads of the auxiliary loss: they are trained and kept with the state, and are no part of the model."""
    optimisers: list[Optimizer]
    record: dict[str, Any]
    """What `record.json` holds; written whole each time, so that a lost one comes back."""
    clock: Clock = field(default_factory=Clock)
    window: Window = field(default_factory=Window)
    step: int = 0

    @classmethod
    def begin(cls, experiment: Experiment, folder: RunFolder, progress: Progress, command: str | None) -> State:
        """The state at the last checkpoint, or at the start."""
        config, saved = experiment.train, None
        if folder.has("state.pt"):
            saved = load_state(folder.file("state.pt"), digest(experiment))
        arithmetic = Arithmetic.resolve(config, saved and saved["precision"])
        curriculum = Curriculum(config.curriculum, experiment.task.build(), experiment.seeds.data)
        model = arithmetic.place(experiment.model.build(curriculum.full.sizes, experiment.seeds.init))
        auxiliary = None
        if config.auxiliary.on:
            task = curriculum.full
            if config.auxiliary.target in task.summed:
                auxiliary = Regression.seeded(experiment, task).to(arithmetic.device)
            else:
                auxiliary = Auxiliary.seeded(experiment, task.sizes).to(arithmetic.device)
        optimisers = build(config.optimiser, model, auxiliary)
        run = cls(experiment, folder, arithmetic, curriculum, model, auxiliary, optimisers, folder.record)
        if saved is not None:
            run.restore(saved)
        if not {"card", "leaks", "machine", "parameters"} <= run.record.keys():
            if saved is not None:
                progress.say(f"{folder.file('record.json')} was lost and is made anew")
            run.record = {"command": command} | run.new_record()
        if not run.ended:
            folder.truncate_metrics(run.step)
        if len(folder.metrics) < (saved or {}).get("lines", 0):
            progress.say(f"{folder.file('metrics.jsonl')} has lost lines; the curves will have a gap")
        if saved is None:
            folder.write("record.json", run.record)
        elif not run.ended:
            progress.say(f"going on in {folder.path} from {run.step * config.batch:,} examples")
        return run

    def restore(self, saved: dict[str, Any]) -> None:
        """Take over a checkpoint. Raises `AlgoprobeError` when its parts do not fit."""
        try:
            self.model.load_state_dict(saved["model"])
            if self.auxiliary:
                self.auxiliary.load_state_dict(saved["auxiliary"])
            for optimiser, state in zip(self.optimisers, saved["optimisers"], strict=True):
                optimiser.load_state_dict(state)
            if not 0 <= saved["step"] <= self.experiment.train.steps:
                raise ValueError(f"step {saved['step']} is outside the run")
            self.curriculum.restore(**saved["curriculum"])
            self.step, self.window = saved["step"], Window(**saved["window"])
            self.clock = Clock(saved["cpu_seconds"], saved["wall_seconds"])
        except (KeyError, TypeError, ValueError, RuntimeError, AttributeError, UsageError) as error:
            raise damaged(self.folder.file("state.pt"), first_line(error)) from error

    def repair(self) -> None:
        """Of a finished run, write again what was lost or damaged since."""
        try:
            load_weights(self.folder.file("model.safetensors"), self.model, digest(self.experiment))
            whole = is_recorded(self.folder.record)
        except AlgoprobeError:
            self.model.load_state_dict(load_state(self.folder.file("state.pt"), digest(self.experiment))["model"])
            whole = False
        if not whole:
            self.save("finished")

    @property
    def ended(self) -> bool:
        """Whether no step is left: the budget is spent, or the curriculum ended the training."""
        return self.step == self.experiment.train.steps or self.curriculum.ended

    @property
    def loops(self) -> int:
        """The number of loops that held-out rows are answered with."""
        return recommended_loops(self.experiment.train.loops, self.experiment.model.loops, self.curriculum.stage)

    @property
    def precision(self) -> dict[str, str]:
        """Dtype and attention path."""
        return {"dtype": self.arithmetic.dtype, "attention": self.arithmetic.attention}

    def new_record(self) -> dict[str, Any]:
        """`record.json` of a run that starts."""
        task, seed = self.curriculum.full, self.experiment.seeds.data
        return provenance() | {
            "status": "running",
            "examples": 0,
            "parameters": sum(p.numel() for p in self.model.parameters()),
            "precision": self.precision,
            "device": str(self.arithmetic.device),
            "loops": self.loops,
            "card": task.card(seed, CARD_ROWS),
            "leaks": task.leaks(seed, CARD_ROWS),
        }

    def save(self, status: str) -> None:
        """Write metrics, weights, state and record to the disk; refuse weights that are not finite."""
        heads = self.auxiliary.parameters() if self.auxiliary else ()
        if not all(bool(p.isfinite().all()) for p in chain(self.model.parameters(), heads)):
            raise AlgoprobeError(f"weights are not finite after step {self.step}; the checkpoint before it is kept")
        spent, config = self.clock.spent(), digest(self.experiment)
        state = {
            "config": config,
            "step": self.step,
            "curriculum": self.curriculum.state(),
            "precision": self.precision,
            "model": self.model.state_dict(),
            "optimisers": [optimiser.state_dict() for optimiser in self.optimisers],
            "window": self.window.values(),
            "lines": self.folder.flush_metrics(),
        }
        if self.auxiliary:
            state["auxiliary"] = self.auxiliary.state_dict()
        save_weights(self.folder.file("model.safetensors"), self.model, config)
        save_state(self.folder.file("state.pt"), state | spent)
        examples = self.step * self.experiment.train.batch
        self.record |= {"status": status, "examples": examples, "stage": self.curriculum.stage, "loops": self.loops}
        if self.experiment.train.curriculum.on:
            self.record["passed"] = self.curriculum.passed
        self.record |= spent
        self.folder.write("record.json", self.record)


def is_recorded(record: dict[str, Any]) -> bool:
    """Whether `record` is the whole one of a finished run."""
    there = {"machine", "parameters", "examples", "loops", "cpu_seconds", "card", "leaks"}
    return record.get("status") == "finished" and there <= record.keys()


def prepare(folder: RunFolder, experiment: Experiment, preset: str, scale: str) -> None:
    """Write `config.json`, or make sure that the one there is of the same experiment."""
    config = {"preset": preset, "scale": scale, "digest": digest(experiment), "experiment": to_dict(experiment)}
    if not folder.has("config.json"):
        folder.write("config.json", config)
        return
    found = digest(read_experiment(folder))
    if found != config["digest"]:
        raise UsageError(
            f"{folder.path} holds a run of another config (digest {found}, not {config['digest']}); name another folder"
        )


def settle(threads: int) -> None:
    """Make PyTorch take the same path every time (fixed threads, deterministic kernels), and memory cheap."""
    keep_freed_memory()
    torch.set_num_threads(threads)
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True)
