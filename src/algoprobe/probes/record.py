"""Recording what sites hand on, within a memory budget."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from algoprobe.core.errors import UsageError, outside

from .sites import Address, find_sites, hooked

BUDGET = 2**30
"""Bytes that a recording keeps in memory unless told otherwise."""


class NotRecorded(UsageError, KeyError):
    """A recording was asked for an address that it does not hold; also a `KeyError`, as of any mapping."""

    def __init__(self, asked: object, known: list[Address]) -> None:
        if not isinstance(asked, tuple):
            what = f'recording: {asked!r} is no address; give (site, loop), as in ("blocks.0.resid_post", 0)'
        else:
            shown = ", ".join(map(str, known[:3])) + (", …" if len(known) > 3 else "")
            what = f"recording: {asked!r} was not recorded; it holds {len(known)} addresses ({shown})"
        super().__init__(what)

    __str__ = UsageError.__str__


class Recording(Mapping[Address, Tensor]):
    """What each (site, loop) handed on in the last forward pass that reached it.

    The first `budget` bytes stay in memory; tensors beyond that wait in a temporary folder and are read when asked for.
    """

    def __init__(self, budget: int, folder: Path) -> None:
        self._budget, self._folder = budget, folder
        self._kept: dict[Address, Tensor] = {}
        self._spilled: dict[Address, Path] = {}
        self._bytes = self._files = 0
        self._closed = False

    def put(self, address: Address, tensor: Tensor) -> None:
        """Keep a copy of `tensor`: later in-place changes by the model do not reach it."""
        old = self._kept.pop(address, None)
        self._bytes -= old.nbytes if old is not None else 0
        copy = tensor.detach().clone()
        if self._bytes + copy.nbytes <= self._budget:
            self._kept[address] = copy
            self._spilled.pop(address, None)
            self._bytes += copy.nbytes
        else:
            if address not in self._spilled:
                # A count of all files ever: one of those there now would name a file twice once an address came back.
                self._spilled[address] = self._folder / f"{self._files}.safetensors"
                self._files += 1
            save_file({"tensor": copy.cpu().contiguous()}, self._spilled[address])

    def close(self) -> None:
        """Say from now on that spilled values are gone."""
        self._closed = True

    @property
    def bytes_in_memory(self) -> int:
        """Size of what is kept in memory."""
        return self._bytes

    def __getitem__(self, address: object) -> Tensor:
        if address in self._kept:
            return self._kept[address]
        if address not in self._spilled:
            raise NotRecorded(address, list(self))
        if self._closed:
            raise UsageError(
                f"recording: {address!r} was spilled to disk, beyond the budget of {self._budget} bytes, and spilled "
                "values go with the context; read it inside the `with`, or give `record` a larger budget"
            )
        return load_file(self._spilled[address])["tensor"]

    def __contains__(self, address: object) -> bool:
        return address in self._kept or address in self._spilled

    def __iter__(self) -> Iterator[Address]:
        yield from self._kept
        yield from self._spilled

    def __len__(self) -> int:
        return len(self._kept) + len(self._spilled)

    def stack(self, site: str) -> Tensor:
        """All loops of a site, `[loops, …]`; they must have one shape."""
        return torch.stack([self[address] for address in sorted(a for a in self if a[0] == site)])


@contextlib.contextmanager
def record(
    model: nn.Module, sites: Iterable[str], loops: Iterable[int] | None = None, budget: int = BUDGET
) -> Iterator[Recording]:
    """Record the sites that match the names or patterns `sites` (`blocks.*.attn.pattern`) while the context is open.

    A bare string is one name or pattern. `loops` picks calls within a forward pass (None: all). Works on any
    `nn.Module` by module name; a module that returns a tuple is recorded by its first tensor. The model's output does
    not change by a bit. What was recorded in memory stays usable afterwards; what was spilled is removed with the
    context.

    Hooks act in the order in which contexts were opened: `with record(…), edit(…)` records a site's value before the
    edit of that same site, `with edit(…), record(…)` the value after it.

    Raises `UsageError` on a site that does not exist, on a compiled or scripted model, on a negative budget, and on
    closing when a loop in `loops` never happened or nothing that a pattern matches fired (scores and patterns fire on
    the explicit attention path only: `model.use_attention("explicit")`).
    """
    if budget < 0:
        raise outside("budget", budget, "0 bytes and more")
    found, wanted = find_sites(model, sites), None if loops is None else set(loops)
    names, fired = dict.fromkeys(name for matching in found.values() for name in matching), set()
    happened: set[int] = set()
    with tempfile.TemporaryDirectory(prefix="algoprobe-") as folder:
        recording = Recording(budget, Path(folder))

        def keep(site: str, loop: int, output: object) -> None:
            fired.add(site)
            happened.add(loop)
            if wanted is None or loop in wanted:
                recording.put((site, loop), first_tensor(site, output))

        try:
            with hooked(model, names, keep):
                yield recording
        finally:
            recording.close()
        if silent := [pattern for pattern, matching in found.items() if not fired.intersection(matching)]:
            raise UsageError(f"site: {', '.join(silent)} never fired{explicit_hint(silent)}")
        if wanted is not None and (missing := sorted(wanted - happened)):
            never = ", ".join(map(str, missing))
            raise UsageError(f"loops: {never} never happened; allowed: those that did, {sorted(happened)}")


def first_tensor(site: str, output: object) -> Tensor:
    """`output`, or its first tensor where a module returns several values."""
    if isinstance(output, Tensor):
        return output
    if isinstance(output, tuple | list):
        for part in output:
            if isinstance(part, Tensor):
                return part
    raise UsageError(f"site: {site!r} hands on a {type(output).__name__}, not a tensor")


def explicit_hint(sites: Iterable[str]) -> str:
    """What to do when attention scores or patterns did not fire."""
    attention = any(site.endswith((".scores", ".pattern")) for site in sites)
    return '; attention patterns exist on the explicit path only: model.use_attention("explicit")' if attention else ""
