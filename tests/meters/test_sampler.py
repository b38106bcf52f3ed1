"""The sampler's parts: deadlines, one reading, orders, and a whole one in this process."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from handtorch.knobs import environment_for_child
from handtorch.meters import ring, sampler
from handtorch.meters.pace import Pace
from handtorch.meters.sampler import Own, Pipe, Sampler, search
from handtorch.meters.signal import FAST_NS, Found
from tests.meters import fake_sensors as fake


def test_the_other_clocks_are_told() -> None:
    pace = Pace()
    pace.stretch = 8
    raw, boot, real, cpu, stretch = map(float, Own(lambda: 2_500_000_000, pace).read())
    now = time.monotonic()
    assert (cpu, stretch) == (2.5, 8)
    assert raw == pytest.approx(time.clock_gettime(time.CLOCK_MONOTONIC_RAW) - now, abs=0.1)
    assert boot == pytest.approx(time.clock_gettime(time.CLOCK_BOOTTIME) - now, abs=0.1)
    assert real == pytest.approx(time.time() - now, abs=0.1)


def test_orders_come_by_pipe() -> None:
    end, start = os.pipe()
    assert Pipe(end, os.getppid()).wait(0) == 0
    assert Pipe(end, os.getppid() + 1).wait(0) == ring.ORPHANED
    os.write(start, b"s")
    assert Pipe(end, os.getppid()).wait(0) == ring.ASKED
    os.close(start)
    assert Pipe(end, os.getppid()).wait(0) == ring.ORPHANED
    os.close(end)


class After:
    """Lets it run until the file holds so many readings, or 50 s."""

    def __init__(self, file: Path, readings: int) -> None:
        self._file, self._readings, self._until = file, readings, time.monotonic() + 50

    def wait(self, seconds: float) -> int:
        time.sleep(0.02)
        count = ring.read(self._file, slots=False).fields["count"]
        return ring.ASKED if count >= self._readings or time.monotonic() > self._until else 0


def sampled(folder: Path, found: Found, readings: int, silent_s: float = 1.0) -> ring.Recorded:
    file = folder / "r"
    one = Sampler(file, found, whole_process=False, most_bytes=1 << 24, limit_s=60,
                  silent_s=silent_s)
    assert one.run(After(file, readings)) == ring.ASKED
    assert one.close()
    return ring.read(file)


def test_missed_deadlines_of_a_slow_sensor_are_counted(tmp_path: Path) -> None:
    began = time.monotonic_ns()
    got = sampled(tmp_path, fake.slow(tmp_path, 0), 2 * 15)
    took = time.monotonic_ns() - began
    fields = got.fields
    taken = sum(1 for s in ring.SLOT.iter_unpack(got.slots) if s[3] == 5)
    assert taken >= 10 and taken - 2 <= fields["due_fast"] - fields["missed_fast"] <= taken
    assert fields["due_fast"] <= took / FAST_NS + 1
    assert fields["missed_fast"] >= 1.8 * (taken - 2)       # a loaded machine misses more
    # one every 10 ms, up to where it was stopped
    assert fields["due_fast"] >= (fields["state_ns"] - fields["started_ns"]) / FAST_NS - 20


def test_a_sensor_that_waits_does_not_hold_up_the_others(tmp_path: Path) -> None:
    got = sampled(tmp_path, Found((fake.Fake("fast"), fake.Takes("takes", 0.2, waits=True))), 100)
    of = [s[3] for s in ring.SLOT.iter_unpack(got.slots)]
    assert of.count(5) > 3 * of.count(7) > 0


def test_over_budget_it_reads_more_rarely_and_says_so(tmp_path: Path,
                                                      monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampler, "BUDGET_NS", 100_000_000)
    file = tmp_path / "r"
    one = Sampler(file, fake.burning(tmp_path, 0), whole_process=False, most_bytes=1 << 24,
                  limit_s=60, silent_s=1.0)

    class Slowed:
        until = time.monotonic() + 50

        def wait(self, seconds: float) -> int:
            time.sleep(0.02)
            slowed = ring.read(file, slots=False).fields["stretch"] >= 4
            return ring.ASKED if slowed or time.monotonic() > self.until else 0

    one.run(Slowed())
    assert one.close()
    got = ring.read(file)
    ratios = [s[2] for s in ring.SLOT.iter_unpack(got.slots) if s[3] == 4]
    assert got.fields["stretch"] >= 4 and ratios[0] == 1 and ratios[-1] >= 4


def test_after_its_time_it_ends(tmp_path: Path) -> None:
    one = Sampler(tmp_path / "r", Found(), whole_process=False, most_bytes=1 << 24, limit_s=0.05,
                  silent_s=1.0)

    class Never:
        def wait(self, seconds: float) -> int:
            time.sleep(0.02)
            return 0

    assert one.run(Never()) == ring.TOO_LONG and one.close()
    assert ring.read(tmp_path / "r").fields["state"] == ring.TOO_LONG


def test_a_sensor_that_hangs_is_left_alone_and_comes_back(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    file = tmp_path / "r"
    one = Sampler(file, fake.blocked(tmp_path, 0), whole_process=False, most_bytes=1 << 24,
                  limit_s=60, silent_s=0.1)
    writer = os.open(tmp_path / "fifo", os.O_RDWR)
    thread = threading.Thread(target=one.run, args=(After(file, 300),))
    thread.start()
    hung = _until(lambda: "no answer within 0.1 s" in ring.read(file).reasons)
    os.write(writer, b"x" * 10_000)                         # enough for all readings to come
    thread.join(60)
    os.close(writer)
    assert hung and one.close()
    got = ring.read(file)
    rows = list(ring.SLOT.iter_unpack(got.slots))
    of = {name: [r for r in rows if r[3] == at] for name, at in (("first", 5), ("blocks", 7),
                                                                 ("fast", 9))}
    reasons = [r[4] for r in of["blocks"]]
    assert reasons[:4] == [0, 0, 1, 0] and set(reasons[3:]) == {0}
    for name in ("first", "fast"):                          # they went on, none read twice
        assert [r[2] for r in of[name]] == list(range(1, len(of[name]) + 1))
        assert len(of[name]) > 10
    # two sweeps of all three; the third, in which it hung, met no deadline; then each on its own
    met = got.fields["due_fast"] - got.fields["missed_fast"]
    assert met <= 2 + (len(of["first"]) - 3) + (len(reasons) - 4)


def _until(holds: Callable[[], bool], seconds: float = 60) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if holds():
            return True
        time.sleep(0.01)
    return holds()


def test_sensors_are_found_by_name(tmp_path: Path) -> None:
    found = search("tests.meters.fake_sensors:plain", tmp_path, 1)
    assert [s.meter for s in found.signals] == ["fast", "fast", "medium", "medium"]


def test_its_process_loads_the_standard_library_alone() -> None:
    code = ("import sys; import handtorch.meters.sampler; "
            "print(sorted(m for m in sys.modules if m.split('.')[0] in "
            "('handtorch', 'numpy', 'torch', 'pyopencl', 'subprocess', 'multiprocessing')))")
    done = subprocess.run([sys.executable, "-S", "-c", code], env=environment_for_child(),
                          capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(sorted(
        ["handtorch", "handtorch.errors", "handtorch.late_dynamo", "handtorch.meters",
         "handtorch.meters.pace", "handtorch.meters.ring", "handtorch.meters.sampler",
         "handtorch.meters.signal"]))
