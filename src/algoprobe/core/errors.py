"""Errors that a user can act on."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class AlgoprobeError(Exception):
    """Something failed although it was asked for correctly. The command line exits with 1."""

    exit_code = 1


class UsageError(AlgoprobeError):
    """Something was asked for that cannot be. The command line exits with 2."""

    exit_code = 2


class Interrupted(Exception):
    """The work was asked to stop and has saved everything. The command line exits with 130."""


def nearest(value: object, allowed: Iterable[object]) -> str:
    """`" Did you mean 'x'?"` for the closest spelling in `allowed`, or an empty string."""
    names = [str(name) for name in allowed]
    close = difflib.get_close_matches(str(value), names, n=1, cutoff=0.5)
    return f" Did you mean {close[0]!r}?" if close else ""


def unknown(field: str, value: object, allowed: Iterable[object]) -> UsageError:
    """The error for a `value` of `field` that is none of `allowed`."""
    names = [str(name) for name in allowed]
    return UsageError(f"{field}: {value!r} is unknown; allowed: {', '.join(names) or '(none)'}.{nearest(value, names)}")


def outside(field: str, value: object, allowed: str) -> UsageError:
    """The error for a `value` of `field` outside a range that `allowed` puts in words."""
    return UsageError(f"{field}: {value!r} is not possible; allowed: {allowed}.")
