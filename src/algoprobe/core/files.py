"""Files that are either whole or not there."""

from __future__ import annotations

import contextlib
import errno
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .errors import AlgoprobeError


def explain(error: OSError, path: Path) -> AlgoprobeError:
    """An error of the file system in words that say what to do."""
    reasons = {
        errno.ENOSPC: "the disk is full; free some space",
        errno.EDQUOT: "the disk quota is used up; free some space",
        errno.EROFS: "the folder is read-only; choose another with --out",
        errno.EACCES: "permission denied; choose another folder with --out",
    }
    return AlgoprobeError(f"cannot write {path}: {reasons.get(error.errno or 0, error.strerror or error)}")


def write_atomically(path: Path, write: Callable[[Path], None]) -> None:
    """Let `write` fill a temporary file beside `path`, flush it to the disk, then rename it to `path`.

    Whatever happens, `path` holds its old content or its new one, never a part.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write(temporary)
        with open(temporary, "rb") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
        directory = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
    except OSError as error:
        raise explain(error, path) from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """`text` as UTF-8, atomically."""
    write_atomically(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def write_json(path: Path, value: Any) -> None:
    """`value` as indented JSON, atomically. NaN and infinity are errors: not every reader takes them."""
    write_text(path, json.dumps(value, indent=1, allow_nan=False) + "\n")


def read_json(path: Path) -> Any:
    """The JSON value in `path`. Raises `AlgoprobeError` naming the file when it is missing or damaged."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise AlgoprobeError(f"{path} is damaged: it is not JSON ({error})") from error
    except OSError as error:
        raise AlgoprobeError(f"cannot read {path}: {error.strerror}") from error


def read_json_lines(path: Path) -> list[dict[str, Any]]:
    """The objects in `path`, one a line; a torn last line (the writer was killed) is left out."""
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    rows = []
    for number, line in enumerate(lines):
        if not line:
            continue
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError as error:
            if number == len(lines) - 1:
                break
            raise AlgoprobeError(f"{path} is damaged: line {number + 1} is not JSON") from error
    return rows
