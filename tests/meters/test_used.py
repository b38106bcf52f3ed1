"""What one process used."""

from __future__ import annotations

import subprocess
import sys

from handtorch import knobs

# In a process of its own: what this one ever held says nothing.
PROGRAM = """
from handtorch.meters.used import forget_peak, memory_of_process
much = bytearray(b"x") * (200 << 20)
del much
before = memory_of_process("VmHWM")
forget_peak()
print(before - memory_of_process("VmHWM") > 150 << 20, memory_of_process("VmRSS") > 0)
"""


def test_a_peak_that_is_forgotten_counts_from_there() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True,
                          check=True, env=knobs.environment_for_child())
    assert done.stdout == "True True\n"
