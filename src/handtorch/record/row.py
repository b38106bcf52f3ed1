"""What every row of a run file has in common: its columns, and the rules checked when it is made.

A row that breaks a rule of the schema is refused where it is made, naming the row and the field,
so that the fault is found at the caller's line and not when the file is written.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType, NoneType
from typing import Any, ClassVar, Literal, get_args, get_origin, get_type_hints

from handtorch.errors import BadInput

Provenance = Literal["measured", "estimated", "simulated"]
_NONE: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True)
class Column:
    """One field of a row: the type SQLite gives back, whether it may be NULL, its closed words."""

    name: str
    type: type
    optional: bool
    words: tuple[str, ...]


class Row:
    """Base of all rows: a frozen dataclass whose fields are the columns of `TABLE`.

    `KEY` are the fields unique together (none at all: one row at most; None: any number),
    `REASONS` says which fields a reason speaks for, `REFERS` whose key a field names."""

    __slots__ = ()
    TABLE: ClassVar[str]
    KEY: ClassVar[tuple[str, ...] | None] = None
    REASONS: ClassVar[Mapping[str, tuple[str, ...]]] = _NONE
    REFERS: ClassVar[Mapping[str, str]] = _NONE
    LEAST: ClassVar[Mapping[str, int]] = _NONE  # the smallest number a field may hold

    def __post_init__(self) -> None:
        for column in columns(type(self)):
            if why := _fault(column, getattr(self, column.name)):
                raise self._refusal(why)
        for name, least in self.LEAST.items():
            if (number := getattr(self, name)) is not None and number < least:
                raise self._refusal(f"{name} is {number}, less than {least}")
        for reason, speaks_for in self.REASONS.items():
            missing = [name for name in speaks_for if getattr(self, name) is None]
            if missing and not getattr(self, reason):
                raise self._refusal(f"{missing[0]} is unknown and {reason} does not say why")
            if getattr(self, reason) and not missing:
                raise self._refusal(f"{reason} is given, yet {' and '.join(speaks_for)} known")
        if why := self.fault():
            raise self._refusal(why)

    def fault(self) -> str:
        """What is wrong between the fields of this row, empty if nothing; tables override it."""
        return ""

    def _refusal(self, why: str) -> BadInput:
        labels = [c.name for c in columns(type(self)) if c.type is str and not c.words]
        shown = ", ".join(f"{n}={getattr(self, n)!r}" for n in labels[:3] if getattr(self, n))
        return BadInput(f"record {self.TABLE}({shown})", why=why)


_COLUMNS: dict[type, tuple[Column, ...]] = {}


def columns(row: type[Row]) -> tuple[Column, ...]:
    """The fields of a row class in order, as the schema's columns must be."""
    if row not in _COLUMNS:  # worked out once per class: rows come by the hundred thousand
        hints = get_type_hints(row)
        _COLUMNS[row] = tuple(
            _column(f.name, hints[f.name]) for f in fields(row))  # type: ignore[arg-type]
    return _COLUMNS[row]


def _column(name: str, hint: object) -> Column:
    parts = get_args(hint)
    optional = NoneType in parts
    if optional:
        (hint,) = (p for p in parts if p is not NoneType)
    words = get_args(hint) if get_origin(hint) is Literal else ()
    kind = str if words else hint
    assert isinstance(kind, type), f"{name}: a column is one plain type, optional or not"
    return Column(name, kind, optional, words)


def _fault(column: Column, value: object) -> str:
    """Why `value` may not stand in `column`, empty if it may."""
    if value is None:
        return "" if column.optional else f"{column.name} is missing"
    allowed = (float, int) if column.type is float else column.type
    if not isinstance(value, allowed) or (isinstance(value, bool) and column.type is not bool):
        return f"{column.name} is {type(value).__name__} {value!r}, not {column.type.__name__}"
    if isinstance(value, int):
        fits = -(2**63) <= value < 2**63
        return "" if fits else f"{column.name} is {value}, which does not fit 64 bits"
    if isinstance(value, float):
        finite = math.isfinite(value)
        return "" if finite else f"{column.name} is {value}; unknown is None and a reason"
    if column.words and value not in column.words:
        return f"{column.name} is {value!r}, not one of {', '.join(column.words)}"
    if isinstance(value, str) and not value.isascii() and not _encodes(value):
        return f"{column.name} is {value!r}, which is not valid Unicode"
    return ""


def _encodes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
