"""NVIDIA GPUs through the driver's own library, loaded with ctypes.

Documented: NVIDIA's NVML API Reference. On Jetson the library starts, finds one GPU, and answers
"not supported" to every question, so a GPU counts only once it was read."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Protocol, cast

from handtorch.meters.reading import nothing
from handtorch.meters.signal import MEDIUM_NS, Absent, Found, Kind, Sensor, Signal, Value

METER = "nvml"
LIBRARY = "libnvidia-ml.so.1"
_ENOUGH = 64                        # GPUs; more is a count that was not written
# nvmlReturn_t
ERRORS = {
    1: "not initialised", 2: "invalid argument", 3: "not supported", 4: "no permission",
    6: "not found", 9: "the driver is not loaded", 10: "timeout", 12: "the library is missing",
    13: "function not found", 15: "the GPU is lost", 17: "the operating system blocks it",
    18: "library and driver differ in version", 999: "unknown error",
}  # fmt: skip


class Nvml(Protocol):
    """The functions of the library that are called; each returns 0 or an error of `ERRORS`."""

    def nvmlInit_v2(self) -> int: ...
    def nvmlShutdown(self) -> int: ...
    def nvmlDeviceGetCount_v2(self, count: object, /) -> int: ...
    def nvmlDeviceGetHandleByIndex_v2(self, index: object, device: object, /) -> int: ...
    def nvmlDeviceGetTotalEnergyConsumption(self, device: object, mj: object, /) -> int: ...
    def nvmlDeviceGetPowerUsage(self, device: object, mw: object, /) -> int: ...
    def nvmlDeviceGetUtilizationRates(self, device: object, rates: object, /) -> int: ...


class Utilization(ctypes.Structure):
    """nvmlUtilization_t: per cent of the last sixth of a second to second."""

    _fields_ = (("gpu", ctypes.c_uint), ("memory", ctypes.c_uint))


Device = ctypes.c_void_p
Question = Callable[[Nvml, Device], tuple[Value, ...]]


def energy(library: Nvml, device: Device) -> tuple[Value, ...]:
    mj = ctypes.c_ulonglong()
    why = asked(library, "nvmlDeviceGetTotalEnergyConsumption", device, ctypes.byref(mj))
    return (why or mj.value / 1e3,)


def power(library: Nvml, device: Device) -> tuple[Value, ...]:
    mw = ctypes.c_uint()
    why = asked(library, "nvmlDeviceGetPowerUsage", device, ctypes.byref(mw))
    return (why or mw.value / 1e3,)


def busy(library: Nvml, device: Device) -> tuple[Value, ...]:
    rates = Utilization()
    why = asked(library, "nvmlDeviceGetUtilizationRates", device, ctypes.byref(rates))
    return (why or rates.gpu / 100, why or rates.memory / 100)


# What is asked, and what it gives: quantity, kind, span. The counter moves every 10 to 100 ms, by
# generation; power is the mean of a second from Ampere on, and at least as new before.
QUESTIONS: tuple[tuple[Question, tuple[tuple[str, Kind, int], ...]], ...] = (
    (energy, (("energy_j", "counter", 100_000_000),)),
    (power, (("power_w", "window", 1_000_000_000),)),
    (busy, (("busy_ratio", "window", 166_666_667), ("memory_busy_ratio", "window", 166_666_667))),
)


def asked(library: Nvml, name: str, *arguments: object) -> str:
    """Why the call failed; empty when it did not. An old library may lack a function."""
    function = getattr(library, name, None)
    if function is None:
        return "the library has no such function"
    code = function(*arguments)
    return "" if code == 0 else ERRORS.get(code, f"error {code}")


class Gpu:
    """One GPU; a call to the driver takes up to some ms."""

    waits = True

    def __init__(
        self, library: Nvml, device: Device, index: int, questions: Iterable[int]
    ) -> None:
        """The library counts who uses it: it stays up until `close`."""
        self._library, self._device, self._open = library, device, True
        self._asks = tuple(QUESTIONS[number][0] for number in questions)
        self.signals = tuple(
            Signal(METER, f"gpu{index}_{quantity}", kind, "gpu", MEDIUM_NS, span_ns,
                   basis="documented", where=LIBRARY)
            for number in questions for quantity, kind, span_ns in QUESTIONS[number][1]
        )  # fmt: skip
        asked(library, "nvmlInit_v2")

    def read(self) -> tuple[Value, ...]:
        return tuple(value for ask in self._asks for value in ask(self._library, self._device))

    def close(self) -> None:
        if self._open:
            self._open = False
            asked(self._library, "nvmlShutdown")


def load() -> Nvml:
    """Raises OSError where the library is not installed."""
    return cast(Nvml, ctypes.CDLL(LIBRARY))


def find(root: Path, load: Callable[[], Nvml] = load) -> Found:
    """Every GPU that answers. A library belongs to the running machine: no other root has any."""
    if root != Path("/"):
        return nothing(METER, "only on the machine itself, not below a folder")
    try:
        library = load()
    except OSError:
        return nothing(METER, f"{LIBRARY} cannot be loaded: no NVIDIA driver here")
    if why := asked(library, "nvmlInit_v2"):
        return nothing(METER, f"{LIBRARY} does not start: {why}")
    found = _gpus(library)
    asked(library, "nvmlShutdown")              # each sensor holds the library for itself
    return found


def _gpus(library: Nvml) -> Found:
    count = ctypes.c_uint()
    if why := asked(library, "nvmlDeviceGetCount_v2", ctypes.byref(count)):
        return nothing(METER, f"the GPUs cannot be counted: {why}")
    if not 0 < count.value <= _ENOUGH:
        return nothing(METER, f"{LIBRARY} counts {count.value} GPUs")
    sensors: list[Sensor] = []
    absent: list[Absent] = []
    for index in range(count.value):
        device = Device()
        handle = "nvmlDeviceGetHandleByIndex_v2"
        if why := asked(library, handle, ctypes.c_uint(index), ctypes.byref(device)):
            absent.append(Absent(METER, f"gpu{index}: {why}"))
            continue
        answers = {n: ask(library, device)[0] for n, (ask, _) in enumerate(QUESTIONS)}
        silent = {n: answer for n, answer in answers.items() if isinstance(answer, str)}
        if len(silent) == len(QUESTIONS):
            reasons = ", ".join(sorted(set(silent.values())))
            absent.append(Absent(
                METER, f"gpu{index} is there but gives no energy, power or use: {reasons}",
                "on a Jetson the rails tell the power: see ina3221",
            ))  # fmt: skip
            continue
        for number, answer in silent.items():
            quantity = QUESTIONS[number][1][0][0]
            absent.append(Absent(METER, f"gpu{index}_{quantity}: {answer}"))
        sensors.append(Gpu(library, device, index, [n for n in answers if n not in silent]))
    return Found(tuple(sensors), tuple(absent))
