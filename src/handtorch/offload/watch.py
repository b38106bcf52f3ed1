"""How busy others keep a place: a thread reads the machine's counts, a call looks at the last."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType

from handtorch.errors import DeviceError
from handtorch.meters.procfs import core_seconds
from handtorch.meters.signal import Sensor, Value
from handtorch.offload.place import Load

EVERY_S = 0.05
SPAN_S = 0.25                   # the counts of the kernel are in hundredths of a second
GPU_BUSY = "gpu_busy_ratio"
NOT_YET = Load(None, "nothing was read yet")


class _Watched:
    """What a place is given as its `load`; the thread of `Watch` keeps it up to date."""

    def __init__(self, own_s: Callable[[], float]) -> None:
        self._own_s = own_s
        self._past: deque[tuple[float, float, float]] = deque(maxlen=round(SPAN_S / EVERY_S) + 1)
        self.latest = NOT_YET

    def __call__(self) -> Load:
        return self.latest

    def _put(self, at_s: float, busy_s: float, parts: int) -> None:
        """Both counts at this moment: what everybody used, of which a part is our own."""
        try:
            own_s = self._own_s()
        except DeviceError as e:                # the process of the place has ended
            self.latest = Load(None, e.message().splitlines()[0])
            return
        self._past.append((at_s, busy_s, own_s))
        then_s, then_busy, then_own = self._past[0]
        if at_s - then_s < EVERY_S / 2:
            return
        busy = (busy_s - then_busy) - (own_s - then_own)
        self.latest = Load(min(1.0, max(0.0, busy / ((at_s - then_s) * parts))))


class CoreLoad(_Watched):
    """The share of these cores that processes besides ours use."""

    def __init__(self, cores: Sequence[int], own_s: Callable[[], float]) -> None:
        super().__init__(own_s)
        self.cores = tuple(cores)

    def update(self, at_s: float, known: dict[int, tuple[float, float]] | str) -> None:
        if isinstance(known, str):
            self.latest = Load(None, known)
            return
        missing = [core for core in self.cores if core not in known]
        if missing:
            self.latest = Load(None, f"core {missing[0]} is offline")
            return
        self._put(at_s, sum(known[core][0] for core in self.cores), len(self.cores))


class GpuLoad(_Watched):
    """The share of the GPU that others use, from the driver's own figure.

    `own_s` counts what our calls used of the GPU: without it our own work looks like load."""

    def __init__(self, sensor: Sensor, own_s: Callable[[], float]) -> None:
        super().__init__(own_s)
        self._sensor = sensor
        self._at = [s.quantity for s in sensor.signals].index(GPU_BUSY)
        self._busy_s = 0.0
        self._last_s: float | None = None

    def update(self, at_s: float) -> None:
        value: Value = self._sensor.read()[self._at]
        if isinstance(value, str):
            self.latest = Load(None, value)
            return
        if self._last_s is not None:
            self._busy_s += value * (at_s - self._last_s)
        self._last_s = at_s
        self._put(at_s, self._busy_s, 1)


def _nothing() -> float:
    return 0.0


class Watch:
    """Reads as long as it is open, every 50 ms; loads are means over the last quarter second.

    One thread for all places. Reading costs about 0.1 ms, in the thread, not in a call."""

    def __init__(self, root: Path = Path("/"), every_s: float = EVERY_S) -> None:
        self._every_s, self._stat = every_s, root / "proc/stat"
        self._cores: list[CoreLoad] = []
        self._gpus: list[GpuLoad] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="handtorch-load", daemon=True)
        self._thread.start()

    def cores(self, cores: Sequence[int], own_s: Callable[[], float] = time.process_time
              ) -> CoreLoad:
        """The load of these cores; `own_s` is the CPU time of what runs there for us."""
        load = CoreLoad(cores, own_s)
        self._cores.append(load)
        return load

    def gpu(self, sensors: Sequence[Sensor], own_s: Callable[[], float] = _nothing
            ) -> Callable[[], Load]:
        """The load of the GPU, if one of the sensors (`meters.search.find_all()`) tells it."""
        for sensor in sensors:
            if any(s.quantity == GPU_BUSY for s in sensor.signals):
                load = GpuLoad(sensor, own_s)
                self._gpus.append(load)
                return load
        unknown = Load(None, f"no sensor of this machine tells {GPU_BUSY}")
        return lambda: unknown

    def read(self, at_s: float) -> None:
        """Everything once; the thread does it every 50 ms."""
        known: dict[int, tuple[float, float]] | str
        try:
            known = core_seconds(self._stat.read_text())
        except (OSError, ValueError) as e:
            known = f"{self._stat.name}: {e}"
        for core in self._cores:
            core.update(at_s, known)
        for gpu in self._gpus:
            gpu.update(at_s)

    def _run(self) -> None:
        while not self._ended.wait(self._every_s):
            self.read(time.monotonic())

    def close(self) -> None:
        self._ended.set()
        self._thread.join()

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()
