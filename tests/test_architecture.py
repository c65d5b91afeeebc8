"""Traffic flows downwards only, and what must stay light stays light."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "algoprobe"
BELOW = {
    "core": set(),
    "tasks": {"core"},
    "models": {"core"},
    "training": {"core", "tasks", "models"},
    "probes": {"core", "tasks", "models"},
    "report": {"core", "tasks"},
    "studies": {"core", "options", "tasks", "models", "training", "probes", "report"},
}
BELOW["sweeps"] = {*BELOW, "studies"}
BELOW["options"] = {"core"}
BELOW["cli"] = {*BELOW, "sweeps"}
BELOW["__main__"] = {"cli"}


def imported_rooms(source: str, package: str) -> set[str]:
    """Rooms that a module imports, anywhere in it; `package` is the module's own package, for relative imports."""
    rooms = set()
    for node in ast.walk(ast.parse(source)):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parent = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*parent, *([base] if base else [])])
            names = [base] if base != "algoprobe" else [f"algoprobe.{alias.name}" for alias in node.names]
        rooms |= {name.split(".")[1] for name in names if name.startswith("algoprobe.")}
    return rooms


def upward_imports(path: Path, source: str) -> set[str]:
    """Rooms that the module at `path` imports although it may not."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    room = parts[0]
    return imported_rooms(source, ".".join(["algoprobe", *parts[:-1]])) - BELOW[room] - {room}


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_flow_downwards(path):
    if path != PACKAGE / "__init__.py":
        assert upward_imports(path, path.read_text()) == set()


def test_an_upward_import_is_found():
    path = PACKAGE / "models" / "parts" / "block.py"
    assert upward_imports(path, "from algoprobe.tasks.batch import Batch") == {"tasks"}
    assert upward_imports(path, "def f():\n    from ...tasks import batch") == {"tasks"}
    assert upward_imports(path, "import algoprobe.training.loop") == {"training"}
    assert upward_imports(path, "from algoprobe import studies") == {"studies"}
    assert upward_imports(path, "from ..config import TransformerConfig") == set()


HEAVY = ("torch", "numba", "altair", "pyarrow", "rich.progress")


def test_help_and_listing_load_nothing_heavy():
    code = (
        "import sys, json, contextlib, io\n"
        "from algoprobe.cli import main\n"
        "with contextlib.redirect_stdout(io.StringIO()):\n"
        "    for words in (['--help'], ['list'], ['train'], ['train', 'search-paper', '--help']):\n"
        "        try: main(words)\n"
        "        except SystemExit: pass\n"
        f"print(json.dumps([name for name in {HEAVY!r} if name in sys.modules]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == []
