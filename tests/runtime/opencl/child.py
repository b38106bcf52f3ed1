"""Python in a process of its own, with a cache of its own: for faults that last or that kill."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
# What the loader of this process has set, and what would lead the child elsewhere.
DROPPED = ("OCL_ICD_VENDORS", "OPENCL_VENDOR_PATH", "POCL_CACHE_DIR", "PYOPENCL_NO_CACHE",
           "HANDTORCH_DEVICE", "HANDTORCH_CACHE", "HANDTORCH_DUMP")

# Opens the device named by the first argument, `on`, and knows a small training step, `m`.
OPEN = """
import sys, warnings
from handtorch.errors import HandTorchError
from handtorch.pipeline import compile_graph
from handtorch.runtime.choose import open_executor
from tests.runtime.opencl.mlp import four_kernels
on = open_executor(sys.argv[1])
m = four_kernels()
def resident():
    return on.load(compile_graph(m.graph, on.spec), m.states)
"""


def environment(cache: Path, **settings: str) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if k not in DROPPED}
    paths = {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])}
    return kept | paths | {"HANDTORCH_CACHE": str(cache)} | settings


def start(cache: Path, code: str, *arguments: str, **settings: str) -> subprocess.Popen[str]:
    """The child, running `code`, with pipes on all sides."""
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, "-c", code, *arguments], text=True, cwd=ROOT,
                            env=environment(cache, **settings), stdin=pipe, stdout=pipe,
                            stderr=pipe)


def line(process: subprocess.Popen[str]) -> str:
    """The next line it prints; if there is none, its errors tell why."""
    assert process.stdout is not None and process.stderr is not None
    return process.stdout.readline().rstrip("\n") or process.stderr.read()


def go(processes: Sequence[subprocess.Popen[str]]) -> None:
    """Wait until each has said `ready`, then give all of them a line to go on with."""
    for process in processes:
        assert (said := line(process)) == "ready", said
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()


def output(process: subprocess.Popen[str]) -> str:
    """What it printed, once it has ended well."""
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, f"exit code {process.returncode}\n{out}\n{err}"
    return out


def run(cache: Path, code: str, *arguments: str, **settings: str) -> str:
    return output(start(cache, code, *arguments, **settings))
