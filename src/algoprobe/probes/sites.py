"""Addresses inside a model: a site is a module's name, a loop says which of its calls in one forward pass."""

from __future__ import annotations

import contextlib
import fnmatch
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import torch
from torch import nn

from algoprobe.core.errors import UsageError, nearest

Address = tuple[str, int]
"""(site, loop): `("blocks.0.resid_post", 3)` is what that module hands on in its fourth call of a forward pass."""


def find_sites(model: nn.Module, patterns: Iterable[str]) -> dict[str, list[str]]:
    """For each pattern (`*` stands for anything) the names of the modules it matches, in the model's order.

    A bare string is one pattern. Raises `UsageError` with the nearest name when a pattern matches nothing.
    """
    # A string is an iterable of its letters, which is never what was meant.
    patterns = [patterns] if isinstance(patterns, str) else patterns
    names = dict.fromkeys(name for name, _ in model.named_modules() if name)
    found = {pattern: [pattern] if pattern in names else fnmatch.filter(names, pattern) for pattern in patterns}
    for pattern, matching in found.items():
        if not matching:
            raise UsageError(f"site: {pattern!r} matches no module of {type(model).__name__}.{nearest(pattern, names)}")
    return found


def refuse_compiled(model: nn.Module) -> None:
    """Raise `UsageError` when `model` or a part of it was compiled or scripted: hooks added later never fire."""
    for name, module in model.named_modules():
        if isinstance(module, torch.jit.ScriptModule):
            where = f"its module {name!r}" if name else "it"
            raise UsageError(
                f"model: {type(model).__name__} cannot be opened because {where} is a torch.jit.ScriptModule, which "
                "takes no hooks; open the module that was scripted or traced"
            )
        if hasattr(module, "_orig_mod") or getattr(module, "_compiled_call_impl", None) is not None:
            where = f"its module {name!r}" if name else "it"
            raise UsageError(
                f"model: {type(model).__name__} cannot be opened because {where} is compiled, and hooks added after "
                "compiling never fire; open the model before torch.compile, or its _orig_mod"
            )


def refuse_outer_blocks(model: nn.Module, what: str) -> None:
    """Raise `UsageError` when `model` has blocks before or after the looped stack, which `what` does not follow."""
    for name in ("prelude", "coda"):
        if count := len(getattr(model, name, ())):
            raise UsageError(
                f"model.{name}: {count} is not possible; {what} follows the looped stack alone; allowed: 0"
            )


@dataclass
class CallCounter:
    """How often each site was called in the forward pass under way."""

    calls: dict[str, int] = field(default_factory=dict)

    def next(self, site: str) -> int:
        """The number of this call, from 0."""
        number = self.calls.get(site, 0)
        self.calls[site] = number + 1
        return number


@contextlib.contextmanager
def hooked(model: nn.Module, sites: Iterable[str], at_call: Callable) -> Iterator[None]:
    """Call `at_call(site, loop, output)` whenever a site hands something on; what it returns, unless None, replaces it.

    Counting starts again with each forward pass of `model`.
    """
    refuse_compiled(model)
    modules, counter = dict(model.named_modules()), CallCounter()
    handles = [model.register_forward_pre_hook(lambda *_: counter.calls.clear())]
    try:
        for site in sites:

            def hook(module, inputs, output, site=site):
                return at_call(site, counter.next(site), output)

            handles.append(modules[site].register_forward_hook(hook))
        yield
    finally:
        for handle in handles:
            handle.remove()
