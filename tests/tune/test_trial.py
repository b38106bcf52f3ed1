"""Trying variants in a child: right ones are timed; deadly ones kill the child and nothing else."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from handtorch.errors import DeviceError
from handtorch.kernels.gemm_tiles import Product, as_product
from handtorch.kernels.results import as_problem
from handtorch.kernels.variant import Problem, Variant, as_variant, built_by
from handtorch.runtime.opencl.discover import FoundDevice
from handtorch.tune.case import case_of
from handtorch.tune.families import family_of
from handtorch.tune.products import Products
from handtorch.tune.store import Trial
from handtorch.tune.trial import OutOfTime, Worker
from tests.tune.deadly_child import (
    BROKEN,
    CRASH,
    HANG,
    SLOW,
    WRONG,
    WRONG_EPILOGUE,
    WRONG_UPDATE,
)

pytestmark = pytest.mark.spread

DEADLY = (sys.executable, "-m", "tests.tune.deadly_child")
SMALL = Product(16, 16, 16)


@pytest.fixture(autouse=True)
def found_by_the_child(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))


@pytest.fixture(scope="module")
def cpu(opencl_device: FoundDevice) -> FoundDevice:
    """Only a CPU's driver can be trusted to die of a null pointer and to be killed in a loop."""
    if opencl_device.spec.kind != "cpu":
        pytest.skip("would hang a real GPU")
    return opencl_device


@pytest.fixture(scope="module")
def worker(cpu: FoundDevice) -> Iterator[Worker]:
    """One for all tests of a device: its child costs a second, and what kills it is no harm."""
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


CONV, BATCH = as_problem("conv 2x4x4x8 8 3x3 p1x1"), as_problem("bmm 3x16x16x16 nn")


def conv_tile(rows: int) -> Variant:
    return as_variant(f"conv_packed IMAGES_FIRST0 NV1 R{rows} V4 WGX1 WGY1")


@pytest.mark.parametrize(("problem", "text"), [
    ("conv 2x7x5x6 18 3x3 s2x1 p1x1", "conv_direct IMAGES_FIRST1 NV1 R6 V8 WGX2 WGY1"),
    ("conv 3x5x5x3 20 3x3 p1x1", "conv_packed IMAGES_FIRST0 NV2 R1 V16 WGX1 WGY2"),
    ("conv_grad_input 2x7x5x6 24 3x3 s2x2 p1x1", "conv_dot IMAGES_FIRST1 NV3 R6 V8 WGX2 WGY2"),
    ("conv_grad_input 2x7x5x6 18 3x3 p1x1 g2", "conv_packed IMAGES_FIRST1 NV1 R8 V4 WGX1 WGY1"),
    ("conv_grad_weight 2x7x5x6 18 3x3 p1x1",
     "conv_weight CHUNK20 ITEMS400 NV1 R4 SOME0 V8 WGX2 WGY1"),
    ("conv_grad_weight 2x7x5x6 16 3x3 p1x1 g2",
     "conv_weight CHUNK64 ITEMS8 NV2 R2 SOME10 V4 WGX1 WGY1"),
    ("conv_grad_weight 2x7x5x6 18 3x3 p1x1",
     "conv_weight_packed CHUNK20 COPIED0 ITEMS400 NV1 R4 TURNED0 V8"),
    ("conv_grad_weight 2x7x5x6 16 3x3 s2x1 p1x1 g2",
     "conv_weight_packed CHUNK64 COPIED1 ITEMS1 NV3 R6 TURNED1 V4"),
    ("conv 2x7x5x8 20 3x3 p1x1", "conv_winograd NV3 R3 V8"),
    ("conv_grad_input 2x7x5x16 32 3x3 p1x1", "conv_winograd NV2 R6 V8"),
    ("conv_grad_weight 2x7x5x8 20 3x3 p1x1", "conv_weight_winograd NV2 R4 V4"),
    ("conv 2x7x9x12 12 3x3 p1x1 g12", "depthwise ITEMS5 R3 V4"),
    ("conv_grad_input 2x7x9x12 12 3x3 s2x2 p1x1 g12", "depthwise ITEMS0 R2 V2"),
    ("conv_grad_weight 2x7x9x12 12 3x3 p1x1 g12",
     "depthwise_weight CHUNK16 DOWN1 ITEMS9 LINES1 NV2 TAPS3 V4"),
    ("conv_grad_weight 2x7x9x12 12 3x3 p1x1 g12",
     "depthwise_weight CHUNK16 DOWN2 ITEMS9 LINES1 NV2 TAPS1 V4"),
    ("conv 2x7x9x12 12 3x3 s2x2 p1x1 g12", "depthwise3 ITEMS5 V8"),
    ("conv_grad_input 2x7x9x12 12 3x3 p1x1 g12", "depthwise3 ITEMS99 V2"),
    ("conv_grad_weight 2x7x9x12 12 3x3 p1x1 g12", "depthwise_weight3 CHUNK16 ITEMS9 V4"),
    ("conv_grad_weight 2x7x9x12 12 3x3 s2x2 p1x1 g12", "depthwise_weight3 CHUNK16 ITEMS2 V8"),
    ("bmm 3x9x17x6 tn", "bmm NV2 R6 V4 WGX2 WGY1"),
    ("bmm 3x9x17x6 nt b1", "bmm_dot R3 V4 WGX1 WGY2"),
    ("bmm 3x9x17x6 tt a1", "bmm_turned NV1 R1 V8 WGX1 WGY1")])
def test_every_family_and_form_is_lowered_as_asked_and_right(worker: Worker, cpu: FoundDevice,
                                                             problem: str, text: str) -> None:
    asked, variant = as_problem(problem), as_variant(text)
    assert variant.fits(asked, cpu.spec)
    steps = case_of(asked, variant, cpu.spec, "plain").steps
    assert variant.built in {built for step in steps for built in built_by(step)}
    assert worker.attempt(asked, variant, timed=False) == Trial("right")
    assert worker.check(asked, variant) == Trial("right")
    tiny = family_of(asked).smallest(asked, variant)
    assert variant.fits(tiny, cpu.spec)
    assert worker.attempt(tiny, variant, timed=False) == Trial("right")


@pytest.mark.parametrize(("problem", "made"), [
    (CONV, conv_tile), (BATCH, lambda rows: as_variant(f"bmm NV1 R{rows} V4 WGX1 WGY1"))],
    ids=["conv", "bmm"])
def test_a_convolution_or_a_batch_dies_and_errs_as_a_product_does(
        worker: Worker, cpu: FoundDevice, problem: Problem, made: Callable[[int], Variant]
        ) -> None:
    assert worker.attempt(problem, made(4)).state == "right"
    assert worker.attempt(problem, made(CRASH)).state == "crashed"
    assert worker.attempt(problem, made(WRONG)).state == "wrong"
    assert worker.attempt(problem, made(BROKEN)).state == "refused"
    if problem is CONV:
        assert worker.check(problem, made(WRONG_EPILOGUE)).state == "wrong"
    assert worker.attempt(problem, made(4), timed=False).state == "right"
    with closing(Worker(cpu.label, DEADLY, try_s=1.0)) as impatient:
        assert impatient.attempt(problem, made(HANG)) == Trial("hung", "no answer in 1 s")


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


def test_what_answers_on_a_smaller_product_is_only_slow(worker: Worker, cpu: FoundDevice) -> None:
    tiny = Products().smallest(SMALL, tile(SLOW))
    assert worker.attempt(tiny, tile(SLOW), timed=False).state == "right"   # and is compiled now
    with closing(Worker(cpu.label, DEADLY, try_s=4.0)) as impatient:
        trial = impatient.attempt(SMALL, tile(SLOW))
    assert trial == Trial("too slow", "no answer in 4 s")


def test_the_smallest_product_is_one_items_work() -> None:
    smallest = Products().smallest
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
    assert trial.why.startswith("1048576x1048576x4 nn takes 4398080065536 B, twice that with its "
                                "answer: ")


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
