"""Curricula that move on held-out accuracy."""

from __future__ import annotations

import numpy as np
from torch import nn

from algoprobe.tasks.batch import Batch
from algoprobe.tasks.task import Task

from .config import CurriculumConfig
from .forward import Arithmetic, answers


class Curriculum:
    """Walks through a task's difficulties: stage c trains on difficulties up to c, so earlier ones are replayed."""

    def __init__(self, config: CurriculumConfig, task: Task, seed: int) -> None:
        self.config, self.full, self.seed = config, task, seed
        self.last = task.stages()
        self.stage = min(config.start, self.last) if config.on else self.last
        self.began = 0
        """Steps before the stage."""
        self.passed = 0
        """The last stage whose held-out rows were answered right often enough, or whose time is over; 0: none."""
        self.ended = False
        """Whether `patience` ends the training here."""
        self.task = task.at_stage(self.stage) if config.on else task
        self._held_out: Batch | None = None

    def move_to(self, stage: int) -> None:
        """Train at `stage` from now on."""
        if stage != self.stage:
            self.stage, self._held_out = stage, None
            self.task = self.full.at_stage(stage)

    @property
    def held_out(self) -> Batch:
        """Rows that decide about the next stage: from the validation stream, never trained on."""
        if self._held_out is None:
            self._held_out = self._draw_held_out()
        return self._held_out

    def _draw_held_out(self) -> Batch:
        rows = self.config.rows
        if self.config.measure == "mix":
            return self.task.sample("validation", self.seed, np.arange(rows))
        axis, found, start = self.task.stage_axis, [], 0
        while len(found) < rows:
            batch = self.task.sample("validation", self.seed, np.arange(start, start + 4 * rows))
            found.extend(batch.index[batch.axes[axis] == self.stage])
            start += 4 * rows
        return self.task.sample("validation", self.seed, np.array(found[:rows]))

    def look(self, model: nn.Module, arithmetic: Arithmetic, loops: int, step: int) -> dict | None:
        """After `step` steps: None, or when it is time the held-out accuracy, having moved on if it passed.

        With `patience` it also notes when training is to end.
        """
        config = self.config
        if not config.on or not self.due(step) or (self.stage == self.last and not config.patience):
            return None
        batch = self.held_out
        accuracy = float(self.task.grade(batch, answers(model, batch, arithmetic, loops)).mean())
        look = {"stage": self.stage, "held_out": accuracy}
        if accuracy >= config.gate or config.pace:
            self.passed, self.began = self.stage, step
            self.ended = bool(config.patience) and self.stage == self.last
            self.move_to(min(self.stage + 1, self.last))
        elif config.patience and step - self.began >= config.patience:
            self.ended = True
        return look | {"next_stage": self.stage}

    def due(self, step: int) -> bool:
        """Whether it is time for a look after `step` steps: now and then, or when the stage's own time is over."""
        config = self.config
        if not config.pace:
            return step % config.every == 0
        return step - self.began == (config.first or config.pace if self.stage == config.start else config.pace)

    def state(self) -> dict[str, int | bool]:
        """What a checkpoint keeps."""
        return {name: getattr(self, name) for name in ("stage", "began", "passed", "ended")}

    def restore(self, stage: int, began: int, passed: int, ended: bool) -> None:
        """Go on from a checkpoint. Raises `UsageError` on a stage that the task lacks."""
        self.move_to(stage)
        self.began, self.passed, self.ended = began, passed, ended
