"""Files that are either whole or not there."""

from __future__ import annotations

import contextlib
import errno
import json
import os
from pathlib import Path
from typing import Any

from .errors import AlgoprobeError


def explain(error: OSError, path: Path) -> AlgoprobeError:
    """An error of the file system in words that say what to do."""
    reasons = {
        errno.ENOSPC: "the disk is full; free some space",
        errno.EDQUOT: "the disk quota is used up; free some space",
        errno.EROFS: "the folder is read-only; name another",
        errno.EACCES: "permission denied; name another folder",
        errno.EEXIST: "a file of that name is in the way; name another folder",
        errno.ENOTDIR: "a file stands where a folder is needed; name another folder",
    }
    return AlgoprobeError(f"cannot write {path}: {reasons.get(error.errno or 0, error.strerror or error)}")


def write_bytes(path: Path, data: bytes) -> None:
    """Fill a temporary file beside `path` with `data`, flush it to the disk, then rename it to `path`.

    Whatever happens, `path` holds its old content or its new one, never a part.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(data)
        flush_to_disk(temporary)
        os.replace(temporary, path)
        flush_to_disk(path.parent)
    except OSError as error:
        raise explain(error, path) from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def flush_to_disk(path: Path) -> None:
    """Wait until the file or folder at `path` is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_text(path: Path, text: str) -> None:
    """`text` as UTF-8, atomically."""
    write_bytes(path, text.encode())


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


def read_object(path: Path) -> dict[str, Any]:
    """The JSON object in `path`. Raises `AlgoprobeError` when it holds something else."""
    value = read_json(path)
    if not isinstance(value, dict):
        raise AlgoprobeError(f"{path} is damaged: it holds a {type(value).__name__} where an object is expected")
    return value


def read_json_lines(path: Path) -> list[dict[str, Any]]:
    """The objects in `path`, one a line; a torn last line (the writer was killed) is left out.

    Raises `AlgoprobeError` naming the line when one in the middle is no object.
    """
    if not path.exists():
        return []
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError as error:
        raise AlgoprobeError(f"cannot read {path}: {error.strerror}") from error
    rows = []
    for number, line in enumerate(lines):
        if not line:
            continue
        try:
            row = json.loads(line)
        except json.JSONDecodeError:
            row = None
        if isinstance(row, dict):
            rows.append(row)
        elif number < len(lines) - 1:
            raise AlgoprobeError(f"{path} is damaged: line {number + 1} is not a JSON object")
    return rows
