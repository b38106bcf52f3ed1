"""Building a program: through the cache, and with errors that name the kernel and keep the text."""

from __future__ import annotations

import dataclasses
import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from handtorch.errors import KernelError
from handtorch.kernels.render import render
from handtorch.runtime.opencl.build import OPTIONS, compile_error
from handtorch.runtime.opencl.cache import ProgramCache
from handtorch.runtime.opencl.context import OpenCLContext
from handtorch.runtime.opencl.discover import FoundDevice
from tests.runtime.opencl import child

GOOD = "__kernel void k(__global float *y) { y[0] = 3.0f; }\n"
WRONG = """#define fill fill_1234
#line 1 "fill.cl"
// fill: y = NUMBER everywhere
__kernel void fill(__global float *y, const int COUNT, const float NUMBER) {
    const size_t i = get_global_id(0);
    if (i < (size_t)COUNT) y[i] = NUMBRE;
}
"""


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("HANDTORCH_CACHE", str(tmp_path))
    return tmp_path


def kept(folder: Path, source: str) -> Path:
    return folder / "failed" / f"{hashlib.sha256(source.encode()).hexdigest()[:12]}.cl"


def failure(found: FoundDevice, source: str) -> KernelError:
    with pytest.raises(KernelError) as caught:
        OpenCLContext(found).build(source)
    return caught.value


def test_a_kernel_that_does_not_compile(opencl_device: FoundDevice, folder: Path) -> None:
    """Its file and line, the first error, and the whole text kept with the driver's log."""
    error = failure(opencl_device, render([]) + WRONG)
    path = kept(folder, render([]) + WRONG)
    assert str(error) == (
        f"kernel fill.cl does not compile on {opencl_device.spec.name}: line 4: use of undeclared "
        f"identifier 'NUMBRE'; did you mean 'NUMBER'?\n"
        f"  try: the whole source and log are in {path}")
    text = path.read_text()
    assert text.startswith(render([]) + WRONG) and "undeclared identifier 'NUMBRE'" in text
    assert [f.name for f in (folder / "failed").iterdir()] == [path.name]


def test_the_first_of_two_errors_is_shown(opencl_device: FoundDevice, folder: Path) -> None:
    source = ('#line 1 "first.cl"\n__kernel void a(__global float *y) { y[0] = p; }\n'
              '#line 1 "second.cl"\n__kernel void b(__global float *y) { y[0] = q; }\n')
    assert failure(opencl_device, source).message() == (
        f"kernel first.cl does not compile on {opencl_device.spec.name}: line 1: use of "
        f"undeclared identifier 'p'\n  try: the whole source and log are in "
        f"{kept(folder, source)}")


def test_an_error_inside_a_macro_names_where_it_is_used(
        opencl_device: FoundDevice, folder: Path) -> None:
    source = ('#define BAD(v) (v).nope\n#line 1 "user.cl"\n'
              "__kernel void k(__global float *y) {\n    float4 v = 0.0f;\n    y[0] = BAD(v);\n}\n")
    error = failure(opencl_device, source)
    assert error.what == f"kernel user.cl does not compile on {opencl_device.spec.name}"
    assert error.why == "line 3: illegal vector component name 'n'"


def test_text_without_a_kernels_name(opencl_device: FoundDevice, folder: Path) -> None:
    """Drivers call such a text after a temporary file; that name helps nobody."""
    error = failure(opencl_device, "this is not C\n")
    assert error.what == f"a program does not compile on {opencl_device.spec.name}"
    assert error.why == "line 1: unknown type name 'this'"


def test_a_function_that_is_missing(opencl_device: FoundDevice, folder: Path) -> None:
    """The linker's complaint, in each driver's own words."""
    source = "float other(float);\n__kernel void k(__global float *y) { y[0] = other(1.0f); }\n"
    error = failure(opencl_device, source)
    assert error.what == f"a program does not compile on {opencl_device.spec.name}"
    assert error.why in ("Error(s) while linking: Cannot find symbol other in kernel library",
                         "JIT session error: Symbols not found: [ other ]")


def test_a_source_that_cannot_be_kept(opencl_device: FoundDevice, tmp_path: Path,
                                      monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HANDTORCH_CACHE", str(tmp_path / "file"))
    assert str(failure(opencl_device, WRONG)) == (
        f"kernel fill.cl does not compile on {opencl_device.spec.name}: line 4: use of undeclared "
        f"identifier 'NUMBRE'; did you mean 'NUMBER'?\n"
        f"  try: the source could not be kept in {tmp_path}/file/failed: Not a directory")


@pytest.mark.parametrize(("log", "what", "why"), [
    ("fill.cl:8:42: error: use of undeclared identifier 'a'\n    8 | y = a;\nCompilation failed\n",
     "kernel fill.cl", "line 8: use of undeclared identifier 'a'"),
    ("w.cl:1:1: warning: an error: none\nfill.cl:2:3: error: expected ';'\n",
     "kernel fill.cl", "line 2: expected ';'"),
    ("error: fill.cl:8:42: expected ';'\nDevice x failed to build the program\n",
     "kernel fill.cl", "line 8: expected ';'"),
    ("error: fill.cl:3:12 <Spelling=tempfile_a.cl:52:17>: illegal vector component name 'n'\n",
     "kernel fill.cl", "line 3: illegal vector component name 'n'"),
    ("<source>:7:1: error: unknown type name 'this'\n",
     "a program", "line 7: unknown type name 'this'"),
    ("input.cl:7:1: error: unknown type name 'this'\n",
     "a program", "line 7: unknown type name 'this'"),
    ("Pass\nError: CL_OUT_OF_RESOURCES\n", "a program", "Error: CL_OUT_OF_RESOURCES"),
    ("\n\n", "a program", "clBuildProgram failed: BUILD_PROGRAM_FAILURE"),
], ids=["clang", "a warning first", "PoCL", "PoCL in a macro", "no file", "another file", "words",
        "nothing"])
def test_the_logs_of_other_compilers(folder: Path, log: str, what: str, why: str) -> None:
    error = compile_error("dev", WRONG, f"{log}\nclBuildProgram failed: BUILD_PROGRAM_FAILURE")
    assert (error.what, error.why) == (f"{what} does not compile on dev", why)


def keeping(found: FoundDevice) -> ProgramCache:
    if not found.facts.binaries_cheap:
        pytest.skip(f"{found.short} keeps its kernels itself")
    return ProgramCache(found.spec, OPTIONS)


def result(on: OpenCLContext, program: Any) -> float:
    kernel, buffer, out = on.cl.Kernel(program, "k"), on.buffer(4), np.zeros(1, "f4")
    kernel.set_arg(0, buffer)
    on.cl.enqueue_nd_range_kernel(on.queue, kernel, (1,), (1,))
    on.cl.enqueue_copy(on.queue, out, buffer)
    return float(out[0])


def test_a_program_is_compiled_once(opencl_device: FoundDevice, folder: Path,
                                    monkeypatch: pytest.MonkeyPatch) -> None:
    cache, on = keeping(opencl_device), OpenCLContext(opencl_device)
    assert result(on, on.build(GOOD)) == 3.0
    assert cache.read(GOOD) is not None
    monkeypatch.setattr(ProgramCache, "write", None)        # would be called, and fail
    assert result(on, on.build(GOOD)) == 3.0


@pytest.mark.parametrize("binary", [b"", b"\x7fELF but not ours" * 40, bytes(4096)])
def test_a_binary_that_the_driver_refuses_is_compiled_anew(
        opencl_device: FoundDevice, folder: Path, binary: bytes) -> None:
    """The file is whole and says the right things, but the driver will not have it."""
    cache, on = keeping(opencl_device), OpenCLContext(opencl_device)
    cache.write(GOOD, binary)
    assert result(on, on.build(GOOD)) == 3.0
    again = cache.read(GOOD)
    assert again is not None and again != binary


def test_a_damaged_file_is_compiled_anew(opencl_device: FoundDevice, folder: Path) -> None:
    cache, on = keeping(opencl_device), OpenCLContext(opencl_device)
    on.build(GOOD)
    whole = cache.path(GOOD).read_bytes()
    for damaged in (whole[:len(whole) // 2], b"", whole[:-1] + bytes([whole[-1] ^ 1])):
        cache.path(GOOD).write_bytes(damaged)
        assert result(on, on.build(GOOD)) == 3.0
        assert cache.read(GOOD) is not None


def test_a_file_of_another_driver_is_not_used(opencl_device: FoundDevice, folder: Path) -> None:
    cache, on = keeping(opencl_device), OpenCLContext(opencl_device)
    old = ProgramCache(dataclasses.replace(opencl_device.spec, driver="older"), OPTIONS)
    old.write(GOOD, b"what it made")
    cache.path(GOOD).write_bytes(old.path(GOOD).read_bytes())
    assert result(on, on.build(GOOD)) == 3.0


BOTH = child.OPEN + """
print("ready", flush=True)
sys.stdin.readline()
r = resident()
print(float(r.submit(m.batch(0)).result()[0]))
"""


def test_processes_that_fill_the_cache_at_once(opencl_device: FoundDevice, tmp_path: Path) -> None:
    """Both compile the same program from nothing, in one folder; a third finds it there."""
    children = [child.start(tmp_path, BOTH, opencl_device.label) for _ in range(2)]
    child.go(children)
    losses = {child.output(process) for process in children}
    late = child.start(tmp_path, BOTH, opencl_device.label)
    child.go([late])
    assert losses == {child.output(late)}
    for path in (tmp_path / "programs").glob("*"):
        assert path.suffix == ".bin"                     # no temporary file stays
