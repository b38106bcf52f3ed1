"""/proc/schedstat: written from the kernel's documentation; this machine's kernel has none."""

from __future__ import annotations

from pathlib import Path

import pytest

from handtorch.meters import schedstat
from tests.meters.trees import plant, reasons, signal, values

DOMAIN = "domain0 3 " + " ".join("0" * 36) + "\n"
TEXT = (f"version 15\ntimestamp 4295000000\ncpu0 0 0 10 4 6 3 2500000000 900 8\n{DOMAIN}"
        f"cpu1 0 0 9 4 5 2 1000 800 7\n{DOMAIN}")  # fmt: skip


def test_run_seconds_of_each_core(tmp_path: Path) -> None:
    found = schedstat.find(plant(tmp_path, {"proc/schedstat": TEXT}))
    assert values(found) == {"cpu0_run_s": 2.5, "cpu1_run_s": 1e-6}
    assert signal(found, "cpu1_run_s").basis == "documented"


def test_a_core_goes_offline(tmp_path: Path) -> None:
    (sensor,) = schedstat.find(plant(tmp_path, {"proc/schedstat": TEXT})).sensors
    plant(tmp_path, {"proc/schedstat": TEXT[: TEXT.index("cpu1")]})
    assert sensor.read() == [2.5, "cpu1 is offline"]
    sensor.close()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "does not begin with its version"),
        (TEXT.replace("15", "14"), "is of version 14, which is not known here"),
        (TEXT.replace(" 900 8", ""), "has 7 counts for cpu0, not 9"),
        ("version 15\ntimestamp 1\n", "has no line of a core"),
        ("version 15\ncpu0 0 0 10 4 6 3 25", "has no line of a core"),      # cut
    ],
)
def test_other_forms(tmp_path: Path, text: str, why: str) -> None:
    found = schedstat.find(plant(tmp_path, {"proc/schedstat": text}))
    assert reasons(found) == [f"/proc/schedstat: {why}"]


def test_a_kernel_without_it(tmp_path: Path) -> None:
    (absent,) = schedstat.find(tmp_path).absent
    assert (absent.why, absent.fix) == ("no /proc/schedstat", "a kernel with CONFIG_SCHEDSTATS")
