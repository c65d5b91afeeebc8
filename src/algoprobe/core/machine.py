"""What a run was made on and with: revision, versions, machine, devices and dtypes."""

from __future__ import annotations

import ctypes
import hashlib
import importlib.metadata
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

from .errors import UsageError, unknown

PACKAGES = ("algoprobe", "torch", "numpy", "numba", "safetensors", "altair", "vl-convert-python")


def git_revision() -> dict[str, str | None]:
    """Revision of the checkout this package runs from and a digest of its uncommitted changes; None outside git."""
    root = Path(__file__).resolve().parents[3]

    def git(*arguments: str) -> str | None:
        try:
            done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, timeout=20)
        except (OSError, subprocess.SubprocessError):
            return None
        return done.stdout if done.returncode == 0 else None

    if not (root / ".git").exists():
        return {"revision": None, "diff": None}
    revision, diff = git("rev-parse", "HEAD"), git("diff", "HEAD", "--", "src", "benchmarks", "pyproject.toml")
    changed = hashlib.blake2b(diff.encode(), digest_size=8).hexdigest() if diff else None
    return {"revision": revision.strip() if revision else None, "diff": changed}


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that decide a run's bits."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def cpu() -> tuple[str, tuple[str, ...]]:
    """Processor name and those of its instruction sets that matter here."""
    name, flags = platform.processor() or platform.machine(), set()
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            field, _, value = line.partition(":")
            if field.strip() == "model name":
                name = value.strip()
            elif field.strip() == "flags":
                flags = set(value.split())
                break
    except OSError:
        pass
    return name, tuple(flag for flag in ("amx_bf16", "avx512_bf16", "avx512f", "avx2") if flag in flags)


def machine_class() -> str:
    """The processor and its widest relevant instruction set: what a speed or a bit pattern can depend on."""
    name, flags = cpu()
    return f"{name} with {flags[0]}" if flags else name


def machine() -> dict[str, Any]:
    """A description of this machine for the record."""
    name, flags = cpu()
    return {
        "class": machine_class(),
        "processor": name,
        "instructions": list(flags),
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.release()}",
    }


def provenance() -> dict[str, Any]:
    """Revision, versions and machine, for `record.json`."""
    return {"git": git_revision(), "versions": versions(), "machine": machine()}


def keep_freed_memory() -> None:
    """Tell the C library to keep freed memory for the next allocation instead of giving it back to the system.

    A step frees and allocates the same megabytes again; fresh pages cost a fault each, up to a fifth of a CPU step.
    Does nothing where the C library is not glibc.
    """
    trim_threshold, mmap_threshold = -1, -3
    try:
        library = ctypes.CDLL("libc.so.6")
        library.mallopt(mmap_threshold, 32 * 2**20)  # the largest that glibc takes
        library.mallopt(trim_threshold, 2**30)
    except (OSError, AttributeError):
        pass


def resolve_device(name: str):
    """The torch device called `name`; `auto` takes an accelerator if there is one.

    Raises `UsageError` when the device is not there.
    """
    import torch

    present = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if name == "auto":
        return torch.device("cuda" if present["cuda"] else "cpu")
    kind, _, number = name.partition(":")
    if kind not in present or (number and (kind != "cuda" or not number.isdigit())):
        raise unknown("device", name, ["auto", *present, "cuda:0"])
    if not present[kind] or (kind == "cuda" and number and int(number) >= torch.cuda.device_count()):
        here = ", ".join(k for k, there in present.items() if there)
        raise UsageError(f"device: {name!r} is not on this machine; here: {here}")
    return torch.device(name)


def resolve_precision(precision: str, attention: str, device) -> tuple[str, str]:
    """The dtype and attention path that `auto` stands for on `device`: a rule, so that a rerun takes the same bits.

    On a CPU with bfloat16 products, bfloat16 with explicit attention (`algoprobe bench step` measures all four ways);
    on other CPUs float32 and the fused kernel; on CUDA bfloat16 and the fused kernel.
    """
    if precision == "auto":
        fast = device.type == "cuda" or (device.type == "cpu" and {"amx_bf16", "avx512_bf16"} & set(cpu()[1]))
        precision = "bfloat16" if fast else "float32"
    if attention == "auto":
        attention = "explicit" if device.type == "cpu" and precision == "bfloat16" else "fused"
    return precision, attention
