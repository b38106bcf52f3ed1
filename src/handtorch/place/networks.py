"""Networks by name or from a TOML file: each figure with its source, and whether it was confirmed.

A figure that is only remembered of its source has `unconfirmed = true`, and the network says so
wherever it is shown. `docs/networks.md` has the form."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from handtorch.errors import BadInput
from handtorch.place.network import Network, Trace
from handtorch.place.toml_file import Checked, Kind
from handtorch.place.trace import read_trace, stated_trace

SHIPPED = Path(__file__).parent / "networks"
RADIOS = ("wifi", "lte", "3g")
MOST_LOSS = 0.5
_KIND = Kind("network", SHIPPED, "see docs/networks.md, or copy one that ships")
_FIGURES = ("up", "down", "rtt", "jitter", "loss", "queue")


def shipped() -> tuple[str, ...]:
    return _KIND.shipped()


def read_network(named: str | os.PathLike[str]) -> Network:
    """The network in a file, or the shipped one of that name."""
    path = _KIND.path(named)
    return _Reader(_KIND, path).network(_KIND.read(path))


@dataclass(frozen=True)
class _Rate:
    bps: float
    trace: Trace | None


class _Reader(Checked):
    """Every word is known, every figure has a source."""

    def network(self, given: dict[str, Any]) -> Network:
        self.only("the network", given, {"name", "radio", "outage", *_FIGURES})
        radio = self.text("the network", given, "radio")
        if radio not in RADIOS:
            raise self.refusal(f"radio is {radio!r}; known are {', '.join(RADIOS)}")
        up, down = self._rate(given, "up"), self._rate(given, "down")
        loss = self._figure(given, "loss", "share", 0.0)
        if loss > MOST_LOSS:
            raise self.refusal(f"loss.share is {loss:g}, more than {MOST_LOSS:g}")
        rtt_ms = self._figure(given, "rtt", "ms", None)
        jitter_ms = self._figure(given, "jitter", "ms", 0.0)
        queue = int(self._figure(given, "queue", "bytes", float(Network.queue_bytes)))
        if queue < 1:
            raise self.refusal("queue.bytes is 0: nothing could ever wait for the link")
        said = [part for part in _FIGURES if part in given]
        return Network(
            self.text("the network", given, "name"), up.bps, down.bps, rtt_ms, radio,
            "; ".join(f"{part}: {self.text(part, given[part], 'source')}" for part in said),
            jitter_ms, loss, queue, self._outages(given.get("outage", [])), up.trace, down.trace,
            tuple(part for part in said if self.flag(part, given[part], "unconfirmed")))

    def _rate(self, given: dict[str, Any], part: str) -> _Rate:
        """A steady rate, rates by the second, or a trace file beside this one."""
        words = ("mbps", "mbps_by_second", "trace")
        table: Any = given.get(part, {})
        self.only(part, table, {*words, "source", "unconfirmed"})
        if sum(word in table for word in words) != 1:
            raise self.refusal(f"{part} does not have one of {', '.join(words)}")
        if "trace" in table:
            trace = read_trace(self._path.parent / self.text(part, table, "trace"))
        elif "mbps_by_second" in table:
            rates: Any = table["mbps_by_second"]
            if not isinstance(rates, list):
                raise self.refusal(f"{part}.mbps_by_second is not a list")
            trace = self._stated(part, [self.number(part, {"mbps_by_second": r}, "mbps_by_second")
                                        for r in rates])
        else:
            mbps = self.number(part, table, "mbps")
            if mbps == 0:
                raise self.refusal(f"{part}.mbps is 0: nothing would ever arrive")
            return _Rate(mbps * 1e6, None)
        return _Rate(trace.mean_bps, trace)

    def _stated(self, part: str, rates: list[float]) -> Trace:
        try:
            return stated_trace(rates)
        except BadInput as error:
            raise self.refusal(f"{part}.mbps_by_second: {error.why}") from error

    def _figure(self, given: dict[str, Any], part: str, word: str, otherwise: float | None
                ) -> float:
        if part not in given and otherwise is not None:
            return otherwise
        table: Any = given.get(part, {})
        self.only(part, table, {word, "source", "unconfirmed"})
        return self.number(part, table, word)

    def _outages(self, given: Any) -> tuple[tuple[float, float], ...]:
        """In order and apart, so that what they take of the time can be counted."""
        if not isinstance(given, list):
            raise self.refusal("outage is not a list: write [[outage]] for each")
        found: list[tuple[float, float]] = []
        for table in given:
            self.only("outage", table, {"begin_s", "end_s"})
            begin, end = (self.number("outage", table, word) for word in ("begin_s", "end_s"))
            if end <= begin or (found and begin < found[-1][1]):
                raise self.refusal(f"an outage from {begin:g} to {end:g} s: outages have a length, "
                                   "and come one after the other")
            found.append((begin, end))
        return tuple(found)
