"""One process: its clock, its threads, its memory. Most of it on a real one."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from pathlib import Path

import pytest

from handtorch.meters import threads
from handtorch.meters.signal import SLOW_NS, Found
from tests.meters.trees import plant, reasons, signal, values

STAT = "42 (a) b (c) S 1 42 42 0 -1 4194560 1 0 0 0 7 5 0 0 20 0 3 0 100 1 1\n"
TREE = {
    "proc/42/task/42/schedstat": "1500000000 20 3\n",
    "proc/42/task/43/schedstat": "7 0 1\n",
    "proc/42/statm": "900 300 100 1 0 200 0\n",
    "proc/42/stat": STAT,
}


def busy(seconds: float) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def clock(found: Found) -> threads.ProcessClock:
    (one,) = (sensor for sensor in found.sensors if isinstance(sensor, threads.ProcessClock))
    return one


def test_a_recorded_process(tmp_path: Path) -> None:
    found = threads.find(plant(tmp_path, TREE), 42)
    page = os.sysconf("SC_PAGE_SIZE")
    assert values(found) == {
        "thread42_busy_s": 1.5, "thread43_busy_s": 7e-9,
        "process_resident_bytes": 300.0 * page, "threads_count": 3.0,
    }  # fmt: skip
    one = signal(found, "thread43_busy_s")
    assert (one.kind, one.every_ns, one.step) == ("counter", SLOW_NS, 1e-9)
    assert one.span_ns == round(1e9 * time.clock_getres(6))    # a tick of this kernel
    assert reasons(found) == [
        "process_busy_s: a clock of the running kernel, not one of its files"
    ]


def test_no_such_process(tmp_path: Path) -> None:
    assert reasons(threads.find(tmp_path, 42)) == ["no process 42"]


@pytest.mark.parametrize(
    ("file", "text", "why"),
    [
        ("task/43/schedstat", "7 0\n", "has 2 counts, not 3"),
        ("task/43/schedstat", "-7 0 1\n", "says -7, which cannot be less than 0"),
        ("statm", "900\n", "has 1 counts, not 7"),
        ("stat", "42 (a b\n", "has 3 fields after the name, not 18 or more"),
    ],
)
def test_other_forms(tmp_path: Path, file: str, text: str, why: str) -> None:
    found = threads.find(plant(tmp_path, TREE | {f"proc/42/{file}": text}), 42)
    assert reasons(found)[1:] == [f"/proc/42/{file}: {why}"]


def test_our_own_process_counts_what_its_threads_do() -> None:
    found = threads.find(Path("/"), os.getpid())
    process = clock(found)
    (before,) = process.read()
    busy(0.03)
    worker = threading.Thread(target=busy, args=(0.05,))
    worker.start()
    worker.join()                       # it began after the search and has ended before the reading
    (after,) = process.read()
    assert isinstance(before, float) and isinstance(after, float)
    assert after - before >= 0.08
    told = values(found)
    assert told["process_resident_bytes"] > 10e6  # type: ignore[operator]
    assert told["threads_count"] == len(os.listdir("/proc/self/task"))
    mine = told[f"thread{threading.get_native_id()}_busy_s"]
    assert isinstance(mine, float)
    assert abs(mine - time.thread_time()) < 0.1


def test_the_clock_of_another_process_never_falls_and_ends_with_it() -> None:
    child = subprocess.Popen(["cat", "/dev/zero"], stdout=subprocess.DEVNULL)
    found = threads.find(Path("/"), child.pid)
    process = clock(found)
    assert signal(found, f"thread{child.pid}_busy_s").where == (
        f"/proc/{child.pid}/task/{child.pid}/schedstat"
    )
    seen = [process.read()[0] for _ in range(200)]
    child.kill()
    child.wait()
    assert all(isinstance(value, float) for value in seen)
    assert seen == sorted(seen)
    assert process.read() == ("the process has no clock (Invalid argument): it has ended",)
    assert set(map(type, values(found).values())) == {str}
