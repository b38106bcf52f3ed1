"""What goes wrong outside our code: disks, drivers, memory, signals. Each is said, none is lost."""

from __future__ import annotations

import dataclasses
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from handtorch.errors import DeviceError, OutOfMemory
from handtorch.graph.node import Graph, Node, Port, Value
from handtorch.kernels.catalog import KERNELS
from handtorch.pipeline import compile_graph
from handtorch.runtime.device import Executor
from handtorch.runtime.host import NullExecutor, RefExecutor
from handtorch.runtime.opencl.context import OpenCLContext
from handtorch.runtime.opencl.discover import FoundDevice
from handtorch.runtime.opencl.executor import OpenCLExecutor
from tests.runtime.opencl import child
from tests.runtime.opencl.mlp import four_kernels, mlp

TRAIN = child.OPEN + """
r = resident()
print("ready", flush=True)
sys.stdin.readline()
print(*(float(r.submit(m.batch(i)).result()[0]) for i in range(3)), flush=True)
"""


def limited(found: FoundDevice, **facts: Any) -> OpenCLExecutor:
    """The device, as if it had less."""
    return OpenCLExecutor(dataclasses.replace(found, spec=dataclasses.replace(found.spec, **facts)))


# Memory.


def test_a_buffer_larger_than_the_device_allows(opencl_device: FoundDevice) -> None:
    on, limit = OpenCLContext(opencl_device), opencl_device.spec.largest_allocation_bytes
    with pytest.raises(OutOfMemory) as caught:
        on.buffer(limit + 1)
    assert str(caught.value) == (
        f"a buffer of {limit + 1} B: {on.spec.name} allows {limit} B in one allocation\n"
        "  try: a smaller batch or model, or another device")


def test_a_program_larger_than_the_device(opencl_device: FoundDevice) -> None:
    m = mlp()
    on = limited(opencl_device, global_bytes=4500)
    program = compile_graph(m.graph, on.spec)
    plan = program.plan
    need = plan.peak_bytes + 3 * (plan.staging_in_bytes + plan.staging_out_bytes)
    with pytest.raises(OutOfMemory) as caught:
        on.load(program, m.states)
    assert str(caught.value) == (
        f"the program takes {need} B: {on.spec.name} has 4500 B in all\n"
        "  try: a smaller batch or model, or another device")
    limited(opencl_device, global_bytes=need).load(program, m.states).close()    # just fits


def test_an_arena_is_split_where_allocations_are_small(opencl_device: FoundDevice) -> None:
    """Many banks give the numbers of one."""
    m = mlp()
    whole, small = OpenCLExecutor(opencl_device), limited(opencl_device,
                                                          largest_allocation_bytes=1024)
    programs = [compile_graph(m.graph, on.spec) for on in (whole, small)]
    assert [len(p.plan.bank_bytes) > 1 for p in programs] == [False, True]
    losses = []
    for on, program in zip((whole, small), programs, strict=True):
        resident = on.load(program, m.states)
        losses.append([float(resident.submit(m.batch(i)).result()[0]) for i in range(9)])
        resident.close()
    assert losses[0] == losses[1]


FULL = child.OPEN + """
import resource
from handtorch.graph.node import Graph, Node, Port, Value
a, b, y, total = (Value(i, s) for i, s in enumerate([(9000, 1), (1, 9000), (9000, 9000), (9000,)]))
nodes = (Node("add", (a, b), (y,)),
         Node("sum", (y,), (total,), {"axes": (0,), "keepdim": False}))
large = Graph(nodes, (Port("a", a), Port("b", b)), (), (Port("total", total),))
r = resident()
print(float(r.submit(m.batch(0)).result()[0]))
program = compile_graph(large, on.spec)
print(max(program.plan.bank_bytes))
print(on.spec.global_bytes)                 # PoCL's own figure changes with what is free
on.load(program, {}).close()                # fits; its kernels are compiled
size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (size + (100 << 20),) * 2)
try:
    on.load(program, {})
except HandTorchError as e:
    print(type(e).__name__, e)
print(float(r.submit(m.batch(1)).result()[0]))
"""


def test_a_device_without_memory_left(opencl_device: FoundDevice, tmp_path: Path) -> None:
    """324 MB where 100 are left. The error has the figures; the program loaded before goes on."""
    said = child.run(tmp_path, FULL, opencl_device.label).splitlines()
    first, nbytes, in_all, *error, last = said
    spec = opencl_device.spec
    assert [re.sub("failed: .*", "failed: X", line) for line in error] == [
        f"OutOfMemory {spec.name} has no room for a buffer of {nbytes} B: it has "
        f"{in_all} B in all; the driver said: create_buffer failed: X",
        "  try: a smaller batch, or close other programs that use the device"]
    m, ref = four_kernels(), RefExecutor(spec)
    resident = ref.load(compile_graph(m.graph, spec), m.states)
    expected = [float(resident.submit(m.batch(i)).result()[0]) for i in range(2)]
    np.testing.assert_allclose([float(first), float(last)], expected, rtol=1e-5)


# Launches a device cannot take.


@pytest.mark.parametrize(("facts", "why"), [
    ({"max_work_group": 200}, "a work-group of 256 items, {} allows 200"),
    ({"max_work_items": (16, 8, 1)}, "a work-group of (16, 16), {} allows (16, 8, 1)"),
    ({"local_bytes": 2047}, "2048 B of local memory, {} has 2047 B"),
])
def test_a_launch_beyond_the_devices_limits(opencl_device: FoundDevice, facts: dict[str, Any],
                                            why: str) -> None:
    values = [Value(i, (16, 16)) for i in range(3)]
    step = KERNELS["gemm_tiled"].step(values, {"M": 16, "N": 16, "K": 16}, {"TS": 16})
    with pytest.raises(DeviceError) as caught:
        limited(opencl_device, **facts).check_launch(step)
    assert str(caught.value) == f"kernel gemm_tiled: {why.format(opencl_device.spec.name)}"
    OpenCLContext(opencl_device).check_launch(step)


# Disks.


def ends(process: subprocess.Popen[str]) -> tuple[list[str], list[str]]:
    """What it printed and the warnings it gave, once it has ended well."""
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, f"{process.returncode}\n{err}"
    return out.splitlines(), re.findall(r"CacheWarning: (.*)", err)


@pytest.fixture(scope="module")
def filled(opencl_device: FoundDevice, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache after a run in which nothing went wrong, and what that printed beside it."""
    folder = tmp_path_factory.mktemp("well")
    process = child.start(folder / "cache", TRAIN, opencl_device.label)
    child.go([process])
    printed, warned = ends(process)
    assert len(printed) == 1 and not warned
    (folder / "printed").write_text(printed[0])
    return folder / "cache"


@pytest.fixture
def expected(filled: Path) -> list[str]:
    """What three steps print."""
    return [(filled.parent / "printed").read_text()]


def test_a_cache_that_cannot_be_written(opencl_device: FoundDevice, expected: list[str],
                                        tmp_path: Path) -> None:
    """It runs all the same; whoever keeps binaries warns, and the loader's note tells the rest."""
    (tmp_path / "file").write_text("")
    cache = tmp_path / "file" / "cache"
    process = child.start(cache, TRAIN, opencl_device.label)
    child.go([process])
    printed, warned = ends(process)
    assert printed == expected
    assert set(warned) == ({
        f"compiled kernels are not kept: {cache}/programs: Not a directory; set HANDTORCH_CACHE "
        "to a folder that can be written"} if opencl_device.facts.binaries_cheap else set())


SMALL_FILES = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
"""


def test_a_disk_that_fills_while_kernels_are_kept(opencl_device: FoundDevice, expected: list[str],
                                                  tmp_path: Path) -> None:
    """No file may grow beyond 2000 bytes: what the kernel says then is as good as a full disk."""
    if not opencl_device.facts.binaries_cheap:
        pytest.skip(f"{opencl_device.short} keeps its kernels itself, and ends if it cannot")
    code = TRAIN.replace("r = resident()", SMALL_FILES + "r = resident()")
    process = child.start(tmp_path, code, opencl_device.label)
    child.go([process])
    printed, warned = ends(process)
    assert printed == expected
    assert set(warned) == {
        f"compiled kernels are not kept: {tmp_path}/programs: File too large; set HANDTORCH_CACHE "
        "to a folder that can be written"}
    assert list((tmp_path / "programs").iterdir()) == []


NO_ROOM = """
import shutil
from pathlib import Path
full, usage = Path(sys.argv[2]), shutil.disk_usage
shutil.disk_usage = lambda p: usage(p)._replace(free=0 if full in Path(p).parents else 1 << 40)
from handtorch.runtime.opencl import discover
print(*discover.notes(), sep="\\n", flush=True)
"""


def test_a_disk_that_is_full_from_the_start(opencl_device: FoundDevice, expected: list[str],
                                            tmp_path: Path) -> None:
    """PoCL would end the process: it is given a folder elsewhere, and the user is told."""
    code = "import sys\n" + NO_ROOM + TRAIN
    process = child.start(tmp_path, code, opencl_device.label, str(tmp_path))
    assert child.line(process) == (
        f"the cache folder {tmp_path} cannot be written (No space left on device): kernels are "
        "compiled anew in every run; HANDTORCH_CACHE names another folder")
    child.go([process])
    assert ends(process)[0] == expected
    assert not list(tmp_path.rglob("*.so")) and not list(tmp_path.rglob("*.bc"))


@pytest.mark.parametrize("damage", ["emptied", "cut off", "foreign"])
def test_damage_to_pocls_own_cache(opencl_device: FoundDevice, filled: Path, expected: list[str],
                                   tmp_path: Path, damage: str) -> None:
    """PoCL 3.1 ends the process on each of these; all files are removed and compiled again."""
    if not opencl_device.facts.own_kernel_cache:
        pytest.skip(f"{opencl_device.short} keeps no kernels itself")
    cache = shutil.copytree(filled, tmp_path / "cache")
    files = [f for suffix in ("so", "bc") for f in (cache / "pocl").rglob(f"*.{suffix}")]
    assert {file.suffix for file in files} == {".so", ".bc"}
    for file in files:
        data = file.read_bytes()
        file.write_bytes({"emptied": b"", "cut off": data[:len(data) * 2 // 3],
                          "foreign": b"\0" * len(data)}[damage])
    process = child.start(cache, TRAIN, opencl_device.label)
    child.go([process])
    assert ends(process) == (expected, [])
    assert all(file.stat().st_size > 1000 for file in files)


# Signals.

ENDLESS = TRAIN + """
print("training", flush=True)
while True:
    r.submit(m.batch(0))
"""


def interrupted(process: subprocess.Popen[str], number: int) -> str:
    """Its last line on standard error; it must be gone in 15 s, however slow the machine."""
    process.send_signal(number)
    started = time.monotonic()
    _, err = process.communicate(timeout=30)
    assert time.monotonic() - started < 15
    assert process.returncode == -number
    return err.splitlines()[-1] if err else ""


def test_ctrl_c_in_the_middle_of_training(opencl_device: FoundDevice, filled: Path,
                                          expected: list[str], tmp_path: Path) -> None:
    cache = shutil.copytree(filled, tmp_path / "cache")
    process = child.start(cache, ENDLESS, opencl_device.label)
    child.go([process])
    assert [child.line(process), child.line(process)] == [*expected, "training"]
    assert interrupted(process, signal.SIGINT) == "KeyboardInterrupt"
    again = child.start(cache, TRAIN, opencl_device.label)
    child.go([again])
    assert ends(again) == (expected, [])


COMPILE = child.OPEN + """
print("ready", flush=True)
sys.stdin.readline()
r = resident()
print("late", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=["ctrl-c", "kill"])
def test_an_end_while_kernels_are_compiled(opencl_device: FoundDevice, expected: list[str],
                                           tmp_path: Path, number: int) -> None:
    """Whatever is in the cache by then is whole: the next run works and gives the same."""
    process = child.start(tmp_path, COMPILE, opencl_device.label)
    child.go([process])
    time.sleep(0.2)
    interrupted(process, number)
    again = child.start(tmp_path, TRAIN, opencl_device.label)
    child.go([again])
    assert ends(again) == (expected, [])


# The user's own mistakes.


X, Y = Value(0, (2, 3)), Value(1, (2,), "i32")
GRAPH = Graph((Node("relu", (X,), (Value(2, (2, 3)),)),), (Port("x", X), Port("y", Y)), (),
              (Port("out", Value(2, (2, 3))),))
GOOD = (np.ones((2, 3), "f4"), np.zeros(2, "i8"))


@pytest.mark.parametrize("executor", [RefExecutor(), NullExecutor()], ids=["ref", "null"])
def test_a_closed_program_refuses_on_every_executor(executor: Executor) -> None:
    resident = executor.load(compile_graph(GRAPH, executor.spec), {})
    kept = resident.submit(GOOD)
    resident.close()
    resident.close()
    for call in (lambda: resident.submit(GOOD), lambda: resident.read_state("w"),
                 resident.finish):
        with pytest.raises(DeviceError) as caught:
            call()
        assert str(caught.value) == "this program was closed\n  try: make the step again"
    assert kept.result()[0].shape == (2, 3)
