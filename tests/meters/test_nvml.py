from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path

import pytest

from handtorch.meters import nvml
from tests.meters.power_trees import by_name, close, values, why

UINT, ULL = ctypes.POINTER(ctypes.c_uint), ctypes.POINTER(ctypes.c_ulonglong)
RATES, VOID = ctypes.POINTER(nvml.Utilization), ctypes.POINTER(ctypes.c_void_p)
FIX = "on a Jetson the rails tell the power: see ina3221"


class FakeNvml:
    """The library's functions with their true C types: what we hand over goes through ctypes.

    `codes` are what a function returns instead of success; `users` is how often it was started."""

    def __init__(self, gpus: int = 1, **codes: int) -> None:
        self.gpus, self.codes, self.users = gpus, codes, 0
        self.energy_mj, self.power_mw = 5_000_000_000, 31500
        self.nvmlInit_v2 = self._c("init", self._init)
        self.nvmlShutdown = self._c("shutdown", self._shutdown)
        self.nvmlDeviceGetCount_v2 = self._c("count", self._count, UINT)
        self.nvmlDeviceGetHandleByIndex_v2 = self._c("handle", self._handle, ctypes.c_uint, VOID)
        device = ctypes.c_void_p
        self.nvmlDeviceGetTotalEnergyConsumption = self._c("energy", self._energy, device, ULL)
        self.nvmlDeviceGetPowerUsage = self._c("power", self._power, device, UINT)
        self.nvmlDeviceGetUtilizationRates = self._c("busy", self._busy, device, RATES)

    def _c(self, name: str, body: Callable[..., None], *types: type) -> Callable[..., int]:
        def call(*arguments: object) -> int:
            if self.codes.get(name, 0) == 0:
                body(*arguments)
            return self.codes.get(name, 0)

        return ctypes.CFUNCTYPE(ctypes.c_int, *types)(call)

    def _init(self) -> None:
        self.users += 1

    def _shutdown(self) -> None:
        self.users -= 1

    def _count(self, count: ctypes._Pointer[ctypes.c_uint]) -> None:
        count[0] = self.gpus

    def _handle(self, index: int, device: ctypes._Pointer[ctypes.c_void_p]) -> None:
        device[0] = 0x7F00_0000_1000 + index       # a pointer needs all of its 64 bits

    def _energy(self, device: int, mj: ctypes._Pointer[ctypes.c_ulonglong]) -> None:
        mj[0] = self.energy_mj + device - 0x7F00_0000_1000

    def _power(self, device: int, mw: ctypes._Pointer[ctypes.c_uint]) -> None:
        mw[0] = self.power_mw

    def _busy(self, device: int, rates: ctypes._Pointer[nvml.Utilization]) -> None:
        rates[0].gpu, rates[0].memory = 37, 12


def find(library: FakeNvml) -> nvml.Found:
    return nvml.find(Path("/"), lambda: library)


def test_two_gpus() -> None:
    library = FakeNvml(gpus=2)
    found = find(library)
    assert values(found) == {
        "gpu0_energy_j": 5_000_000.0, "gpu0_power_w": 31.5, "gpu0_busy_ratio": 0.37,
        "gpu0_memory_busy_ratio": 0.12, "gpu1_energy_j": 5_000_000.001, "gpu1_power_w": 31.5,
        "gpu1_busy_ratio": 0.37, "gpu1_memory_busy_ratio": 0.12,
    }  # fmt: skip
    names = by_name(found)
    assert {s.basis for s in names.values()} == {"documented"}
    assert {s.kind for s in names.values()} == {"counter", "window"}
    assert names["gpu0_energy_j"].wraps_at is None and names["gpu0_power_w"].span_ns == 10**9
    assert found.absent == () and library.users == 2
    close(found)
    close(found)
    assert library.users == 0


def test_a_jetson_starts_the_library_and_reads_nothing() -> None:
    library = FakeNvml(energy=3, power=3, busy=3)
    found = find(library)
    assert found.sensors == ()
    assert why(found) == ["gpu0 is there but gives no energy, power or use: not supported"]
    assert found.absent[0].fix == FIX and library.users == 0


def test_what_one_gpu_lacks_is_said() -> None:
    found = find(FakeNvml(energy=3))
    assert sorted(values(found)) == ["gpu0_busy_ratio", "gpu0_memory_busy_ratio", "gpu0_power_w"]
    assert why(found) == ["gpu0_energy_j: not supported"]
    close(found)


def test_a_gpu_that_is_lost_gives_reasons() -> None:
    library = FakeNvml()
    found = find(library)
    library.codes = {"energy": 15, "power": 15, "busy": 4242}
    assert values(found) == {
        "gpu0_energy_j": "the GPU is lost", "gpu0_power_w": "the GPU is lost",
        "gpu0_busy_ratio": "error 4242", "gpu0_memory_busy_ratio": "error 4242",
    }  # fmt: skip
    close(found)


@pytest.mark.parametrize(
    ("library", "said"),
    [
        (FakeNvml(init=9), "libnvidia-ml.so.1 does not start: the driver is not loaded"),
        (FakeNvml(count=4), "the GPUs cannot be counted: no permission"),
        (FakeNvml(gpus=0), "libnvidia-ml.so.1 counts 0 GPUs"),
        (FakeNvml(handle=15), "gpu0: the GPU is lost"),
    ],
)
def test_a_library_that_does_not_come_so_far(library: FakeNvml, said: str) -> None:
    found = find(library)
    assert (found.sensors, why(found), library.users) == ((), [said], 0)


def test_an_old_library_lacks_a_function() -> None:
    library = FakeNvml()
    del library.nvmlDeviceGetTotalEnergyConsumption
    found = find(library)
    assert why(found) == ["gpu0_energy_j: the library has no such function"]
    assert "gpu0_power_w" in by_name(found)
    close(found)


def test_no_library_and_no_other_root(tmp_path: Path) -> None:
    def missing() -> nvml.Nvml:
        raise OSError("libnvidia-ml.so.1: cannot open shared object file")

    assert why(nvml.find(Path("/"), missing)) == [
        "libnvidia-ml.so.1 cannot be loaded: no NVIDIA driver here"
    ]
    assert why(nvml.find(tmp_path)) == ["only on the machine itself, not below a folder"]


def test_the_true_library_or_its_absence() -> None:
    """On a machine with an NVIDIA driver it is read; here and elsewhere it says what is missing."""
    found = nvml.find(Path("/"))
    assert found.sensors or found.absent
    assert len(values(found)) == len(found.signals)
    close(found)
