"""Several runs at once, each in a process of its own; one that fails does not stop the others."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from algoprobe.core.errors import AlgoprobeError, Interrupted
from algoprobe.core.run import RunFolder

from .config import Experiment
from .evaluation import is_scored
from .interrupt import stop_requests
from .loop import is_recorded, prepare


@dataclass(frozen=True)
class Job:
    """One run that somebody wants trained and evaluated."""

    label: str
    """What a person calls it."""
    preset: str
    scale: str
    experiment: Experiment
    folder: RunFolder

    @property
    def done(self) -> bool:
        """Whether it is trained and scored, and all that others read of it is there; going on makes what is not."""
        return is_recorded(self.folder.record) and self.folder.has("model.safetensors") and is_scored(self.folder)


def start(job: Job) -> subprocess.Popen:
    """A process that trains `job` from its `config.json`, and then scores it; its output goes to `train.log`."""
    threads = str(job.experiment.train.threads)
    with open(job.folder.file("train.log"), "ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "algoprobe", "train", str(job.folder.path)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=os.environ | {"OMP_NUM_THREADS": threads},
            preexec_fn=stop_with_parent,
        )


def stop_with_parent(number: int = signal.SIGTERM) -> None:
    """Ask the system to send this process a signal when its parent ends, however it ends (Linux; elsewhere nothing)."""
    set_death_signal = 1
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(set_death_signal, number)


def run_jobs(jobs: Sequence[Job], workers: int, watch: Callable[[Sequence[Job]], None], every: float = 2.0) -> None:
    """Train and score what of `jobs` is not done, `workers` at a time; `watch(running jobs)` is called now and then.

    Raises `Interrupted` when asked to stop (every run has saved), `AlgoprobeError` naming the runs that failed.
    """
    for job in jobs:
        with job.folder.lock() if not job.folder.has("config.json") else contextlib.nullcontext():
            prepare(job.folder, job.experiment, job.preset, job.scale)
    waiting, running, failed = [job for job in jobs if not job.done], {}, []
    with stop_requests() as stop:
        while waiting or running:
            while waiting and len(running) < workers and not stop.requested:
                job = waiting.pop(0)
                running[start(job)] = job
            time.sleep(0.1 if stop.requested else every)
            watch(list(running.values()))
            for process in [p for p in running if p.poll() is not None]:
                job = running.pop(process)
                if process.returncode and not stop.requested:
                    failed.append(job)
            if stop.requested:
                for process in running:
                    process.terminate()
                for process in running:
                    process.wait()
                raise Interrupted("every run is saved")
    if failed:
        reasons = "\n".join(f"  {job.label}: {last_words(job)}" for job in failed)
        raise AlgoprobeError(f"{len(failed)} of {len(jobs)} runs failed:\n{reasons}")


def last_words(job: Job) -> str:
    """The last line that a run's process printed, and where the rest is."""
    log = job.folder.file("train.log")
    lines = log.read_text(errors="replace").strip().splitlines() if log.exists() else []
    return f"{lines[-1] if lines else 'no output'} (all of it: {log})"
