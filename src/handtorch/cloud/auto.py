"""Recognition wherever it is best: decides for each picture, acts, learns from it, and says why.

    first     each way on the device is tried once, then the server
    decide    `place` foretells every way and ranks them for the target; hysteresis, probes
    hedge     a server that is late does not keep the picture: the device computes it too, and the
              first answer counts
    breaker   a server that failed is left alone for 1, 2, 4 .. 60 s

A picture that must not leave the device never does: no connection is made at all. Whatever was not
done as decided is said, in `Logged.said`."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from math import inf
from pathlib import Path

from handtorch.cloud.headers import read_header
from handtorch.cloud.picture_file import read_picture
from handtorch.cloud.recognised import Recognised
from handtorch.cloud.two_places import Here, Outcome, There, TwoPlaces, first_line
from handtorch.errors import BadInput, HandTorchError
from handtorch.place.breaker import Breaker
from handtorch.place.decide import Decision, Target, decide
from handtorch.place.learn import Given, Learner, SeenHere, SeenThere, quantile
from handtorch.place.policy import Choice, Policy
from handtorch.place.situation import CLOUD, DEVICE, ORIGINAL, Candidate, candidates, cloud_name

KEPT = 1000                         # decisions that can still be explained
RTT_EVERY_S = 30.0
_CONNECT_S = 5.0
_STALE_S, _STALE_CALLS = 60.0, 20
_LATE, _LATE_ENOUGH = 3.0, 8        # of what was foretold, before so many tell what is late
_LEAST_LATE = 1.5                   # a steady network is no reason for haste
_FIRST_PATIENCE_S = 2.0


@dataclass(frozen=True)
class Logged:
    """One picture: what was foretold, what was chosen, and what came of it.

    `used` gave the answer, which is not `chosen` where the server was late or failed; `said` then
    tells so. `decision` is None while something is tried for the first time."""

    number: int
    at_s: float
    picture: str
    megapixels: float
    file_bytes: int
    kind: str                       # first, stay, switch, wait, probe
    chosen: str
    used: str
    took_s: float
    said: tuple[str, ...]
    decision: Decision | None


@dataclass(frozen=True)
class _Asked:
    path: Path
    megapixels: float
    file_bytes: int
    at_s: float


@dataclass(frozen=True)
class _Way:
    """What to do: a name, when a server is late, and the words that go with it."""

    kind: str
    name: str
    patience_s: float
    detail: str = ""
    decision: Decision | None = None
    choice: Choice | None = None


class Auto:
    """Recognises pictures here or there. Not for several threads at once.

    `gpus` are the ways on the device whose own clock is a GPU's. Without `hedge` a server may take
    as long as it likes."""

    def __init__(self, here: Mapping[str, Here], connect: Callable[[], There] | None,
                 target: Target, given: Given | None = None, *, gpus: Collection[str] = (),
                 hedge: bool = True, clock: Callable[[], float] = time.monotonic) -> None:
        if target.private and not here:
            raise BadInput("nothing may leave the device", why="and nothing computes on it")
        self.target, self._gpus, self._hedge, self._clock = target, gpus, hedge, clock
        self._places = TwoPlaces(here, None if target.private else connect)
        self.learner = Learner(tuple(here), given or Given())
        self.policy, self.breaker = Policy(), Breaker()
        self._done: deque[Logged] = deque(maxlen=KEPT)
        self._number, self._rtt_at_s = 0, -inf
        self._seen: dict[str, tuple[int, float]] = {}       # by way here, or cloud: call, when
        self._late: deque[float] = deque(maxlen=32)         # times over what was foretold

    def load(self) -> None:
        """Every model is in memory, and the server was greeted if there is one."""
        self._places.load()
        if self._places.has_server:
            self._greet(3)

    def close(self) -> None:
        self._places.close()

    @property
    def done(self) -> tuple[Logged, ...]:
        """The last thousand pictures, oldest first."""
        return tuple(self._done)

    def __call__(self, path: Path) -> Recognised:
        """The first answer; `done[-1]` says where it is from, and why."""
        data = read_picture(path)
        asked = _Asked(path, read_header(data).pixels / 1e6, len(data), self._clock())
        self._number += 1
        self.learner.asked(asked.at_s)
        way = self._way(asked)
        outcome = self._acted(way, asked)
        used = outcome.local or way.name
        # Who raced took longer than the one who won.
        took_s = self._clock() - asked.at_s if outcome.said else outcome.found.span.seconds
        self._learn(way, asked, outcome)
        self._done.append(Logged(
            self._number, asked.at_s, path.name, asked.megapixels, asked.file_bytes, way.kind,
            way.name, used, took_s, tuple(s for s in (way.detail, outcome.said) if s),
            way.decision))
        return outcome.found

    def _way(self, asked: _Asked) -> _Way:
        """What to do with this picture."""
        has_server = self._places.has_server
        cloud = has_server and not self.breaker.is_open(asked.at_s)
        for name in self.learner.unseen():
            return _Way("first", name, inf)
        if cloud and not self.learner.knows_server():
            here = candidates(self.learner.situation(asked.megapixels, asked.file_bytes,
                                                     asked.at_s, cloud=False))
            return _Way("first", cloud_name(self._first_sending()),
                        min(_FIRST_PATIENCE_S, self._deadline_left_s(here)))
        at = self.learner.situation(asked.megapixels, asked.file_bytes, asked.at_s, cloud=cloud)
        ways = candidates(at)
        decision = decide(ways, self.target)
        choice = self.policy.choose(decision, self._stale(ways, asked.at_s))
        detail = choice.detail if cloud or not has_server else (
            f"the server is left alone for {self.breaker.left_s(asked.at_s):.1f} s more "
            f"({self.breaker.reason})")
        return _Way(choice.kind, choice.candidate.name, self._patience_s(choice.candidate, ways),
                    detail, decision, choice)

    def _first_sending(self) -> str:
        """The one that costs least on a network that nobody knows."""
        small = [way for way in self.learner.given.sendings if way != ORIGINAL]
        return small[-1] if small else ORIGINAL

    def _stale(self, ways: Collection[Candidate], now_s: float) -> set[str]:
        def is_stale(way: Candidate) -> bool:
            number, at_s = self._seen[CLOUD if way.place == CLOUD else way.name]
            return now_s - at_s > _STALE_S and self._number - number > _STALE_CALLS
        return {way.name for way in ways if is_stale(way)}

    def _patience_s(self, candidate: Candidate, ways: Collection[Candidate]) -> float:
        """Until when a server may answer: as late as one in twenty is, or as long as the device
        can still keep the deadline."""
        usual_s = candidate.p50_s.value
        assert usual_s is not None
        late = quantile(self._late, 0.95) if len(self._late) >= _LATE_ENOUGH else _LATE
        return min(usual_s * max(_LEAST_LATE, late), self._deadline_left_s(ways))

    def _deadline_left_s(self, ways: Collection[Candidate]) -> float:
        here = [way.p90_s.value or way.p50_s.value or 0.0 for way in ways if way.place == DEVICE]
        if self.target.p90_s is None or not here:
            return inf
        return max(0.0, self.target.p90_s - min(here))

    def _acted(self, way: _Way, asked: _Asked) -> Outcome:
        if way.name in self._places.ways:
            return self._places.here(way.name, asked.path)
        outcome = self._places.there(way.name.removeprefix(cloud_name("")), asked.path,
                                     way.patience_s if self._hedge else inf, self._local(way))
        if outcome.fault is None:
            self.breaker.succeeded()
        else:
            self._failed(outcome.fault)
        return outcome

    def _local(self, way: _Way) -> str | None:
        """The way on the device that the decision likes best, None if there is none."""
        ranked = [j.candidate.name for j in way.decision.judged] if way.decision else []
        return next((name for name in (*ranked, *self._places.ways)
                     if name in self._places.ways), None)

    def _failed(self, fault: HandTorchError) -> None:
        self.breaker.failed(self._clock(), first_line(fault))
        self.learner.used_radio(self._clock())

    def _greet(self, times: int) -> None:
        """The round trip is known afterwards, or the server is left alone for a while."""
        told = self._places.rtt_s(times, _CONNECT_S)
        if isinstance(told, HandTorchError):
            self._failed(told)
            return
        self._rtt_at_s = self._clock()
        self.learner.network.answered(told, self._rtt_at_s)
        self.learner.used_radio(self._rtt_at_s)

    def _learn(self, way: _Way, asked: _Asked, outcome: Outcome) -> None:
        found, now_s = outcome.found, self._clock()
        self._seen[outcome.local or CLOUD] = (self._number, now_s)
        if outcome.local is None:
            self._learn_there(way, asked, found, now_s)
        elif not outcome.said:          # beside a late server it tells nothing of the device alone
            self._learn_here(outcome.local, asked, found)
        self.learner.ended(now_s)
        if way.choice is not None:
            cost = self.target.wanted(way.choice.candidate).value or 0.0
            self.policy.paid(way.choice, found.span.seconds
                             if self.target.objective == "latency" else cost)

    def _learn_here(self, name: str, asked: _Asked, found: Recognised) -> None:
        span = found.span
        gpu_ns = span.device_ns if name in self._gpus else None
        self.learner.saw_here(SeenHere(
            name, asked.megapixels, found.steps_ms["rescale"] / 1e3,
            found.steps_ms["compute"] / 1e3, span.cpu_ns / 1e9 / span.seconds,
            (gpu_ns or 0) / 1e9 / span.seconds, span.resident_bytes))

    def _learn_there(self, way: _Way, asked: _Asked, found: Recognised, now_s: float) -> None:
        ms, whole_s = found.steps_ms, found.span.seconds
        theirs = ms["queue"] + ms["compute"] + ms["send"]
        self.learner.saw_there(SeenThere(
            way.name.removeprefix(cloud_name("")), asked.megapixels, found.sent_bytes,
            ms["rescale"] / 1e3, ms["decode"] / 1e3, theirs / 1e3,
            whole_s - (ms["rescale"] + ms["decode"] + theirs) / 1e3, ms["upload"] / 1e3), now_s)
        usual_s = way.choice.candidate.p50_s.value if way.choice else None
        if usual_s:
            self._late.append(whole_s / usual_s)
        if now_s - self._rtt_at_s > RTT_EVERY_S:
            self._greet(1)
