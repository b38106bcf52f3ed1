"""Frozen products as JSON and back, for a closed set of classes.

A list begins with what it is: `()` a tuple, `{}` a mapping of keys and values in turn, else the
name of a class, then its fields in order. Nothing else is made from a file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any

_PLAIN = (str, int, float, bool, type(None))


def product_to_json(product: object) -> str:
    """Floats come back as they were; a class must be a dataclass made from its fields."""
    return json.dumps(_told(product), separators=(",", ":"))


def product_from_json(text: str | bytes, classes: Iterable[type]) -> Any:
    """The product, or ValueError where it is none of these classes'."""
    known = {kind.__name__: kind for kind in classes}

    def made(told: Any) -> Any:
        if not isinstance(told, list):
            return told
        kind, *parts = told
        if kind == "()":
            return tuple(map(made, parts))
        if kind == "{}":
            return {made(k): made(v) for k, v in zip(parts[::2], parts[1::2], strict=True)}
        if kind not in known:
            raise ValueError(f"{kind!r} is none of {', '.join(known)}")
        return known[kind](*map(made, parts))
    try:
        return made(json.loads(text))
    except (TypeError, KeyError, IndexError, RecursionError) as e:
        raise ValueError(f"no product: {e}") from e


def _told(x: Any) -> Any:
    if type(x) in _PLAIN:
        return x
    if isinstance(x, tuple):
        return ["()", *map(_told, x)]
    if isinstance(x, Mapping):
        return ["{}", *(_told(part) for pair in x.items() for part in pair)]
    kind: type = type(x)
    assert is_dataclass(kind), f"a {kind.__name__} cannot be kept"
    return [kind.__name__, *(_told(getattr(x, name)) for name in _names(kind))]


@cache
def _names(kind: type) -> tuple[str, ...]:
    assert all(f.init and not f.kw_only for f in fields(kind)), kind
    return tuple(f.name for f in fields(kind))
