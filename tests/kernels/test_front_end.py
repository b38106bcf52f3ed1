"""Every kernel through clang's OpenCL C front end, as 1.2 and as 2.0, warnings being errors.

Mobile compilers are clangs of many ages: what a strict one accepts for a device without
extensions, they have a chance to accept."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from handtorch.kernels import render
from handtorch.kernels.catalog import KERNELS, all_cases
from handtorch.kernels.spec import Kernel

FOLDER = Path(render.__file__).parent
STANDARDS = ("CL1.2", "CL2.0")
FLAGS = (
    "-x", "cl", "-target", "spir64-unknown-unknown", "-fsyntax-only",
    "-Xclang", "-finclude-default-header",
    "-Xclang", "-cl-ext=-all",          # no extension: a double constant is then an error
    "-Werror", "-Wall", "-Wextra", "-Wpedantic", "-Wundef", "-Wshadow", "-Wdouble-promotion",
    "-Wno-unused-parameter",            # the forms of a kernel share one list of arguments
)


def said(clang: str, standard: str, *files: Path, before: Path | None = None) -> str:
    """What clang has to complain about; empty if nothing."""
    include = ("-include", str(before)) if before else ()
    done = subprocess.run([clang, f"-cl-std={standard}", *FLAGS, *include, *map(str, files)],
                          capture_output=True, text=True, timeout=300)
    assert (done.returncode == 0) == (done.stderr == ""), done
    return done.stderr


@pytest.mark.parametrize("standard", STANDARDS)
def test_every_instance_of_every_case(clang: str, standard: str, tmp_path: Path) -> None:
    steps = [s for c in all_cases() for s in c.steps]
    assert {s.kernel for s in steps} == set(KERNELS)
    source = tmp_path / "all.cl"
    source.write_text(render.render(steps))
    assert said(clang, standard, source) == ""


def alone(kernel: Kernel, folder: Path) -> Path:
    """The kernel's file as it lies in the repository, or its generated text."""
    if kernel.text is None:
        return FOLDER / f"{kernel.name}.cl"
    generated = folder / f"{kernel.name}.cl"
    generated.write_text(kernel.text(kernel.defaults) + "\n")
    return generated


@pytest.mark.parametrize("standard", STANDARDS)
def test_every_file_alone_with_its_own_defaults(clang: str, standard: str, tmp_path: Path) -> None:
    files = [alone(kernel, tmp_path) for kernel in KERNELS.values()]
    assert {f for f in files if f.parent == FOLDER} == set(FOLDER.glob("*.cl"))
    assert said(clang, standard, *files, before=FOLDER / "unroll.h") == ""


@pytest.mark.parametrize("name", [k.name for k in KERNELS.values() if k.text is None])
def test_a_file_repeats_the_defaults_of_its_spec(clang: str, name: str, tmp_path: Path) -> None:
    """The values that `#ifndef` gives are those of `Kernel.defaults`."""
    defaults = KERNELS[name].defaults
    ask = tmp_path / "ask.cl"
    ask.write_text(render.shared_text(f"{name}.cl") + "".join(f"\n@{i} {k}\n"
                                                               for i, k in enumerate(defaults)))
    done = subprocess.run([clang, "-E", "-P", "-x", "c", "-include", str(FOLDER / "unroll.h"),
                           str(ask)], capture_output=True, text=True, timeout=300, check=True)
    told = dict(re.findall(r"^@(\d+) *(.*)$", done.stdout, re.MULTILINE))
    assert {k: told[str(i)] for i, k in enumerate(defaults)} == {
        k: str(v) for k, v in defaults.items()}


@pytest.mark.parametrize(("body", "expected"), [
    ("y[0] *= 0.5;", "double precision constant"),
    ("int unused = 1;", "unused variable"),
    ("#if MISSING\n#endif", "'MISSING' is not defined"),
    ("y[0] = x;", "undeclared identifier"),
    ("for (int i = 0; i < 2; ++i) { int i = 3; y[i] = 0.0f; }", "shadows"),
    ("y[0] = 0.5f;", ""),
])
@pytest.mark.parametrize("standard", STANDARDS)
def test_the_front_end_has_teeth(clang: str, standard: str, body: str, expected: str,
                                 tmp_path: Path) -> None:
    source = tmp_path / "k.cl"
    source.write_text(f"__kernel void k(__global float *y) {{\n{body}\n}}\n")
    found = said(clang, standard, source)
    assert expected in found and bool(found) == bool(expected)
