"""What a radio draws for an exchange: waking up, moving bits, waiting, and the tail afterwards.

    idle -> promotion -> active -> tail -> idle

A radio stays up for a while after the last bit. An exchange in that tail needs no promotion, and
starts the tail anew. What an exchange costs is what the battery gives up because of it: the energy
with it less the energy without it. Costs of a row of exchanges so add up to what the whole row
draws. All of it is a model, and its constants are in radios.toml with their sources."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from handtorch.errors import BadInput
from handtorch.place.link import Exchange
from handtorch.place.sheet import Sheet

SHIPPED = Path(__file__).parent / "radios.toml"


@dataclass(frozen=True)
class Origin:
    source: str
    year: int
    unconfirmed: bool = False


@dataclass(frozen=True)
class Phase:
    """So many watts for so long."""

    w: float
    s: float
    origin: Origin


@dataclass(frozen=True)
class RadioEnergy:
    """Joules of one exchange, above those of an idle radio. `doubts` are sentences: where a line
    was left, and which constants nobody has confirmed."""

    promotion_j: float
    moving_j: float
    waiting_j: float
    tail_j: float               # what this exchange adds to the tail
    doubts: tuple[str, ...]

    @property
    def total_j(self) -> float:
        return self.promotion_j + self.moving_j + self.waiting_j + self.tail_j


@dataclass(frozen=True)
class Radio:
    name: str
    up_w_per_mbps: float
    down_w_per_mbps: float
    base_w: float
    line: Origin
    most_w: float
    most: Origin
    promotion: Phase
    tail: tuple[Phase, ...]

    @property
    def tail_s(self) -> float:
        return sum(phase.s for phase in self.tail)

    def is_up(self, since_s: float | None) -> bool:
        """Whether its tail still lasts, so long after its last bit; None is long ago."""
        return since_s is not None and since_s < self.tail_s

    def wake_s(self, since_s: float | None) -> float:
        """What an exchange waits before its first bit."""
        return 0.0 if self.is_up(since_s) else self.promotion.s

    def tail_j(self, seconds: float) -> float:
        """The tail's energy up to its end, or so long if something comes before it."""
        joules, left = 0.0, seconds
        for phase in self.tail:
            used = min(left, phase.s)
            joules, left = joules + used * phase.w, left - used
        return joules

    def moving_w(self, up_mbps: float, down_mbps: float) -> tuple[float, str]:
        """Watts at these rates, and what to say where that is not the line's word."""
        line_w = (self.up_w_per_mbps * up_mbps + self.down_w_per_mbps * down_mbps + self.base_w)
        if line_w <= self.most_w:
            return line_w, ""
        rates = " and ".join(f"{mbps:.3g} Mb/s {way}" for mbps, way in (
            (up_mbps, "up"), (down_mbps, "down")) if mbps)
        return self.most_w, (
            f"at {rates} the line of {self.name} says {line_w:.3g} W, outside what it was fitted "
            f"to; {self.most_w:g} W is taken")

    def exchange_j(self, exchange: Exchange, since_s: float | None) -> RadioEnergy:
        """What this exchange adds, so long after the last one; None is long ago."""
        doubts = list(self.unconfirmed)
        moving_j = 0.0
        for bps, seconds, up in ((exchange.up_bps, exchange.up_s, True),
                                 (exchange.down_bps, exchange.down_s, False)):
            mbps = bps / 1e6
            watts, said = self.moving_w(mbps if up else 0.0, 0.0 if up else mbps)
            moving_j += watts * seconds
            if said and seconds:
                doubts.append(said)
        wakes = not self.is_up(since_s)
        already_s = self.tail_s if since_s is None else min(since_s, self.tail_s)
        return RadioEnergy(
            self.promotion.w * self.promotion.s if wakes else 0.0, moving_j,
            self.base_w * exchange.waiting_s, self.tail_j(already_s), tuple(doubts))

    def burst_j(self, exchange: Exchange, count: int, gap_s: float,
                since_s: float | None = None) -> RadioEnergy:
        """The mean of `count` equal exchanges, each `gap_s` after the one before."""
        assert count >= 1 and gap_s >= 0
        first, other = self.exchange_j(exchange, since_s), self.exchange_j(exchange, gap_s)

        def mean(one: float, rest: float) -> float:
            return (one + (count - 1) * rest) / count
        return RadioEnergy(mean(first.promotion_j, other.promotion_j),
                           mean(first.moving_j, other.moving_j),
                           mean(first.waiting_j, other.waiting_j),
                           mean(first.tail_j, other.tail_j), first.doubts)

    @property
    def unconfirmed(self) -> tuple[str, ...]:
        parts = [("moving bits", self.line), ("promotion", self.promotion.origin),
                 *(("the tail", phase.origin) for phase in self.tail)]
        names = dict.fromkeys(name for name, origin in parts if origin.unconfirmed)
        return (f"{self.name}: the constants of {', '.join(names)} are not confirmed",
                ) if names else ()

    def drawing(self, active_w: float, source: str, unconfirmed: bool = False) -> Radio:
        """This radio in a device whose maker says what it draws while it is used: flat."""
        said = Origin(source, self.line.year, unconfirmed)
        return replace(self, up_w_per_mbps=0.0, down_w_per_mbps=0.0, base_w=active_w, line=said,
                       most_w=max(active_w, self.most_w))

    def with_tail(self, seconds: float) -> Radio:
        """A tail of another length, to see what hangs on it."""
        factor = seconds / self.tail_s
        return replace(self, tail=tuple(replace(p, s=p.s * factor) for p in self.tail))


def radio_names() -> tuple[str, ...]:
    return tuple(_tables())


@cache
def read_radio(name: str) -> Radio:
    """One of those in radios.toml: wifi, lte, 3g."""
    tables = _tables()
    if name not in tables:
        raise BadInput(f"no radio {name!r}", why=f"there is {', '.join(tables)}")
    given = tables[name]
    line, most = given["line"], given["most"]
    return Radio(given["name"], float(line["up_watts_per_mbps"]),
                 float(line["down_watts_per_mbps"]), float(line["base_watts"]), _origin(line),
                 float(most["watts"]), _origin(most), _phase(given["promotion"]),
                 tuple(map(_phase, given["tail"])))


def radio_in(sheet: Sheet | None, name: str) -> Radio:
    """That radio as the device has it. Makers state one current for Wi-Fi, and it meets what was
    measured of a whole phone; for the others they leave out the tail, which is most of it."""
    radio = read_radio(name)
    said = None if sheet is None or name != "wifi" else sheet.radios_w.get(name)
    if said is None or said.value is None:
        return radio
    return radio.drawing(said.value, said.source, bool(said.doubt))


@cache
def _tables() -> Mapping[str, Any]:
    return tomllib.loads(SHIPPED.read_text(encoding="utf-8"))


def _phase(given: Mapping[str, Any]) -> Phase:
    return Phase(float(given["watts"]), float(given["seconds"]), _origin(given))


def _origin(given: Mapping[str, Any]) -> Origin:
    return Origin(given["source"], given["year"], given.get("unconfirmed", False))
