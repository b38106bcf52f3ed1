"""How the page spells things: escaped text, numbers to three digits, times, sizes."""

from __future__ import annotations

import html
import re

MISSING = "\N{EN DASH}"
# What HTML forbids, and the marks that turn the direction of the text after them.
_UNSHOWABLE = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ufffe\uffff]")
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def esc(text: str) -> str:
    """Text of a record, safe between tags and inside a quoted attribute."""
    return html.escape(_UNSHOWABLE.sub("\N{REPLACEMENT CHARACTER}", text), quote=True)


def number(value: float, digits: int = 3) -> str:
    """Three digits; whole numbers below a million in full; powers of ten beyond that."""
    size = abs(value)
    if size >= 1e6 or 0 < size < 1e-3:
        lead, _, power = f"{value:.{digits - 1}e}".partition("e")
        return f"{lead} \N{MULTIPLICATION SIGN} 10{str(int(power)).translate(_SUPERSCRIPT)}"
    if value == int(value) or size >= 10**digits - 0.5:
        return f"{value:,.0f}"
    return f"{value:.{digits}g}"


def column(value: float, digits: int = 3) -> str:
    """As `number`, with the zeros kept that a column of figures wants: 4.40 below 4.38."""
    if value == 0 or not 1e-3 <= abs(value) < 10**digits - 0.5:
        return number(value, digits)
    return f"{value:#.{digits}g}".rstrip(".")


def tick(value: float) -> str:
    """A number as short as an axis needs it: `0.25`, `1,024`, `2.5e6`; seven characters at most."""
    if value == 0 or 1e-3 <= abs(value) < 1e5:
        return f"{value:,.4g}" if abs(value) < 1e4 else f"{value:,.0f}"
    lead, _, power = f"{value:.1e}".partition("e")
    return f"{lead.removesuffix('.0')}e{int(power)}"


def quantity(value: float, unit: str) -> str:
    """A number and its unit, escaped: `187 GFLOPS`, `97.2 %`."""
    return f"{number(value)}\N{NO-BREAK SPACE}{esc(unit)}" if unit else number(value)


def duration(ns: float) -> str:
    """`840 ns`, `1.2 ms`, `14.2 s`, `3 min 20 s`."""
    if ns >= 120e9:
        minutes, seconds = divmod(round(ns / 1e9), 60)
        hours, minutes = divmod(minutes, 60)
        parts = [(hours, "h"), (minutes, "min"), (seconds, "s")]
        return " ".join(f"{n}\N{NO-BREAK SPACE}{unit}" for n, unit in parts if n)
    for scale, unit in ((1e9, "s"), (1e6, "ms"), (1e3, "µs")):
        if ns >= scale:
            return f"{number(ns / scale)}\N{NO-BREAK SPACE}{unit}"
    return f"{number(ns)}\N{NO-BREAK SPACE}ns"


def size(size_bytes: float) -> str:
    """`512 B`, `1.5 MiB`: powers of 1024, as devices state theirs."""
    for scale, unit in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if size_bytes >= scale:
            return f"{number(size_bytes / scale)}\N{NO-BREAK SPACE}{unit}"
    return f"{number(size_bytes)}\N{NO-BREAK SPACE}B"


def joules(value: float) -> str:
    """`1.5 J`, `23.3 mJ`, `736 µJ`."""
    for scale, unit in ((1.0, "J"), (1e-3, "mJ"), (1e-6, "µJ")):
        if abs(value) >= scale:
            return f"{number(value / scale)}\N{NO-BREAK SPACE}{unit}"
    return f"{number(value / 1e-9)}\N{NO-BREAK SPACE}nJ"
