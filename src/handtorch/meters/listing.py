"""What a search gave, for people and for machines."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from dataclasses import asdict

from handtorch.meters.signal import Absent, Found, Signal


def records(found: Found) -> dict[str, list[dict[str, object]]]:
    """As JSON has it."""
    return {"sensors": [asdict(s) for s in found.signals],
            "sensors_absent": [asdict(a) for a in found.absent]}


def text(found: Found, width: int) -> str:
    """A paragraph for each family that can be read, then one for each that cannot, and why."""
    of: dict[str, list[Signal]] = {}
    for signal in found.signals:
        of.setdefault(signal.meter, []).append(signal)
    lines = [_wrapped(f"{meter}: {_told(signals)}", width) for meter, signals in of.items()]
    lines += ["", "not to be read here:"] if found.absent else []
    lines += [_wrapped(line, width) for line in _absent(found.absent)]
    return "\n".join(["sensors", *lines]) + "\n"


def _told(signals: Iterable[Signal]) -> str:
    """By how often each is worth reading."""
    rates: dict[int, list[str]] = {}
    for s in signals:
        mark = " (as documented, not yet seen)" if s.basis == "documented" else ""
        inside = f" of {s.parent}" if s.parent else ""
        rates.setdefault(s.every_ns, []).append(f"{s.quantity}{inside}{mark}")
    return "; ".join(f"{', '.join(names)} every {_time(every)}"
                     for every, names in sorted(rates.items()))


def _absent(absent: Iterable[Absent]) -> list[str]:
    return [f"{a.meter}: {a.why}" + (f"; try: {a.fix}" if a.fix else "") for a in absent]


def _time(ns: int) -> str:
    return f"{ns // 10**9} s" if ns >= 10**9 else f"{ns // 10**6} ms"


def _wrapped(line: str, width: int) -> str:
    return textwrap.fill(line, width, initial_indent="  ", subsequent_indent="    ",
                         break_on_hyphens=False)
