"""/proc/stat and /proc/meminfo."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from handtorch.meters import procfs
from handtorch.meters.signal import MEDIUM_NS
from tests.meters.trees import closed, plant, reasons, signal, values

STAT = """\
cpu  300 60 90 1200 30 6 9 15 21 3
cpu0 100 20 30 400 10 2 3 5 7 1
cpu3 200 40 60 800 20 4 6 10 14 2
intr 73777505 41 9
ctxt 91640373
btime 1794782652
"""
MEMORY = "MemTotal:       24682416 kB\nMemFree:        20415168 kB\nMemAvailable:   24069812 kB\n"


def test_busy_and_idle_seconds_of_each_core(tmp_path: Path) -> None:
    """busy = user + nice + system + irq + softirq (guest is inside user), idle has iowait."""
    plant(tmp_path, {"proc/stat": STAT, "sys/devices/system/cpu/present": "0-1,3\n"})
    found = procfs.find(tmp_path)
    assert values(found) == {
        "cpu0_busy_s": 155 / procfs.TICKS_PER_S, "cpu0_idle_s": 410 / procfs.TICKS_PER_S,
        "cpu1_busy_s": "core 1 is offline", "cpu1_idle_s": "core 1 is offline",
        "cpu3_busy_s": 310 / procfs.TICKS_PER_S, "cpu3_idle_s": 820 / procfs.TICKS_PER_S,
        "stolen_s": 15 / procfs.TICKS_PER_S,
    }  # fmt: skip
    core = signal(found, "cpu3_busy_s")
    assert (core.kind, core.part, core.every_ns, core.where) == (
        "counter", "cpu3", MEDIUM_NS, "/proc/stat")  # fmt: skip
    assert core.step == procfs.TICK_S and core.span_ns == procfs.TICK_NS
    assert reasons(found) == ["/proc/meminfo: No such file or directory"]


def test_a_core_goes_offline_and_comes_back(tmp_path: Path) -> None:
    plant(tmp_path, {"proc/stat": STAT})
    (sensor,) = procfs.find(tmp_path).sensors
    before = sensor.read()
    plant(tmp_path, {"proc/stat": STAT.replace("cpu3 200 40 60 800 20 4 6 10 14 2\n", "")})
    assert sensor.read() == [*before[:2], "core 3 is offline", "core 3 is offline", before[4]]
    plant(tmp_path, {"proc/stat": STAT})
    assert sensor.read() == before
    sensor.close()


def test_a_cut_line_is_not_a_smaller_count() -> None:
    whole = procfs.core_seconds(STAT)
    cut = procfs.core_seconds(STAT[: STAT.index(" 800 20 4") + 4])
    assert cut == {0: whole[0]}


def test_old_kernels_have_fewer_columns(tmp_path: Path) -> None:
    text = "cpu  1 2 3 4 5\ncpu0 1 2 3 4 5\n"
    assert values(procfs.find(plant(tmp_path, {"proc/stat": text}))) == {
        "cpu0_busy_s": 6 / procfs.TICKS_PER_S, "cpu0_idle_s": 9 / procfs.TICKS_PER_S,
        "stolen_s": "this kernel does not count stolen time",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "has no line of a core"),
        ("intr 1 2\n", "has no line of a core"),
        ("cpu0 1 2 3 4\n", "has 4 counts for cpu0, not 5 or more"),
        ("cpu0 1 2 3 4 x\n", "says 'x', not a whole number"),
        ("cpux 1 2 3 4 5\n", "says 'cpux' where a core should be"),
        ("cpu0 1 2 3 -4 5\n", "says -4, which cannot be less than 0"),
    ],
)
def test_another_form_is_refused(tmp_path: Path, text: str, why: str) -> None:
    found = procfs.find(plant(tmp_path, {"proc/stat": text, "proc/meminfo": MEMORY}))
    assert reasons(found) == [f"/proc/stat: {why}"]
    assert list(values(found)) == ["memory_available_bytes"]


def test_android_keeps_stat_from_apps(tmp_path: Path) -> None:
    plant(tmp_path, {"proc/stat": STAT, "proc/meminfo": MEMORY})
    with closed(tmp_path, "proc/stat") as root:
        found = procfs.find(root)
    assert reasons(found) == ["/proc/stat: Permission denied"]
    assert found.absent[0].fix == "run as root, or make /proc/stat readable"
    assert len(found.signals) == 1


def test_memory(tmp_path: Path) -> None:
    found = procfs.find(plant(tmp_path, {"proc/meminfo": MEMORY}))
    assert values(found) == {"memory_available_bytes": 24069812 * 1024.0}
    assert signal(found, "memory_available_bytes").kind == "gauge"


def test_memory_of_a_jetson_gpu(tmp_path: Path) -> None:
    nvmap = "NvMapMemFree:          0 kB\nNvMapMemUsed:        512 kB\n"
    plant(tmp_path, {"proc/meminfo": MEMORY + nvmap})
    found = procfs.find(tmp_path)
    assert values(found)["gpu_memory_used_bytes"] == 512 * 1024
    assert signal(found, "gpu_memory_used_bytes").part == "gpu"
    assert signal(found, "gpu_memory_used_bytes").basis == "documented"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("MemFree: 1 kB\n", "has no line MemAvailable"),
        ("MemAvailable: 1 MB\n", "MemAvailable is in 'MB', not in kB"),
        ("MemAvailable: x kB\n", "says 'x', not a whole number"),
        (f"MemAvailable: {2**51} kB\n", f"MemAvailable says {2**61} bytes"),
    ],
)
def test_other_forms_of_meminfo(tmp_path: Path, text: str, why: str) -> None:
    found = procfs.find(plant(tmp_path, {"proc/stat": STAT, "proc/meminfo": text}))
    assert reasons(found) == [f"/proc/meminfo: {why}"]


def test_every_line_of_a_recorded_stat(shared: Path, tmp_path: Path) -> None:
    text = (shared / "data/logs/proc_stat_procfs_8cpu.txt").read_text()
    told = values(procfs.find(plant(tmp_path, {"proc/stat": text})))
    assert len(text) > 65536 and len(told) == 17      # the lines of the cores come first
    ticks = {line.split()[0]: [int(tick) for tick in line.split()[1:]]
             for line in text.splitlines() if line.startswith("cpu")}
    assert len(ticks) == 9
    for core in range(8):
        user, nice, system, idle, wait, irq, soft, *_ = ticks[f"cpu{core}"]
        assert told[f"cpu{core}_busy_s"] == (user + nice + system + irq + soft) / procfs.TICKS_PER_S
        assert told[f"cpu{core}_idle_s"] == (idle + wait) / procfs.TICKS_PER_S
    assert told["cpu0_busy_s"] == pytest.approx(689.65)
    assert told["stolen_s"] == 0.0
    others = {line.split()[0] for line in text.splitlines()} - set(ticks)
    assert others == {"intr", "ctxt", "btime", "processes", "procs_running", "procs_blocked",
                      "softirq"}  # fmt: skip


def test_this_machine() -> None:
    found = procfs.find(Path("/"))
    told = values(found)
    assert told["cpu0_busy_s"] > 0 and 0 < told["memory_available_bytes"] < 2**50  # type: ignore[operator]


@pytest.mark.parametrize("text, used", [
    ("cpu  400 50 200 9 9 10 10 30 7 0\ncpu0 1 2 3 4 5\n", 7.0),
    ("cpu  400 50 200 9 9\n", 6.5),
    ("cpu0 1 2 3 4 5\n", "/proc/stat has no line of all cores"),
    ("cpu  1 2\n", "/proc/stat has 2 counts for cpu, not 5 or more"),
])
def test_what_all_programs_used(tmp_path: Path, text: str, used: float | str) -> None:
    found = procfs.used_seconds(plant(tmp_path, {"proc/stat": text}))
    assert found == used if isinstance(used, str) else found == pytest.approx(used)


def test_a_machine_that_hides_it(tmp_path: Path) -> None:
    assert procfs.used_seconds(tmp_path) == "/proc/stat: No such file or directory"


def of_process(parent: int, *ticks: int) -> str:
    """utime, stime, and both of the children that it waited for; the name may be anything."""
    return f"9 (a ) b) S {parent} 1 1 0 -1 4194560 1 2 3 4 {' '.join(map(str, ticks))} 20 0 1 0 5\n"


def test_a_process_and_all_under_it(tmp_path: Path) -> None:
    """Compilers that a side of a comparison has started, say; others' processes are not in it."""
    plant(tmp_path, {"proc/7/stat": of_process(1, 100, 20, 3, 0),
                     "proc/8/stat": of_process(7, 10, 0, 0, 0),
                     "proc/9/stat": of_process(8, 1000, 0, 0, 50),
                     "proc/10/stat": of_process(1, 5555, 0, 0, 0), "proc/11/stat": "half a line"})
    assert procfs.tree_seconds(7, tmp_path) == 1183 / procfs.TICKS_PER_S
    assert procfs.tree_seconds(9, tmp_path) == 1050 / procfs.TICKS_PER_S
    assert procfs.tree_seconds(12, tmp_path) == "/proc/12/stat cannot be read"


def test_what_a_grandchild_computes_is_in_it() -> None:
    begin = procfs.tree_seconds(os.getpid())
    burn = "import time\nwhile time.process_time() < 0.3: pass"
    run = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {burn!r}], check=True)"
    with subprocess.Popen([sys.executable, "-c", f"{run}; print(flush=True); input()"],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          start_new_session=True) as child:
        assert child.stdout is not None and child.stdout.readline() == b"\n"
        alive = procfs.tree_seconds(os.getpid())
        child.communicate(b"\n")
    ended = procfs.tree_seconds(os.getpid())
    assert isinstance(begin, float) and isinstance(alive, float) and isinstance(ended, float)
    assert begin + 0.25 < alive <= ended
