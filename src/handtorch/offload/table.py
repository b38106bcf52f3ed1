"""Measured latencies of a place by load: what simulated days are driven by, and how it is taken."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from handtorch.errors import BadFile, DeviceError
from handtorch.offload.load_generator import LoadGenerator
from handtorch.offload.place import Place

LEVELS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
LEAST_CALLS = 10
# What is read beyond the load that is held. Up to 0.2 was seen at middle shares without calls that
# were slower for it: perhaps the kernel's count at ticks, not tested. A busy stranger takes more.
MOST_STRANGERS = 0.25
SETTLE_S = 0.5                  # loads are means over a quarter second


@dataclass(frozen=True)
class Level:
    """Calls under one load: the share that the generator really held, what each took, and the load
    that was read before it. Where it was not held, `refused` says so and there are no calls."""

    asked: float
    held: float | None
    latencies_s: tuple[float, ...] = ()
    readings: tuple[float | None, ...] = ()
    refused: str = ""

    @property
    def median_s(self) -> float:
        return median(self.latencies_s)


@dataclass(frozen=True)
class Table:
    """One place, one kind of call, from low load to high."""

    place: str
    levels: tuple[Level, ...]

    @property
    def known(self) -> tuple[Level, ...]:
        return tuple(level for level in self.levels if level.latencies_s)


@dataclass(frozen=True)
class Tables:
    """What was measured in one run on one machine; `about` says on which, how, and when."""

    about: dict[str, str]
    places: tuple[Table, ...]

    def to_json(self) -> str:
        return json.dumps(asdict(self), separators=(",", ":")) + "\n"


def read_tables(path: Path) -> Tables:
    """The tables as they were written by `Tables.to_json`."""
    try:
        data: dict[str, Any] = json.loads(path.read_text())
        return Tables(data["about"], tuple(
            Table(t["place"], tuple(
                Level(v["asked"], v["held"], tuple(v["latencies_s"]), tuple(v["readings"]),
                      v["refused"]) for v in t["levels"]))
            for t in data["places"]))
    except (ValueError, KeyError, TypeError) as e:
        raise BadFile(f"{path.name} is no table of latencies", why=str(e)) from e


def take_level(place: Place, load: LoadGenerator, share: float, call: Callable[[], object], *,
               calls: int, pause_s: float = 0.01, settle_s: float = SETTLE_S,
               most_s: float = float("inf")) -> Level:
    """`calls` of the place while `load` holds this share of it, with a pause before each; fewer if
    they would take longer than `most_s`."""
    load.hold(share)
    time.sleep(settle_s)
    call()
    taken: list[float] = []
    readings, moments = [], [load.moment()]
    until = time.monotonic() + most_s
    while len(taken) < calls and (len(taken) < LEAST_CALLS or time.monotonic() < until):
        time.sleep(pause_s)
        readings.append(place.load().share)
        start = time.perf_counter()
        call()
        taken.append(time.perf_counter() - start)
    moments.append(load.moment())
    try:
        held = load.judged(moments)
    except DeviceError as e:
        return Level(share, None, refused=e.message().splitlines()[0])
    finally:
        load.hold(0.0)
    known = [r for r in readings if r is not None]
    if known and (strangers := median(known) - held.share) > MOST_STRANGERS:
        return Level(share, None, refused=f"programs that are none of ours used {strangers:.0%} of "
                     f"{place.name} meanwhile")
    return Level(share, held.share, tuple(taken), tuple(readings))


def take_table(place: Place, load: LoadGenerator, call: Callable[[], object], *,
               levels: Sequence[float] = LEVELS, calls: int = 100, most_s: float = 4.0,
               progress: Callable[[str], None] = lambda _: None) -> Table:
    """The place under every load in turn."""
    taken = []
    for share in levels:
        progress(f"{place.name}: load {share:.0%}")
        level = take_level(place, load, share, call, calls=calls, most_s=most_s)
        if level.refused:               # once more: somebody else may be done by now
            progress(level.refused)
            level = take_level(place, load, share, call, calls=calls, most_s=most_s)
        taken.append(level)
    return Table(place.name, tuple(taken))
