from __future__ import annotations

from handtorch.meters.listing import records, text
from handtorch.meters.signal import FAST_NS, SLOW_NS, Absent, Found, Signal


class Silent:
    waits = False

    def __init__(self, *signals: Signal) -> None:
        self.signals = signals

    def read(self) -> tuple[float, ...]:
        return tuple(0.0 for _ in self.signals)

    def close(self) -> None:
        return


FOUND = Found(
    (Silent(Signal("rapl", "package_energy_j", "counter", "cpu", FAST_NS),
            Signal("rapl", "core_energy_j", "counter", "cpu", FAST_NS, parent="package_energy_j"),
            Signal("rapl", "zone_c", "gauge", "cpu", SLOW_NS)),
     Silent(Signal("mali", "gpu_busy_ratio", "window", "gpu", SLOW_NS, basis="documented"))),
    (Absent("thermal", "no zone"), Absent("nvml", "no library", "install the driver")))


def test_every_signal_and_every_reason_is_told() -> None:
    assert text(FOUND, 200) == """\
sensors
  rapl: package_energy_j, core_energy_j of package_energy_j every 10 ms; zone_c every 1 s
  mali: gpu_busy_ratio (as documented, not yet seen) every 1 s

not to be read here:
  thermal: no zone
  nvml: no library; try: install the driver
"""


def test_long_lines_are_broken() -> None:
    assert max(map(len, text(FOUND, 40).splitlines())) <= 40


def test_for_machines() -> None:
    told = records(FOUND)
    assert [s["quantity"] for s in told["sensors"]] == [
        "package_energy_j", "core_energy_j", "zone_c", "gpu_busy_ratio"]
    assert told["sensors"][1]["parent"] == "package_energy_j"
    assert told["sensors_absent"] == [
        {"meter": "thermal", "why": "no zone", "fix": ""},
        {"meter": "nvml", "why": "no library", "fix": "install the driver"}]
