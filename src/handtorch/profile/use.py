"""Joules of a span of time, by the best that is known of this machine.

Joules are `measured` where a sensor of this machine tells them, `estimated` where a sheet of a
device says what its parts draw, and else unknown, with the reason."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import numpy as np

from handtorch.meters.used import Span
from handtorch.place.sheet import Sheet
from handtorch.profile.energy.groups import mwh
from handtorch.profile.energy.join import integral
from handtorch.profile.energy.model import Series
from handtorch.profile.sampled import Readings
from handtorch.profile.sampling import Sampling

_READY_S = 2.0
# A battery feeds the whole device; the others tell of parts of it, more or less of them.
_WHOLE_FIRST = ("battery", "tegrastats", "ina3221", "rapl", "hwmon", "nvml")


@dataclass(frozen=True)
class Joules:
    """`total` None is unknown, and `how` says why."""

    total: float | None
    provenance: str                 # measured, estimated or unknown
    how: str

    def mean_w(self, seconds: float) -> float | None:
        return None if self.total is None or seconds <= 0 else self.total / seconds

    @property
    def mwh(self) -> float | None:
        return mwh(self.total)


class Meter:
    """Reads the machine's sensors between its begin and end, where that is wanted."""

    def __init__(self, sheet: Sheet | None = None, *, sensors: bool = True) -> None:
        self._sheet, self._sensors = sheet, sensors
        self._folder: Path | None = None
        self._sampling: Sampling | None = None
        self.readings: Readings | None = None

    def __enter__(self) -> Meter:
        if self._sensors:
            self._folder = Path(tempfile.mkdtemp(prefix="handtorch-"))
            self._sampling = Sampling(self._folder)
            self._sampling.start()
            self._sampling.ready(_READY_S)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        if self._sampling is not None:
            self._sampling.stop()
            self.readings = self._sampling.readings()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def joules(self, span: Span, gpu: bool = False) -> Joules:
        """What the machine took in that time, by the best that is known; after the end."""
        rails = self._rails()
        if rails:
            parts = [_taken(series, span.begin_ns, span.end_ns) for series in rails]
            known = [part for part in parts if part is not None]
            names = ", ".join(f"{s.signal.meter} {s.signal.quantity}" for s in rails)
            if len(known) == len(parts):
                return Joules(sum(known), "measured", names)
            return Joules(None, "unknown", f"{names}: not read before and after")
        if self._sheet is not None:
            return _estimated(span, self._sheet, gpu)
        return Joules(None, "unknown", "no sensor of this machine tells power or energy; "
                      "--sheet estimates it" if self._sensors else "sensors were not read")

    def _rails(self) -> list[Series]:
        """Those at the top of the meter that speaks of most."""
        if self.readings is None:
            return []
        by_meter: dict[str, list[Series]] = {}
        for series in self.readings.series:
            signal = series.signal
            unit = signal.quantity.rsplit("_", 1)[-1]
            if signal.kind != "gauge" and unit == ("j" if signal.kind == "counter" else "w"):
                by_meter.setdefault(signal.meter, []).append(series)
        for meter in (*_WHOLE_FIRST, *by_meter):
            if found := by_meter.get(meter):
                names = {s.signal.quantity for s in found}
                return [s for s in found if s.signal.parent not in names]
        return []


def _taken(series: Series, begin_ns: int, end_ns: int) -> float | None:
    good = np.isfinite(series.value)
    at, value = series.time_ns[good], series.value[good]
    if len(at) < 2 or begin_ns < at[0] or end_ns > at[-1]:
        return None
    if series.signal.kind == "counter":
        a, b = np.interp([begin_ns, end_ns], at, value)
        return float(b - a)
    return float(integral(at, value, np.array([begin_ns]), np.array([end_ns]))[0])


def _estimated(span: Span, sheet: Sheet, gpu: bool) -> Joules:
    """Idle for all of the time, and what is busy for as long as it is."""
    name = f"sheet of {sheet.name}"
    if sheet.idle_w.value is None:
        return Joules(None, "unknown", f"{name}: {sheet.idle_w.source}")
    cores = span.cpu_ns / 1e9 / max(span.seconds, 1e-9)
    busy_w = sheet.cores_w(cores)
    if busy_w is None:
        return Joules(None, "unknown", f"{name}: it has no [[cores]]")
    total = (sheet.idle_w.value + busy_w) * span.seconds
    how = f"{name}: idle {sheet.idle_w.value:g} W, {cores:.2f} cores busy {busy_w:.2f} W more"
    if gpu and span.device_ns is not None:
        if sheet.gpu_w.value is None:
            return Joules(None, "unknown", f"{name}: {sheet.gpu_w.source}")
        total += sheet.gpu_w.value * span.device_ns / 1e9
        how += f", GPU {sheet.gpu_w.value:g} W for {span.device_ns / 1e6:.1f} ms"
    return Joules(total, "estimated", f"{how}; no radio")
