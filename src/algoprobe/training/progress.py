"""What a person sees while a run trains: a bar on a terminal, a line now and then in a log."""

from __future__ import annotations

import contextlib
import sys
import time
from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class Progress(Protocol):
    """Receives each line that goes into `metrics.jsonl`, and plain messages."""

    def line(self, line: dict[str, Any]) -> None:
        """A training, validation or curriculum line."""

    def say(self, text: str) -> None:
        """Something worth a sentence."""

    def close(self) -> None:
        """The run is over or interrupted."""


def clock(seconds: float) -> str:
    """`75` as `1:15`, `3725` as `1:02:05`."""
    minutes, second = divmod(max(0, int(seconds)), 60)
    hour, minute = divmod(minutes, 60)
    return f"{hour}:{minute:02}:{second:02}" if hour else f"{minute}:{second:02}"


def validation_text(cells: list[dict[str, Any]]) -> str:
    """`lookahead 0 1.00 · 1 0.98 · …`, the accuracies of a validation in one line."""
    by_value = " · ".join(f"{cell['value']} {cell['accuracy']:.2f}" for cell in cells)
    return f"{cells[0]['axis']} {by_value}" if cells else ""


def describe(line: dict[str, Any], total: int) -> str:
    """A training line in words: share done, rate, loss, accuracy, time left."""
    left = (total - line["examples"]) / line["rate"] if line["rate"] else 0
    parts = [
        f"{line['examples']:,} of {total:,} examples",
        f"{line['rate']:,.0f}/s",
        f"loss {line['loss']:.3f}",
        f"accuracy {line['accuracy']:.2f}",
    ]
    if "stage" in line:
        parts.append(f"stage {line['stage']}")
    return ", ".join(parts) + f", {clock(left)} left"


def say(text: str) -> None:
    """Print on standard error, if anybody listens: a closed pipe or a full disk there must not stop the work."""
    with contextlib.suppress(OSError, ValueError):
        print(text, file=sys.stderr, flush=True)


class LogProgress:
    """One line every `seconds`, and one for each validation and curriculum step; on standard error."""

    def __init__(self, total: int, seconds: float = 15.0) -> None:
        self.total, self.seconds, self.last = total, seconds, 0.0

    def line(self, line: dict[str, Any]) -> None:
        if "validation" in line:
            self.say(f"validation at {line['examples']:,}: {validation_text(line['validation'])}")
        elif line.get("next_stage", line.get("stage")) != line.get("stage"):
            self.say(f"stage {line['next_stage']} from {line['examples']:,} examples")
        elif "loss" in line and time.monotonic() - self.last >= self.seconds:
            self.last = time.monotonic()
            self.say(describe(line, self.total))

    def say(self, text: str) -> None:
        say(text)

    def close(self) -> None:
        pass


class BarProgress(LogProgress):
    """A bar with rate, loss, accuracy and time left; validations scroll above it."""

    def __init__(self, total: int) -> None:
        super().__init__(total)
        from rich.console import Console
        from rich.progress import BarColumn, TaskProgressColumn, TextColumn
        from rich.progress import Progress as RichProgress

        self.bar = RichProgress(
            BarColumn(bar_width=24),
            TaskProgressColumn(),
            TextColumn("{task.description}"),
            console=Console(stderr=True),
        )
        self.task = self.bar.add_task("starting", total=total)
        self.bar.start()

    def line(self, line: dict[str, Any]) -> None:
        if "loss" in line:
            text = describe(line, self.total)
            self.bar.update(self.task, completed=line["examples"], description=text.partition(" examples, ")[2])
        else:
            super().line(line)

    def say(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):
            self.bar.console.print(text, highlight=False)

    def close(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            self.bar.stop()


def progress_for(total: int) -> Progress:
    """A bar on a terminal, lines elsewhere."""
    return BarProgress(total) if sys.stderr and sys.stderr.isatty() else LogProgress(total)
