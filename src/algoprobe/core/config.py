"""Configs are frozen dataclasses; here they become JSON, come back, and get a digest.

A config field is a plain value, a tuple, or another config. A field whose type is a union of configs is told apart by
their `kind` field; without it the first of them is meant. Unknown or ill-typed fields are errors that name the field
and the nearest spelling.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import types
import typing
from typing import Any, TypeVar

from .errors import UsageError, outside, unknown

C = TypeVar("C")


def to_dict(config: Any) -> dict[str, Any]:
    """`config` as nested dicts of JSON values, every field written out."""
    return json.loads(json.dumps(dataclasses.asdict(config)))


def from_dict(kind: type[C], values: Any, path: str = "") -> C:
    """The config of class `kind` that `values` describe; the inverse of `to_dict`.

    Raises `UsageError` on a field that is unknown, missing or of the wrong type.
    """
    if not isinstance(values, dict):
        raise outside(path.rstrip(".") or kind.__name__, values, "an object of fields")
    hints = _hints(kind)
    fields = {field.name: field for field in dataclasses.fields(kind)}
    for name in values:
        if name not in fields:
            raise unknown(f"{path or kind.__name__ + '.'}field", name, fields)
    made = {}
    for name, field in fields.items():
        if name in values:
            made[name] = _coerce(hints[name], values[name], path + name)
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise UsageError(f"{path}{name}: missing from the config")
    return kind(**made)


def _coerce(hint: Any, value: Any, path: str) -> Any:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        if value not in arguments:
            raise unknown(path, value, arguments)
        return value
    if origin in (typing.Union, types.UnionType):
        if value is None and type(None) in arguments:
            return None
        options = [a for a in arguments if a is not type(None)]
        if len(options) == 1:
            return _coerce(options[0], value, path)
        if all(dataclasses.is_dataclass(option) for option in options):
            by_kind = {option.kind: option for option in options}
            kind = value.get("kind", options[0].kind) if isinstance(value, dict) else None
            if kind not in by_kind:
                raise unknown(f"{path}.kind", kind, by_kind)
            return from_dict(by_kind[kind], value, path + ".")
        for option in options:
            try:
                return _coerce(option, value, path)
            except UsageError:
                continue
        raise outside(path, value, " or ".join(getattr(o, "__name__", str(o)) for o in options))
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise outside(path, value, "a list")
        element = [arguments[0]] * len(value) if arguments[1:] == (Ellipsis,) else list(arguments)
        if len(element) != len(value):
            raise outside(path, value, f"a list of {len(element)} values")
        return tuple(_coerce(h, v, f"{path}[{i}]") for i, (h, v) in enumerate(zip(element, value)))
    if dataclasses.is_dataclass(hint):
        return from_dict(hint, value, path + ".")
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, hint) or (isinstance(value, bool) and hint is not bool):
        raise outside(path, value, f"a value of type {hint.__name__}")
    return value


def check_choices(config: Any, path: str) -> None:
    """Raise `UsageError` when a field that allows only certain values holds another; for configs made in Python."""
    for name, hint in _hints(type(config)).items():
        if typing.get_origin(hint) is typing.Literal and getattr(config, name) not in typing.get_args(hint):
            raise unknown(f"{path}.{name}" if path else name, getattr(config, name), typing.get_args(hint))


@functools.cache
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def departures(config: Any) -> dict[str, Any]:
    """The fields of `config` that differ from their declared defaults, nested; `kind` is always kept."""
    changed: dict[str, Any] = {}
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if field.default is not dataclasses.MISSING:
            default = field.default
        elif field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        else:
            default = dataclasses.MISSING
        if field.name == "kind" or value != default:
            changed[field.name] = departures(value) if dataclasses.is_dataclass(value) else value
    return changed


def digest(value: Any) -> str:
    """16 hexadecimal digits that name a config (or any JSON value).

    Of a config only the departures from its declared defaults count, so that a field added later, at its default,
    renames neither run folders nor streams.
    """
    if dataclasses.is_dataclass(value):
        value = [type(value).__name__, departures(value)]
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
