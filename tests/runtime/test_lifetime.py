"""A child that hangs ends with its parent, even one that is killed."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

CHILD = """
import os
from handtorch.runtime.lifetime import end_with_parent
end_with_parent()
print(os.getpid(), flush=True)
while True: pass
"""
PARENT = f"""
import subprocess, sys
subprocess.Popen([sys.executable, "-c", {CHILD!r}]).wait()
"""
# The child waits until it is an orphan, and only then asks to end with its parent. Whoever takes it
# in is no parent of ours: process 1 on most machines, another one in containers.
LATE = """
import os, time
from handtorch.runtime.lifetime import end_with_parent
first = os.getppid()
print(os.getpid(), flush=True)
while os.getppid() == first: time.sleep(0.01)
end_with_parent()
while True: pass
"""
TAKES_ORPHANS_IN = """
import ctypes, subprocess, sys
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)             # PR_SET_CHILD_SUBREAPER
between = ("import subprocess, sys; from handtorch.knobs import environment_for_child; "
           "subprocess.Popen([sys.executable, '-c', sys.argv[1]], env=environment_for_child()); "
           "sys.stdin.read()")
p = subprocess.Popen([sys.executable, "-c", between, sys.argv[1]], stdin=subprocess.PIPE)
sys.stdin.readline()
p.kill()
p.wait()
sys.stdin.read()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux")
def test_a_hanging_child_ends_with_a_killed_parent() -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        child = Path("/proc", parent.stdout.readline().decode().strip(), "stat")
        assert child.exists()
        parent.kill()
    wait_until_ended(child)


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux")
def test_one_that_asks_too_late_ends_whoever_takes_orphans_in() -> None:
    with subprocess.Popen([sys.executable, "-c", TAKES_ORPHANS_IN, LATE], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE) as reaper:
        assert reaper.stdin is not None and reaper.stdout is not None
        child = Path("/proc", reaper.stdout.readline().decode().strip(), "stat")
        assert child.exists()
        reaper.stdin.write(b"now\n")
        reaper.stdin.flush()
        wait_until_ended(child)
        reaper.stdin.close()


def wait_until_ended(child: Path) -> None:
    give_up = time.monotonic() + 60
    while child.exists() and child.read_text().rpartition(")")[2].split()[0] != "Z":
        assert time.monotonic() < give_up, "the child runs on"
        time.sleep(0.01)
