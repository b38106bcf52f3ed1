"""Trying variants in a child: right ones are timed; deadly ones kill the child and nothing else."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from handtorch.errors import DeviceError
from handtorch.kernels.gemm_tiles import Product, Variant, as_product, as_variant
from handtorch.runtime.opencl.discover import FoundDevice
from handtorch.tune.store import Trial
from handtorch.tune.trial import OutOfTime, Worker, smallest
from tests.tune.deadly_child import (
    BROKEN,
    CRASH,
    HANG,
    SLOW,
    WRONG,
    WRONG_EPILOGUE,
    WRONG_UPDATE,
)

DEADLY = (sys.executable, "-m", "tests.tune.deadly_child")
SMALL = Product(16, 16, 16)


@pytest.fixture(autouse=True)
def found_by_the_child(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))


@pytest.fixture
def cpu(opencl_device: FoundDevice) -> FoundDevice:
    """Only a CPU's driver can be trusted to die of a null pointer and to be killed in a loop."""
    if opencl_device.spec.kind != "cpu":
        pytest.skip("would hang a real GPU")
    return opencl_device


@pytest.fixture
def worker(cpu: FoundDevice) -> Iterator[Worker]:
    with closing(Worker(cpu.label, DEADLY)) as made:
        yield made


def tile(rows: int) -> Variant:
    return as_variant(f"register KU1 NV1 R{rows} V4 WGX1 WGY1")


def test_a_right_variant_is_timed(worker: Worker) -> None:
    trial = worker.attempt(SMALL, tile(4))
    assert (trial.state, trial.why, trial.rounds) == ("right", "", 1)
    assert len(trial.times_ns) == 5 and min(trial.times_ns) > 0
    assert worker.attempt(SMALL, tile(4), timed=False) == Trial("right")
    stopped = worker.attempt(SMALL, tile(4), stop_ns=1)         # far slower than 1 ns
    assert len(stopped.times_ns) == 1


@pytest.mark.parametrize(("text", "turned"), [
    ("packed KU4 NV2 R6 V4 WGX2 WGY2", "nt"), ("dot R2 V4 WGX1 WGY1", "nt"),
    ("packed KU2 NV1 R4 V8 WGX1 WGY1", "tt"), ("register KU4 NV2 R6 V4 WGX1 WGY2", "tn")])
def test_every_form_is_right_in_all_its_work(worker: Worker, text: str, turned: str) -> None:
    product = as_product(f"33x17x20 {turned}")
    assert worker.attempt(product, as_variant(text), timed=False) == Trial("right")
    assert worker.check(product, as_variant(text)) == Trial("right")


def test_a_crash_kills_the_child_and_the_next_is_tried_in_another(worker: Worker) -> None:
    assert worker.attempt(SMALL, tile(4), timed=False).state == "right"
    crashed = worker.attempt(SMALL, tile(CRASH))
    assert crashed.state == "crashed"
    assert crashed.why in ("its process ended with SIGSEGV", "its process ended with SIGABRT")
    assert worker.attempt(SMALL, tile(4), timed=False).state == "right"


def test_a_hang_is_killed(cpu: FoundDevice) -> None:
    with closing(Worker(cpu.label, DEADLY, try_s=1.0)) as worker:
        assert worker.attempt(SMALL, tile(HANG)) == Trial("hung", "no answer in 1 s")
        assert worker._child is None


def test_what_answers_on_a_smaller_product_is_only_slow(cpu: FoundDevice) -> None:
    with closing(Worker(cpu.label, DEADLY, try_s=3.0)) as worker:
        trial = worker.attempt(SMALL, tile(SLOW))
    assert trial == Trial("too slow", "no answer in 3 s")


def test_the_smallest_product_is_one_items_work() -> None:
    assert smallest(Product(64, 64, 64, ta=True), tile(4)) == Product(4, 4, 8, ta=True)
    assert smallest(Product(2, 8, 4), tile(4)) == Product(2, 4, 4)
    dot = as_variant("dot R2 V8 WGX1 WGY1")
    assert smallest(Product(9, 3, 64, tb=True), dot) == Product(2, 3, 8, tb=True)


def test_the_time_limit_blames_nobody(cpu: FoundDevice) -> None:
    with closing(Worker(cpu.label, DEADLY)) as worker:
        assert worker.attempt(SMALL, tile(4), timed=False).state == "right"
        with pytest.raises(OutOfTime):
            worker.attempt(SMALL, tile(HANG), until_s=time.monotonic() + 0.3)
        assert worker._child is None


def test_wrong_numbers_are_not_timed(worker: Worker) -> None:
    trial = worker.attempt(SMALL, tile(WRONG))
    assert trial.state == "wrong" and trial.times_ns == ()
    assert trial.why.startswith("off by ") and trial.why.endswith(" times the tolerance")


@pytest.mark.parametrize("rows", [WRONG_EPILOGUE, WRONG_UPDATE])
def test_wrong_numbers_in_other_work_are_found_when_asked_for(worker: Worker, rows: int) -> None:
    assert worker.attempt(SMALL, tile(rows), timed=False).state == "right"
    assert worker.check(SMALL, tile(rows)).state == "wrong"


def test_what_does_not_compile_is_refused(worker: Worker, cpu: FoundDevice) -> None:
    trial = worker.attempt(SMALL, tile(BROKEN))
    assert trial.state == "refused" and f"does not compile on {cpu.spec.name}" in trial.why


def test_a_product_that_does_not_fit_is_no_fault_of_the_variant(worker: Worker) -> None:
    trial = worker.attempt(Product(1 << 20, 1 << 20, 4), tile(1), timed=False)
    assert trial.state == "no room"
    assert trial.why.startswith("the product takes 4398080065536 B, twice that with its answer: ")


def test_a_device_that_does_not_open_is_an_error_of_its_own() -> None:
    with closing(Worker("no such device")) as worker, pytest.raises(DeviceError) as caught:
        worker.attempt(SMALL, tile(4))
    assert str(caught.value).startswith("the device cannot be opened for tuning: no OpenCL device")
    assert str(caught.value).endswith("\n  try: `handtorch devices`")


@pytest.mark.parametrize(("code", "why"), [
    ("raise SystemExit(3)", "its process ended with code 3"),
    ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "its process ended with SIGKILL"),
    ("print('nonsense')", "its process wrote nonsense"),
])
def test_a_child_that_dies_at_once_is_an_error_of_its_own(code: str, why: str) -> None:
    with closing(Worker("x", (sys.executable, "-c", code))) as worker, \
            pytest.raises(DeviceError) as caught:
        worker.attempt(SMALL, tile(4))
    assert str(caught.value) == (f"the device cannot be opened for tuning: {why}\n"
                                 "  try: `handtorch devices`")


def test_an_answer_that_makes_no_sense_is_a_crash() -> None:
    code = "print('{\"state\": \"ready\"}', flush=True); input(); print('{\"state\": \"fine\"}')"
    with closing(Worker("x", (sys.executable, "-c", code))) as worker:
        assert worker.attempt(SMALL, tile(4)) == Trial(
            "crashed", "its process answered {'state': 'fine'}")


def test_a_driver_that_failed_is_not_asked_again() -> None:
    """After a failed launch a GPU's context may be lost, and every later launch with it."""
    code = ("print('{\"state\": \"ready\"}', flush=True); input(); "
            "print('{\"state\": \"crashed\", \"why\": \"out of resources\"}', flush=True); input()")
    with closing(Worker("x", (sys.executable, "-c", code))) as worker:
        assert worker.attempt(SMALL, tile(4)) == Trial("crashed", "out of resources")
        assert worker._child is None


def test_closing_ends_the_child(worker: Worker) -> None:
    worker.attempt(SMALL, tile(4), timed=False)
    assert worker._child is not None
    process = worker._child.pid
    worker.close()
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)
