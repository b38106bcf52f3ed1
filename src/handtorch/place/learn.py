"""What was seen of each place, as figures for the next decision.

Nothing here reads a clock: times come from the caller, so that a log can be played through again.
Each part of a recognition is learnt by itself (rescaling by pixels, the network by bytes, computing
as it is), so that a way that was never taken is foretold from the parts that it shares with others.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf

from handtorch.place.known import Known
from handtorch.place.link import LEAST_BYTES, Link, LinkEstimate
from handtorch.place.radio import Radio
from handtorch.place.rescale import DECODING, Rescaling, fitted
from handtorch.place.sheet import Sheet
from handtorch.place.situation import (
    DEVICE,
    ORIGINAL,
    SMALL_BYTES,
    SMALL_MEGAPIXELS,
    Local,
    Picture,
    Server,
    Situation,
)

WEIGHT = 0.2                            # of the newest in a mean that follows
_KEPT = 32                              # observations for a spread; half as many for a line
_ENOUGH = 5                             # below that a spread is not known


@dataclass(frozen=True)
class SeenHere:
    """One recognition on the device."""

    name: str
    megapixels: float
    rescale_s: float
    compute_s: float
    cores: float                        # busy, the mean of all of it
    gpu: float                          # share of the time
    memory_bytes: float


@dataclass(frozen=True)
class SeenThere:
    """One recognition on the server; `network_s` is what neither side worked, `upload_s` what of it
    passed between the first byte and the last of the request."""

    sending: str
    megapixels: float
    sent_bytes: int
    rescale_s: float
    decode_s: float
    there_s: float                      # queue, computing and packing
    network_s: float
    upload_s: float


class Mean:
    """Follows what it sees, by a fifth each time. The very first wakes threads and fills caches:
    it is forgotten once there is a second."""

    def __init__(self) -> None:
        self.value: float | None = None
        self.count = 0
        self._ratios: deque[float] = deque(maxlen=_KEPT)

    def saw(self, value: float) -> None:
        if self.value is None or self.count == 1:
            self.value = value
        else:
            if self.value > 0:
                self._ratios.append(value / self.value)
            self.value += max(WEIGHT, 1 / self.count) * (value - self.value)
        self.count += 1

    def tail(self, share: float = 0.9) -> float | None:
        """How many times the mean that share of all stays below; None before enough was seen."""
        return quantile(self._ratios, share) if len(self._ratios) >= _ENOUGH else None


def quantile(values: Sequence[float] | deque[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


class _Line:
    """Seconds over megapixels."""

    def __init__(self, what: str, slope: float = inf) -> None:
        self._what, self._slope = what, slope       # what is thought of it before two sizes came
        self._points: deque[tuple[float, float]] = deque(maxlen=_KEPT // 2)

    def saw(self, megapixels: float, seconds: float) -> None:
        self._points.append((megapixels, seconds))

    def fit(self) -> Rescaling | None:
        if not self._points:
            return None
        how = f"{self._what}, the last {len(self._points)} pictures"
        return fitted(self._points, how, self._slope)


@dataclass(frozen=True)
class Given:
    """What is known without having been seen."""

    sheet: Sheet | None = None
    radio: Radio | None = None
    link: Link | None = None            # of a network that somebody named; what is seen is better
    sendings: tuple[str, ...] = (ORIGINAL, *SMALL_BYTES)


class Learner:
    """Sees recognitions, and says what is known before the next one."""

    def __init__(self, locals_: Sequence[str], given: Given) -> None:
        self.given, self.network = given, LinkEstimate()
        self._compute = {name: Mean() for name in locals_}
        self._last: dict[str, SeenHere] = {}
        self._rescale = {way: _Line(f"rescaling for {way}") for way in (DEVICE, *SMALL_BYTES)}
        self._there = Mean()
        self._decode = _Line("the server's decoding", DECODING.per_megapixel_s)
        self._small = {way: Mean() for way in SMALL_BYTES}
        self._radio_at_s: float | None = None
        self._ended_s: float | None = None
        self._burst, self._gap = 1, Mean()

    def asked(self, now_s: float) -> None:
        """A picture came. What the radio's tail joins is a burst, and a burst is expected to go on
        for as long as it has lasted: who waits longer before waking the radio pays at most double.
        """
        tail_s = self.given.radio.tail_s if self.given.radio else 0.0
        gap_s = None if self._ended_s is None else now_s - self._ended_s
        if gap_s is not None and gap_s < tail_s:
            self._burst += 1
            self._gap.saw(gap_s)
        else:
            self._burst = 1

    def ended(self, now_s: float) -> None:
        """The picture has its answer. What lies between two is not what computing took."""
        self._ended_s = now_s

    def saw_here(self, seen: SeenHere) -> None:
        self._compute[seen.name].saw(seen.compute_s)
        self._rescale[DEVICE].saw(seen.megapixels, seen.rescale_s)
        self._last[seen.name] = seen

    def saw_there(self, seen: SeenThere, now_s: float) -> None:
        """`now_s` is when the answer had come."""
        small = seen.sending != ORIGINAL
        self._there.saw(seen.there_s)
        self._decode.saw(SMALL_MEGAPIXELS if small else seen.megapixels, seen.decode_s)
        if small:
            self._rescale[seen.sending].saw(seen.megapixels, seen.rescale_s)
            self._small[seen.sending].saw(seen.sent_bytes)
        self.network.sent(seen.sent_bytes, self._moving_s(seen), now_s)
        self._radio_at_s = now_s

    def _moving_s(self, seen: SeenThere) -> float:
        """What bits took. Of a long request all that the round trip does not explain; a short one
        waits for other things as long, but what came between its ends was the network's doing.
        That may be too hopeful (all of it in one piece), so no more than four times is believed;
        the next long request tells."""
        # On a quick network the round trip is all of it, and its own noise may be more than that.
        rest_s = max(seen.network_s - self.network.rtt_s, 0.05 * seen.network_s)
        return max(seen.upload_s, rest_s / 4) if seen.sent_bytes < LEAST_BYTES else rest_s

    def used_radio(self, now_s: float) -> None:
        """Something went over it: a probe, or a request that nobody answered."""
        self._radio_at_s = now_s

    def knows_server(self) -> bool:
        return self._there.count > 0

    def is_fresh(self, now_s: float) -> bool:
        """Whether the network was seen within the last minute."""
        return self.network.link(now_s) is not None

    def unseen(self) -> tuple[str, ...]:
        """Ways on the device of which nothing is known yet."""
        return tuple(name for name, mean in self._compute.items() if not mean.count)

    def since_s(self, now_s: float) -> float | None:
        return None if self._radio_at_s is None else max(0.0, now_s - self._radio_at_s)

    def situation(self, megapixels: float, file_bytes: int, now_s: float, *, cloud: bool = True
                  ) -> Situation:
        """All that is known of this picture; without the cloud if that is out of the question."""
        found = Situation(
            Picture(megapixels, file_bytes, self._small_bytes()), self._rescalings(),
            tuple(self._local(name) for name, mean in self._compute.items() if mean.count),
            radio=self.given.radio, sheet=self.given.sheet, since_s=self.since_s(now_s),
            burst=self._burst, gap_s=self._gap.value or 1.0,
            # The answer's bits and the radio's waking are in the times that were measured.
            answer_bytes=0, radio_in_link=True, sendings=self.given.sendings)
        if not cloud or not self.knows_server():
            return found
        decode, there = self._decode.fit(), self._there.value
        assert decode is not None and there is not None
        server = Server(Known(there, "measured", f"the server's last {self._there.count} answers"),
                        decode, self._there.tail())
        return replace(found, server=server, link=self._link(now_s))

    def _link(self, now_s: float) -> Link | None:
        return self.network.link(now_s) or self.given.link or self.network.last(now_s)

    def _local(self, name: str) -> Local:
        mean, last = self._compute[name], self._last[name]
        assert mean.value is not None
        return Local(name, Known(mean.value, "measured", f"the last {mean.count} runs here"),
                     last.cores, last.gpu,
                     Known(last.memory_bytes, "measured", "this process"), mean.tail())

    def _rescalings(self) -> Mapping[str, Rescaling]:
        """Decoding is most of it, whatever follows: one that was never seen is as the others."""
        fits = {way: line.fit() for way, line in self._rescale.items()}
        other = next((fit for fit in fits.values() if fit is not None), None)
        found = {way: fit or other for way, fit in fits.items()}
        return {way: fit for way, fit in found.items() if fit is not None}

    def _small_bytes(self) -> Mapping[str, float]:
        return {way: mean.value or SMALL_BYTES[way] for way, mean in self._small.items()}
