"""The self-test: every kernel right on every device, and a verdict that is kept only when whole."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handtorch import selftest
from handtorch.graph.node import Value
from handtorch.kernels.case import Case
from handtorch.kernels.catalog import KERNELS, all_cases
from handtorch.kernels.spec import Kernel
from handtorch.runtime.opencl.context import OpenCLContext
from handtorch.runtime.opencl.discover import FoundDevice
from handtorch.selftest import SelfTest, run_all, verdict
from tests.kernels.few import a_few


@pytest.mark.parametrize("which", [
    pytest.param(a_few, id="a few of every kernel"),
    pytest.param(all_cases, id="all", marks=pytest.mark.slow)])
def test_every_case_is_right(opencl_device: FoundDevice, which: Callable[[], Iterable[Case]]
                             ) -> None:
    cases = tuple(which())
    seen: list[tuple[int, int]] = []
    made = run_all(OpenCLContext(opencl_device), cases, lambda done, of: seen.append((done, of)))
    assert not made.detail, "\n".join(made.detail)
    assert made == SelfTest("passed", (), len(cases))
    assert seen == [(i, len(cases)) for i in range(len(cases) + 1)]


TEXT = """#line 1 "gives.cl"
__kernel void gives(__global float *y, const uint y_at, const float NUMBER) {
    y[y_at + get_global_id(0)] = NUMBER;
}"""
GIVES = Kernel("gives", ("w",), lambda _, __: ((16,), (16,)), {"NUMBER": "float"},
               text=lambda _: TEXT)
WRONG = Kernel("wrong", ("w",), lambda _, __: ((16,), (16,)), {"NUMBER": "float"},
               text=lambda _: TEXT.replace("gives", "wrong").replace("NUMBER;", ";"))


@pytest.fixture(autouse=True)
def planted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two kernels of the tests' own: one that does what it is told, one that does not compile."""
    for kernel in (GIVES, WRONG):
        monkeypatch.setitem(KERNELS, kernel.name, kernel)


def case(expected: float, name: str = "case", kernel: Kernel = GIVES, gives: float = 2.5) -> Case:
    step = kernel.step([Value(0, (16,))], {"NUMBER": gives})
    return Case(name, (step,), {}, {0: np.full(16, expected)})


def test_wrong_numbers_fail_and_the_rest_is_still_tried(opencl_device: FoundDevice) -> None:
    cases = case(2.5, "right"), case(2.6, "a bit off"), case(np.inf, "far off"), case(2.5, "last")
    made = run_all(OpenCLContext(opencl_device), cases)
    assert made.state == "failed" and made.cases == 4
    assert made.detail == ("a bit off: off by 3.85e+03 times the tolerance",
                           "far off: off by inf times the tolerance")


def test_a_missing_nan_is_wrong_and_an_expected_one_is_right(opencl_device: FoundDevice) -> None:
    made = run_all(OpenCLContext(opencl_device), (
        case(np.nan, "right", gives=np.nan), case(np.nan, "missing"),
        case(2.5, "unexpected", gives=np.nan)))
    assert made.detail == ("missing: off by inf times the tolerance",
                           "unexpected: off by inf times the tolerance")


def test_a_kernel_that_does_not_compile_fails_alone(
        opencl_device: FoundDevice, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HANDTORCH_CACHE", str(tmp_path))
    made = run_all(OpenCLContext(opencl_device), (case(2.5, "bad", WRONG), case(2.5)))
    assert made == SelfTest("failed", (
        f"bad: kernel wrong.cl does not compile on {opencl_device.spec.name}: line 2: "
        "expected expression",), 2)


def test_a_launch_the_device_cannot_take_fails_alone(opencl_device: FoundDevice) -> None:
    spec = dataclasses.replace(opencl_device.spec, max_work_group=8)
    on = OpenCLContext(dataclasses.replace(opencl_device, spec=spec))
    assert run_all(on, (case(2.5),)).detail == (
        f"case: kernel gives: a work-group of 16 items, {spec.name} allows 8",)


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Case]:
    """A catalog of one case, which the test may change, and a cache of its own."""
    cases = [case(2.5)]
    monkeypatch.setenv("HANDTORCH_CACHE", str(tmp_path))
    monkeypatch.setattr(selftest, "all_cases", lambda: iter(cases))
    return cases


def kept(folder: Path) -> list[Path]:
    return list((folder / "selftest").glob("*"))


def test_a_verdict_is_made_once(opencl_device: FoundDevice, few: list[Case], tmp_path: Path,
                                monkeypatch: pytest.MonkeyPatch) -> None:
    assert verdict(opencl_device, run=False) == SelfTest("not run")
    assert verdict(opencl_device) == SelfTest("passed", (), 1)
    (path,) = kept(tmp_path)
    assert path.name.startswith(opencl_device.spec.key)
    monkeypatch.setattr(selftest, "run_all", None)
    assert verdict(opencl_device) == verdict(opencl_device, run=False) == SelfTest("passed", (), 1)


def test_another_driver_kernel_or_case_needs_a_new_verdict(
        opencl_device: FoundDevice, few: list[Case]) -> None:
    assert verdict(opencl_device).state == "passed"
    newer = dataclasses.replace(opencl_device.spec, driver="newer")
    assert verdict(dataclasses.replace(opencl_device, spec=newer), run=False).state == "not run"
    few.append(case(2.5, "another"))
    assert verdict(opencl_device, run=False).state == "not run"
    few.pop()
    assert verdict(opencl_device, run=False).state == "passed"


def test_a_failed_verdict_is_kept_with_its_reasons(
        opencl_device: FoundDevice, few: list[Case]) -> None:
    few[:] = [case(3.5)]
    made = verdict(opencl_device)
    assert made.state == "failed" and len(made.detail) == 1
    assert verdict(opencl_device, run=False) == made


def test_a_verdict_that_cannot_be_kept_says_so(
        opencl_device: FoundDevice, few: list[Case], tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HANDTORCH_CACHE", str(tmp_path / "file"))
    with pytest.warns() if opencl_device.facts.binaries_cheap else _nothing():
        made = verdict(opencl_device)
    assert made == SelfTest("passed", (
        f"verdict not kept: {tmp_path}/file/selftest: Not a directory",), 1)


class _nothing:
    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


GOOD = {"state": "passed", "detail": [], "cases": 3}


@pytest.mark.parametrize("told", [
    b"", b"{", b"[]", b"null", b"3", b"[" * 100_000, json.dumps({**GOOD, "state": "great"}),
    json.dumps({**GOOD, "state": "not run"}), json.dumps({**GOOD, "cases": "3"}),
    json.dumps({**GOOD, "cases": float("inf")}), json.dumps({**GOOD, "detail": "text"}),
    json.dumps({**GOOD, "detail": [1]}), json.dumps({"state": "passed"}), b"\xff\xfe",
])
def test_a_foreign_verdict_is_as_if_absent(told: Any, tmp_path: Path) -> None:
    path = tmp_path / "verdict"
    path.write_bytes(told if isinstance(told, bytes) else told.encode())
    assert selftest._read(path) is None


def test_a_whole_verdict_is_read(tmp_path: Path) -> None:
    path = tmp_path / "verdict"
    path.write_text(json.dumps({**GOOD, "detail": ["a", "b"]}))
    assert selftest._read(path) == SelfTest("passed", ("a", "b"), 3)
    assert selftest._read(tmp_path / "absent") is None
    assert selftest._read(tmp_path) is None


@given(st.integers(0, len(json.dumps(GOOD)) - 1))
@settings(max_examples=60, deadline=None)
def test_a_verdict_cut_off_anywhere(tmp_path_factory: pytest.TempPathFactory, end: int) -> None:
    path = tmp_path_factory.mktemp("verdict") / "verdict"
    path.write_text(json.dumps(GOOD)[:end])
    assert selftest._read(path) is None
    os.remove(path)
