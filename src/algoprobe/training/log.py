"""When a run logs what, and reading all of it back."""

from __future__ import annotations

from typing import Any

from algoprobe.core.errors import AlgoprobeError
from algoprobe.core.run import RunFolder

from .config import Experiment, TrainConfig

LOG_EVERY = 10
"""Steps between two lines of losses."""


def is_logged(step: int, last: bool) -> bool:
    """Whether the losses are logged after `step` steps; always after the `last` one."""
    return last or step % LOG_EVERY == 0


def is_validated(config: TrainConfig, step: int, last: bool) -> bool:
    """Whether held-out rows are answered after `step` steps; always after the `last` one."""
    examples = step * config.batch
    crossed = examples // config.validate_every > (examples - config.batch) // config.validate_every
    return last or crossed


def whole_log(experiment: Experiment, folder: RunFolder) -> list[dict[str, Any]]:
    """All that a finished run logged.

    Raises `AlgoprobeError` when a line is lost or damaged: whoever asks when something was learned, or on which rows a
    run was trained, must not take a gap for an answer.
    """
    lines = folder.metrics
    examples = folder.record.get("examples", experiment.train.steps * experiment.train.batch)
    problem = next((text for line in lines if (text := damage(experiment, line))), None)
    problem = problem or gap(experiment, lines, examples // experiment.train.batch)
    if problem:
        raise AlgoprobeError(
            f"{folder.file('metrics.jsonl')} {problem}; delete {folder.path}, and the same command trains it again"
        )
    return lines


def damage(experiment: Experiment, line: dict[str, Any]) -> str | None:
    """What is wrong with a line of the log, in words, if anything is."""
    step, most = line.get("step"), experiment.train.steps
    if type(step) is not int or not 1 <= step <= most or line.get("examples") != step * experiment.train.batch:
        return f"is damaged: a line has step {step!r} and {line.get('examples')!r} examples"
    for name, kinds in {"loops": int, "next_stage": int, "cpu_seconds": (int, float)}.items():
        if name in line and not (isinstance(line[name], kinds) and line[name] >= 0):
            return f"is damaged: {name} is {line[name]!r} at step {step}"
    cells = line.get("validation", [])
    numbers = isinstance(cells, list) and all(
        isinstance(cell, dict) and isinstance(cell.get("value"), int) and isinstance(cell.get("accuracy"), int | float)
        for cell in cells
    )
    return None if numbers else f"is damaged: the validation at step {step} is none"


def gap(experiment: Experiment, lines: list[dict[str, Any]], steps: int) -> str | None:
    """Which line the log of a run of `steps` steps lacks, in words, if any."""
    config = experiment.train
    found = {name: {line["step"] for line in lines if name in line} for name in ("loss", "loops", "validation")}
    for step in range(1, steps + 1):
        if is_logged(step, step == steps) and not (step in found["loss"] and step in found["loops"]):
            return f"has lost the line of step {step}"
        if is_validated(config, step, step == steps) and step not in found["validation"]:
            return f"has lost the validation at step {step}"
    if config.curriculum.on:
        stage, last = config.curriculum.start, experiment.task.build().stages()
        moves = {line["step"]: line["next_stage"] for line in lines if "next_stage" in line}
        for step in looks(config, steps):
            if stage == last and not config.curriculum.patience:
                break
            if moves.get(step) not in (stage, min(stage + 1, last)):
                return f"has lost the curriculum's look at step {step}"
            stage = moves[step]
    return None


def looks(config: TrainConfig, steps: int) -> range:
    """After which of `steps` steps the curriculum looks, while there is a stage to come."""
    curriculum = config.curriculum
    if not curriculum.pace:
        return range(curriculum.every, steps + 1, curriculum.every)
    return range(curriculum.first or curriculum.pace, steps + 1, curriculum.pace)
