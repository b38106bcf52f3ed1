"""Study `recognize`, second part: which place wins for which network, picture and target, and how
much `auto` loses against an oracle that knows every cost beforehand.

Networks are relays, the server is on this machine, the device is the paper's phone: all of it is
`simulated`. What waking a radio adds to a request's time is not part of it, for a relay has none;
its joules are. None of these networks and pictures was used to set a constant of `auto`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from handtorch.cloud.auto import Auto
from handtorch.cloud.client import ORIGINAL, SENT, InCloud
from handtorch.cloud.recognised import Recognised
from handtorch.cloud.relay import Relay
from handtorch.cloud.scenes import SIZES, Scene
from handtorch.place.crossover import explained
from handtorch.place.decide import Objective, Target
from handtorch.place.learn import Given
from handtorch.place.link import link_of
from handtorch.place.network import Network
from handtorch.place.networks import read_network
from handtorch.place.networks import shipped as shipped_networks
from handtorch.place.radio import radio_in
from handtorch.place.sheet import read_sheet
from handtorch.place.situation import cloud_name
from handtorch.studies.recognize_modes import SHEET, ModeRun
from handtorch.studies.recognize_places_phone import (
    GPUS,
    Costs,
    Phoned,
    Recorded,
    Spent,
    compute_ms,
    device_runs,
)
from handtorch.studies.recognize_regret import Cell

FITTED = ("lte", "lte-wpt", "3g-fast", "4g", "wifi-campus")     # seen while `auto` was written
# Not seen by anybody before `auto` was: between those that ship.
_MADE_UP = "made up for this study"
MADE = (Network("wifi-cafe", 22e6, 50e6, 30.0, "wifi", _MADE_UP, jitter_ms=2.0),
        Network("lte-town", 3.3e6, 10e6, 60.0, "lte", _MADE_UP, jitter_ms=5.0),
        Network("3g-road", 0.95e6, 2e6, 170.0, "3g", _MADE_UP, jitter_ms=5.0))
SENDINGS = (ORIGINAL, *SENT)
_ALONE_S, _BURST_S = 30.0, 1.0


@dataclass(frozen=True)
class Kind:
    """A target, and how far apart its pictures come."""

    name: str
    objective: Objective
    gap_s: float

    @property
    def unit(self) -> str:
        return "s" if self.objective == "latency" else "J"

    def cost(self, costs: Costs, one: Recognised, way: str, since_s: float | None) -> float:
        """Of one recognition, so long after the radio was used."""
        return one.span.seconds if self.unit == "s" else costs.joules(one, way, since_s)


KINDS = (Kind("latency", "latency", _BURST_S), Kind("energy, alone", "energy", _ALONE_S),
         Kind("energy, in a burst", "energy", _BURST_S))


@dataclass(frozen=True)
class Effort:
    """Rounds in each cell; a way that has taken `most_s` in all has done its part, and an original
    that takes `longest_s` to send cannot win: it is not sent."""

    networks: tuple[Network, ...]
    rounds: int
    most_s: float
    longest_s: float


def effort(quick: bool, every: bool = True) -> Effort:
    """With `every` network there is that nobody has seen; else, and if quick, those made up."""
    if quick:
        return Effort(MADE, 2, 0.4, 2.0)
    shipped = tuple(read_network(n) for n in shipped_networks() if n not in FITTED)
    return Effort((*MADE, *shipped) if every else MADE, 5, 5.0, 8.0)


@dataclass
class Places:
    """All cells, and sentences on what would turn a decision."""

    model: str
    cells: list[Cell] = field(default_factory=list)
    crossovers: list[str] = field(default_factory=list)


class _Clock:
    """Time of the phone's: what else is measured between two of its pictures does not pass there.
    """

    def __init__(self) -> None:
        self._now_s = 0.0

    def __call__(self) -> float:
        return self._now_s

    def skip(self, seconds: float) -> None:
        self._now_s += seconds


def run_places(model: str, runs: Sequence[ModeRun], url: str, scenes: Sequence[Scene],
               much: Effort, progress: Callable[[str], None]) -> Places:
    """Every network in turn; the server at `url` has the model, `runs` are those of the device."""
    found, devices = Places(model), device_runs(runs, model)
    parts = urlsplit(url)
    assert parts.hostname is not None and parts.port is not None
    for network in much.networks:
        progress(f"recognize: {model} over {network.name}")
        with Relay(parts.hostname, parts.port, network) as relay:
            seen = _OverOne(network, relay.url, model, devices, much)
            found.cells += seen.cells(scenes)
            found.crossovers += seen.crossovers
    return found


class _OverOne:
    """One network: every way of sending and `auto` for each kind of target, in turn, so that what
    else this machine does is fair to all."""

    def __init__(self, network: Network, url: str, model: str, devices: Mapping[str, ModeRun],
                 much: Effort) -> None:
        self._network, self._much, self._devices = network, much, devices
        self._url, self._model = url, model
        self._sheet = read_sheet(SHEET)
        self._radio = radio_in(self._sheet, network.radio)
        self.crossovers: list[str] = []

    def cells(self, scenes: Sequence[Scene]) -> Iterator[Cell]:
        there = self._connected()
        costs = Costs(self._sheet, self._radio, there.rtt_ms(3) / 1e3)
        given = Given(self._sheet, self._radio)
        autos = [_Playing(kind, self._devices, self._connected, given, costs) for kind in KINDS]
        try:
            for auto in autos:
                auto.look(scenes[0])
            for scene in scenes:
                yield from self._of_scene(scene, there, autos, costs)
        finally:
            for auto in autos:
                auto.close()
            there.close()

    def _connected(self, spent: Spent = lambda _: None) -> Phoned:
        return Phoned(InCloud(self._url, self._model), spent)

    def _of_scene(self, scene: Scene, there: Phoned, autos: Sequence[_Playing], costs: Costs
                  ) -> Iterator[Cell]:
        seen: dict[str, list[Recognised]] = {
            way: [Recorded(run, k)(scene.path) for k in range(len(compute_ms(run)))]
            for way, run in self._devices.items()}
        sending_s = 8e3 * scene.file_kb / link_of(self._network).up_bps
        spent_s = {way: 0.0 for way in SENDINGS if way != ORIGINAL
                   or sending_s < self._much.longest_s}
        for _ in range(self._much.rounds):
            for sending in spent_s:
                if spent_s[sending] < self._much.most_s:
                    one = there(scene.path, sending)
                    spent_s[sending] += one.span.seconds
                    seen.setdefault(cloud_name(sending), []).append(one)
            for auto in autos:
                auto.play(scene)
        for auto in autos:
            kind = auto.kind
            since_s = None if kind.gap_s == _ALONE_S else kind.gap_s
            taken = auto.taken()
            yield Cell(self._network.name, _named(scene), kind.name, kind.unit,
                       {way: [kind.cost(costs, one, way, since_s) for one in runs]
                        for way, runs in seen.items()}, *taken)
            said = auto.crossovers()
            if said:
                self.crossovers.append(f"{self._network.name}, {_named(scene)}, {kind.name}: "
                                       f"{said}")


class _Playing:
    """`auto` for one kind of target, its pictures as far apart as that says."""

    def __init__(self, kind: Kind, devices: Mapping[str, ModeRun],
                 connected: Callable[[Spent], Phoned], given: Given, costs: Costs) -> None:
        self.kind, self._costs, self._clock = kind, costs, _Clock()
        self._ways = len(devices)
        here = {way: Recorded(run, spent=self._clock.skip) for way, run in devices.items()}
        self._auto = Auto(here, lambda: connected(self._clock.skip), Target(kind.objective), given,
                          gpus=GPUS, hedge=False, clock=self._clock)
        self._auto.load()
        self._clock.skip(_ALONE_S)
        self._first: list[float] = []
        self._taken: list[float] = []

    def look(self, scene: Scene) -> None:
        """All places are tried."""
        self._first = [self._paid(scene) for _ in range(self._ways + 1)]

    def play(self, scene: Scene) -> None:
        self._taken.append(self._paid(scene))

    def taken(self) -> tuple[list[float], list[str], list[float]]:
        """Since the last time: what was paid, where, and what the first looks cost."""
        taken, first = self._taken, self._first
        used = [logged.used for logged in self._auto.done[-len(taken):]]
        self._taken, self._first = [], []
        return taken, used, first

    def crossovers(self) -> str:
        """What would turn the last choice, by what `auto` has learnt."""
        last = self._auto.done[-1]
        told = explained(self._auto.learner.situation(last.megapixels, last.file_bytes,
                                                      self._clock()), Target(self.kind.objective))
        said = [s for s in told.changes if "Mb/s" in s or "radio" in s or "pictures" in s]
        return f"{told.chosen.name}; {'; '.join(said)}" if said else ""

    def close(self) -> None:
        self._auto.close()

    def _paid(self, scene: Scene) -> float:
        before_s = self._auto.learner.since_s(self._clock())
        one = self._auto(scene.path)
        self._clock.skip(self.kind.gap_s)
        return self.kind.cost(self._costs, one, self._auto.done[-1].used, before_s)


def _named(scene: Scene) -> str:
    height, width = SIZES[scene.size]
    return f"scene {scene.number + 1}, {width} x {height}"


