"""Numbers and names, taken from text with care. What is not of the known form raises ValueError,
with a reason that reads on from the file's name."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable

from handtorch.meters.signal import Value

_WHOLE = re.compile(r"-?[0-9]{1,20}")       # 20 digits hold every 64-bit number
_DECIMAL = re.compile(r"[+-]?[0-9]{1,20}(\.[0-9]{1,20})?")
_MOST_SHOWN = 40                            # characters of a text that is not what it should be


def shown(text: str) -> str:
    """In quotes, without the spaces around it, and not too long for a reason."""
    return repr(text.strip()[:_MOST_SHOWN])


def number(text: str) -> int:
    """A whole decimal number and nothing else."""
    return int(_matched(_WHOLE, text, "whole number"))


def decimal(text: str) -> float:
    """A number that may have a decimal point."""
    return float(_matched(_DECIMAL, text, "number"))


def _matched(form: re.Pattern[str], text: str, what: str) -> str:
    stripped = text.strip()
    if not stripped:
        raise ValueError("is empty")
    if not form.fullmatch(stripped):
        raise ValueError(f"says {shown(text)}, not a {what}")
    return stripped


def count(text: str) -> int:
    """As `number`, and not below 0."""
    got = number(text)
    if got < 0:
        raise ValueError(f"says {got}, which cannot be less than 0")
    return got


def percent(text: str) -> float:
    """`37`, `37%`, `37 %` as 0.37. Not outside 0 to 100."""
    got = count(text.strip().removesuffix("%"))
    if got > 100:
        raise ValueError(f"says {got} %, more than all of the time")
    return got / 100


def hertz(text: str, unit: int = 1) -> Value:
    """A clock in Hz from a count of `unit` Hz; 0 is one that stands, not a frequency.

    Refuses what no clock can be: some buses tell MB/s in such a file."""
    value = number(text)
    if value == 0:
        return "the clock is off"
    if not 1e5 <= value * unit <= 2e10:
        raise ValueError(f"says {value}, which in units of {unit} Hz is no clock")
    return float(value * unit)


def any_hertz(text: str) -> Value:
    """A GPU's clock from a driver that counts in MHz, kHz or Hz: for a clock between 20 MHz and
    5 GHz the size of the number tells which."""
    value = count(text)
    unit = next((unit for unit in (10**6, 10**3, 1) if 2e7 <= value * unit < 5e9), None)
    if unit is None and value:
        raise ValueError(f"says {value}, a clock neither in MHz nor in kHz nor in Hz")
    return hertz(text, unit or 1)


def cores(text: str) -> list[int]:
    """`0-3,6` as [0, 1, 2, 3, 6]."""
    found: list[int] = []
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        low, high = count(first), count(last or first)
        if high > 65535:
            raise ValueError(f"says {shown(part)}: no machine has so many cores")
        found += range(low, high + 1)
    return sorted(set(found))


def plain(name: str) -> str:
    """As it may stand inside the name of a quantity."""
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_") or "unnamed"


def distinct(names: Iterable[str]) -> list[str]:
    """The same names, of equal ones the second as name_2 and so on."""
    taken: set[str] = set()
    result = []
    for name in names:
        tries = (name if turn == 1 else f"{name}_{turn}" for turn in itertools.count(1))
        free = next(one for one in tries if one not in taken)
        taken.add(free)
        result.append(free)
    return result
