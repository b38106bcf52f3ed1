"""Limits on temperature and battery, for `step.yield_while`."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from handtorch import knobs
from handtorch.errors import BadInput
from handtorch.meters import battery, thermal
from handtorch.meters.signal import Found, Value

_EVERY_S = 1.0
_CHARGE = "_charge_ratio"


class Limits:
    """True while the machine should rest; the sensors are read once a second at most.

    It rests from the moment a zone is hotter than `temperature_c` until all are cooler by
    `cooler_c`, and from the moment a battery holds less than `battery` (0.2 is a fifth) until all
    hold 0.02 more. It also rests while a limit cannot be watched any more. `why` says what holds
    it, empty if nothing does.

    >>> limits = ht.Limits(temperature_c=70)
    >>> step.yield_while(limits)
    >>> step.yield_while(None)                      # and no longer
    """

    def __init__(self, *, temperature_c: float | None = None, battery: float | None = None,
                 cooler_c: float = 3.0, now: Callable[[], float] = time.monotonic) -> None:
        if temperature_c is None and battery is None:
            raise BadInput("limits without a limit", fix="Limits(temperature_c=70, battery=0.2)")
        if temperature_c is not None and not 0 < temperature_c < 200:
            raise BadInput(f"temperature_c={temperature_c!r}", why="it is in degrees Celsius")
        if battery is not None and not 0 < battery < 1:
            raise BadInput(f"battery={battery!r}", why="it is a share: 0.2 is a fifth")
        if not cooler_c >= 0:
            raise BadInput(f"cooler_c={cooler_c!r}", why="it is how much cooler it has to become")
        self._hottest, self._lowest, self._cooler = temperature_c, battery, cooler_c
        self._now, self._asked = now, -float("inf")
        self._zones, self._batteries = _found(temperature_c is not None, battery is not None)
        self.why = ""

    def __call__(self) -> bool:
        """Whether to rest now; `why` says what for.

        >>> limits = ht.Limits(temperature_c=70)
        >>> limits(), limits.why                    # at 41 degrees
        (False, '')
        """
        if self._now() - self._asked >= _EVERY_S:
            self.why = self._held(bool(self.why))
            self._asked = self._now()
        return bool(self.why)

    def _held(self, rests: bool) -> str:
        if self._hottest is not None:
            top = self._hottest - (self._cooler if rests else 0.0)
            known = [(v, name) for name, v in _read(self._zones, "_c").items()
                     if not isinstance(v, str)]
            if not known:
                return "no temperature can be read any more"
            degrees, zone = max(known)
            if degrees > top:
                return f"{zone} is at {degrees:.1f} C, and {top:g} C is the limit"
        if self._lowest is not None:
            least = self._lowest + (0.02 if rests else 0.0)
            held = [(v, name) for name, v in _read(self._batteries, _CHARGE).items()
                    if not isinstance(v, str)]
            if not held:
                return "no battery can be read any more"
            share, name = min(held)
            if share < least:
                return f"{name} holds {100 * share:.0f} %, and {100 * least:.0f} % is the limit"
        return ""


def _found(heat: bool, charge: bool) -> tuple[Found, Found]:
    """Sensors for the limits that are wanted; one that cannot be watched is refused."""
    root = Path(knobs.value("HANDTORCH_SENSORS"))
    zones = thermal.find(root) if heat else Found()
    batteries = battery.find(root) if charge else Found()
    for wanted, found, ending, what in ((heat, zones, "_c", "temperature"),
                                        (charge, batteries, _CHARGE, "battery")):
        if wanted and not any(s.quantity.endswith(ending) for s in found.signals):
            raise BadInput(f"a limit on {what}", why="; ".join(a.why for a in found.absent),
                           fix="`handtorch devices` lists the sensors; or a function of your own "
                               "with step.yield_while")
    return zones, batteries


def _read(found: Found, ending: str) -> dict[str, Value]:
    return {signal.quantity.removesuffix(ending): value for sensor in found.sensors
            for signal, value in zip(sensor.signals, sensor.read(), strict=True)
            if signal.quantity.endswith(ending)}
