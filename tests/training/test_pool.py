"""Runs in processes of their own outlive nobody and lose nothing."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from algoprobe.core.run import RunFolder

SCRIPT = """
import sys
from pathlib import Path
from algoprobe.core.run import RunFolder
from algoprobe.training.pool import Job, run_jobs
from tests.training.tiny import tiny

long = tiny(examples=16 * 100_000)
run_jobs([Job("long", "toy", "laptop", long, RunFolder(Path(sys.argv[1])))], 1, lambda _: None)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the system tells children of their parent's end on Linux only")
def test_a_run_whose_parent_is_killed_saves_and_ends(tmp_path):
    folder = RunFolder(tmp_path / "run")
    parent = subprocess.Popen([sys.executable, "-c", SCRIPT, str(folder.path)])
    for _ in range(600):
        if folder.has("metrics.jsonl") and folder.metrics:
            break
        time.sleep(0.1)
    parent.kill()
    parent.wait()
    for _ in range(300):
        if folder.record.get("status") == "interrupted":
            break
        time.sleep(0.1)
    assert folder.record["status"] == "interrupted" and folder.record["examples"] > 0
    with folder.lock(patience=20):
        assert folder.has("state.pt")
