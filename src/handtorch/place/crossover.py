"""What would turn a decision: each quantity is varied alone until another candidate wins."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from handtorch.place.decide import Decision, Target, decide, shown_s, winner
from handtorch.place.situation import Picture, Situation, candidates

_PER_DECADE, _DECADES = 6, 3
_HALVINGS = 30
_BURSTS = (2, 3, 4, 6, 8, 12, 16, 32, 64)
_OTHER_TAIL_S = 5.0


@dataclass(frozen=True)
class Quantity:
    """A figure of a situation that can be made larger or smaller by a factor."""

    name: str
    now: Callable[[Situation], float | None]
    scaled: Callable[[Situation, float], Situation]
    shown: Callable[[float], str]


@dataclass(frozen=True)
class Change:
    """Beyond `at` (`side`: below or above) `winner` is chosen."""

    quantity: str
    side: str
    at: float
    winner: str
    sentence: str


def _up_scaled(at: Situation, factor: float) -> Situation:
    assert at.link is not None
    return replace(at, link=replace(at.link, up_bps=at.link.up_bps * factor,
                                    slow_up_bps=at.link.slow_up_bps * factor))


def _rtt_scaled(at: Situation, factor: float) -> Situation:
    assert at.link is not None
    return replace(at, link=replace(at.link, rtt_s=at.link.rtt_s * factor))


def _picture_scaled(at: Situation, factor: float) -> Situation:
    one = at.picture
    return replace(at, picture=Picture(one.megapixels * factor, one.file_bytes * factor,
                                       one.small_bytes))


def _device_scaled(at: Situation, factor: float) -> Situation:
    return replace(at, locals=tuple(
        replace(one, compute_s=one.compute_s.times(factor)) for one in at.locals))


def _server_scaled(at: Situation, factor: float) -> Situation:
    assert at.server is not None
    return replace(at, server=replace(at.server, compute_s=at.server.compute_s.times(factor)))


def _two(value: float) -> str:
    """Two digits that count, and no powers of ten."""
    return f"{value:.2g}" if value < 100 else f"{float(f'{value:.2g}'):.0f}"


QUANTITIES = (
    Quantity("up rate", lambda at: at.link.up_bps if at.link else None, _up_scaled,
             lambda bps: f"{_two(bps / 1e6)} Mb/s up"),
    Quantity("round trip", lambda at: at.link.rtt_s if at.link else None, _rtt_scaled,
             lambda s: f"a round trip of {shown_s(s)}"),
    Quantity("picture", lambda at: at.picture.megapixels, _picture_scaled,
             lambda mp: f"{_two(mp)} megapixels"),
    Quantity("device", lambda at: min((one.compute_s.value for one in at.locals
                                       if one.compute_s.value is not None), default=None),
             _device_scaled, lambda s: f"{shown_s(s)} of computing on the device"),
    Quantity("server", lambda at: at.server.compute_s.value if at.server else None,
             _server_scaled, lambda s: f"{shown_s(s)} of computing on the server"),
)


def explained(at: Situation, target: Target) -> Decision:
    """The decision, with what would turn it."""
    decision = decide(candidates(at), target)
    said = [change.sentence for change in changes(at, target)]
    return replace(decision, changes=(*said, *_otherwise(at, target, decision)))


def changes(at: Situation, target: Target) -> Iterator[Change]:
    """For each quantity the nearest change below and above what it is now."""
    for quantity in QUANTITIES:
        now = quantity.now(at)
        if not now:
            continue
        for side in ("below", "above"):
            found = crossover(at, target, quantity, side)
            if found is not None:
                factor, winner = found
                yield Change(quantity.name, side, now * factor, winner,
                             f"{side} {quantity.shown(now * factor)} {winner} would win")


def crossover(at: Situation, target: Target, quantity: Quantity, side: str
              ) -> tuple[float, str] | None:
    """The factor nearest to 1 at which another candidate is chosen, within a thousand times, and
    which; None if there is none."""
    def best(factor: float) -> str:
        return winner(candidates(quantity.scaled(at, factor)), target).name

    here, step = best(1.0), 10 ** ((1 if side == "above" else -1) / _PER_DECADE)
    near, far = 1.0, step
    for _ in range(_PER_DECADE * _DECADES):
        if best(far) != here:
            break
        near, far = far, far * step
    else:
        return None
    for _ in range(_HALVINGS):
        middle = (near * far) ** 0.5
        if best(middle) == here:
            near = middle
        else:
            far = middle
    return far, best(far)


def _otherwise(at: Situation, target: Target, decision: Decision) -> Iterator[str]:
    """What is not a number: privacy, a radio that is up, a burst, a shorter tail."""
    def other(situation: Situation, wanted: Target = target) -> str | None:
        name = winner(candidates(situation), wanted).name
        return None if name == decision.chosen.name else name

    if target.private and (name := other(at, replace(target, private=False))):
        yield f"if the picture might leave the device {name} would win"
    if at.radio is None or at.server is None or at.link is None:
        return
    if not at.radio.is_up(at.since_s) and (name := other(replace(at, since_s=0.0))):
        yield f"with the {at.radio.name} radio already up {name} would win"
    if at.burst == 1:
        for count in _BURSTS:
            if name := other(replace(at, burst=count)):
                yield (f"for {count} or more pictures, one every {at.gap_s:g} s, {name} would win")
                break
    if at.radio.tail_s > 2 * _OTHER_TAIL_S and (
            name := other(replace(at, radio=at.radio.with_tail(_OTHER_TAIL_S)))):
        yield (f"if the radio's tail were {_OTHER_TAIL_S:g} s, not {at.radio.tail_s:.3g} s, {name} "
               "would win")
