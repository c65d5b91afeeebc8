"""Editing what sites hand on."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from torch import Tensor, nn

from algoprobe.core.errors import UsageError

from .record import explicit_hint, first_tensor
from .sites import find_sites, hooked

Change = Callable[[Tensor], Tensor]


@contextlib.contextmanager
def edit(model: nn.Module, changes: Mapping[Any, Change]) -> Iterator[None]:
    """Replace what (site, loop) hands on by `change(tensor)` while the context is open; loop None means every loop.

        with edit(model, {("blocks.2.resid_post", 0): lambda x: x * 0}):
            logits = model(tokens, lengths)

    A change keeps shape and dtype; one for a single loop comes after one for every loop. Sites are exact names. A
    recording of the same site sees the value before the edit when it was opened before it, else the changed value.
    Raises `UsageError` on a site that does not exist, on a pattern, on a compiled or scripted model, on a change of
    shape, and on closing when a change was never applied.
    """
    for address in changes:
        if not (isinstance(address, tuple) and len(address) == 2):
            raise UsageError(
                f'site: {address!r} is no address; give (site, loop), as in ("blocks.0.resid_post", 0), or '
                "(site, None) for every loop"
            )
    for site, matching in find_sites(model, [site for site, _ in changes]).items():
        if matching != [site]:
            raise UsageError(f"site: {site!r} is a pattern; an edit takes an exact name, such as {matching[0]!r}")
    waiting = set(changes)

    def apply(site: str, loop: int, output: object) -> object:
        wanted = [address for address in ((site, None), (site, loop)) if address in changes]
        if not wanted:
            return None
        before = after = first_tensor(site, output)
        for address in wanted:
            after = changes[address](after)
            waiting.discard(address)
        if not isinstance(after, Tensor) or after.shape != before.shape or after.dtype != before.dtype:
            found = f"{tuple(after.shape)} {after.dtype}" if isinstance(after, Tensor) else type(after).__name__
            raise UsageError(f"site: the change of {site!r} made {found} of {tuple(before.shape)} {before.dtype}")
        return after if isinstance(output, Tensor) else replaced(output, before, after)

    with hooked(model, dict.fromkeys(site for site, _ in changes), apply):
        yield
    if waiting:
        never = ", ".join(
            f"{site} in loop {'any' if loop is None else loop}" for site, loop in sorted(waiting, key=str)
        )
        raise UsageError(
            f"site: {never} never fired, so its change was not applied{explicit_hint(s for s, _ in waiting)}"
        )


def replaced(output: tuple | list, before: Tensor, after: Tensor) -> tuple | list:
    """`output` with its tensor `before` replaced by `after`."""
    parts = [after if part is before else part for part in output]
    # A named tuple takes its fields one by one; all others take one iterable.
    return output._make(parts) if hasattr(output, "_make") else type(output)(parts)
