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


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux")
def test_a_hanging_child_ends_with_a_killed_parent() -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        child = Path("/proc", parent.stdout.readline().decode().strip(), "stat")
        assert child.exists()
        parent.kill()
    give_up = time.monotonic() + 60
    while child.exists() and child.read_text().rpartition(")")[2].split()[0] != "Z":
        assert time.monotonic() < give_up, "the child runs on"
        time.sleep(0.01)
