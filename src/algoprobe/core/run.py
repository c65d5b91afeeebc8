"""The run folder: where a run keeps everything that others read.

runs/<preset>/<digest>/
  config.json        the resolved experiment; the only thing that resuming and reporting read
  record.json        how it was made: command, revision, versions, machine, precision, task card, leak report
  metrics.jsonl      one object a line: training, validation and curriculum
  model.safetensors  the weights at the last checkpoint
  state.pt           all that resuming needs
  evaluation.json    test cells; examples.json: worked examples
  report/            the page and its figures
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from .errors import AlgoprobeError, UsageError, nearest
from .files import explain, flush_to_disk, read_json_lines, read_object, write_json, write_text


@dataclass(frozen=True)
class RunFolder:
    """A run on disk."""

    path: Path

    def file(self, name: str) -> Path:
        """The path of one of the run's files."""
        return self.path / name

    def has(self, name: str) -> bool:
        """Whether the file is there."""
        return self.file(name).exists()

    def read(self, name: str) -> dict[str, Any]:
        """A JSON object of the run."""
        return read_object(self.file(name))

    def write(self, name: str, value: Any) -> None:
        """Replace a JSON file of the run, atomically."""
        write_json(self.file(name), value)

    @property
    def record(self) -> dict[str, Any]:
        """`record.json`, or an empty dict before there is one."""
        return self.read("record.json") if self.has("record.json") else {}

    @property
    def metrics(self) -> list[dict[str, Any]]:
        """The lines of `metrics.jsonl`."""
        return read_json_lines(self.file("metrics.jsonl"))

    def append(self, name: str, lines: list[dict[str, Any]]) -> None:
        """Add JSON objects, one a line, to a file of the run."""
        path = self.file(name)
        try:
            with open(path, "a", encoding="utf-8") as file:
                file.write("".join(json.dumps(line) + "\n" for line in lines))
        except OSError as error:
            raise explain(error, path) from error

    def flush_metrics(self) -> int:
        """Wait until `metrics.jsonl` is on the disk; how many lines it has."""
        path = self.file("metrics.jsonl")
        try:
            if not path.exists():
                return 0
            flush_to_disk(path)
            return path.read_bytes().count(b"\n")
        except OSError as error:
            raise explain(error, path) from error

    def truncate_metrics(self, step: int) -> None:
        """Forget what was logged after `step`: the steps are about to be made again."""
        kept = [line for line in self.metrics if line.get("step", 0) <= step]
        write_text(self.file("metrics.jsonl"), "".join(json.dumps(line) + "\n" for line in kept))

    @contextlib.contextmanager
    def lock(self, patience: float = 3.0) -> Iterator[None]:
        """Hold the folder for writing. The operating system lets go of it however the process ends.

        Raises `AlgoprobeError` when another process still holds it after `patience` seconds.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            # Without a buffer, which closing would write once more, and fail once more, on a full disk.
            handle = open(self.file("lock"), "a+b", buffering=0)  # noqa: SIM115
        except OSError as error:
            raise explain(error, self.path) from error
        with handle:
            began = time.monotonic()
            while not held(handle):
                if time.monotonic() - began > patience:
                    handle.seek(0)
                    owner = handle.read().decode(errors="replace").strip() or "another process"
                    raise AlgoprobeError(f"{self.path} is being written by {owner}; wait for it, or stop it")
                time.sleep(0.1)
            for left_over in self.path.glob(".*.tmp"):
                left_over.unlink(missing_ok=True)
            try:
                handle.truncate(0)
                handle.write(f"process {os.getpid()} on {os.uname().nodename}".encode())
            except OSError as error:
                raise explain(error, self.file("lock")) from error
            yield


def held(handle: IO[bytes]) -> bool:
    """Whether this process has, or just got, the lock on an open file."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def resource(kind: str) -> Path:
    """The folder `benchmarks` or `zoo`: in a checkout at its root, in an installed package inside it."""
    package = Path(__file__).resolve().parents[1]
    installed, checkout = package / f"_{kind}", package.parents[1] / kind
    return installed if installed.is_dir() else checkout


def find_run(name: str | Path) -> RunFolder:
    """The run folder at a path, of a preset with a single run (`runs/<preset>`), or of a committed model (`zoo:NAME`).

    Raises `UsageError` with the nearest spelling when there is none.
    """
    text = str(name)
    if text.startswith("zoo:"):
        zoo = resource("zoo")
        known = sorted(path.parent.name for path in zoo.glob("*/config.json"))
        if text[4:] not in known:
            names = ", ".join(f"zoo:{k}" for k in known) or "(none in this version)"
            hint = nearest(text, [f"zoo:{k}" for k in known])
            raise UsageError(f"run: {text!r} is not in the zoo; allowed: {names}.{hint}")
        return RunFolder(zoo / text[4:])
    if text.startswith("handmade:"):
        raise UsageError(f"run: {text!r} was built by hand and has no run folder; only `algoprobe explain` opens it")
    if not text.strip():
        raise UsageError("run: '' is no name; a run folder or zoo:NAME is wanted")
    path = Path(name)
    if (path / "config.json").is_file():
        return RunFolder(path)
    inside = sorted(found.parent for found in path.glob("*/config.json"))
    if len(inside) == 1:
        return RunFolder(inside[0])
    if inside:
        raise UsageError(f"run: {text} holds {len(inside)} runs; name one: {', '.join(map(str, inside))}")
    around = sorted(str(found.parent) for found in Path("runs").glob("*/*/config.json"))
    what = "has no config.json" if path.is_dir() else "is not there"
    raise UsageError(f"run: {text!r} {what}; a run folder or zoo:NAME is wanted.{nearest(text, around)}")
