"""A driver that tells the truth is believed whatever its clock; each kind of lie is named."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handtorch.profile.check import Check, Spans, Wait, best, checked, rows_of, told
from tests.profile.fake_driver import FakeDriver, one_by_one

KERNELS = ("gemm", "gemm", "pool", "sgd")
LENGTHS_NS = np.array([900_000.0, 1_100_000.0, 400_000.0, 300_000.0])
WAIT = Wait(30_000, 8_000)
DRIVERS = st.builds(
    FakeDriver, offset_ns=st.sampled_from([0, -1_763_000_000_000_000_000, 250_789_357]),
    ppm=st.floats(-300, 300), wander_ppm=st.floats(0, 20),
    step_ns=st.sampled_from([1, 80, 1000]), seed=st.integers(0, 2**16))


def seen(driver: FakeDriver, *, scale: float = 1.0, from_submit: bool = False) -> Check:
    """What a check finds of a driver whose events last `scale` of the truth, or which stamps
    START when a launch was handed over."""
    rng = np.random.default_rng(driver.seed)
    queued, alone, windows = [], [], []
    for n in range(4):
        begin = 5e12 + n * 1e8
        before, after, start, end = one_by_one(driver, begin, LENGTHS_NS,
                                               rng.uniform(24_000, 36_000, 4))
        alone.append(list(zip(start, start + ((end - start) * scale).astype(int), strict=True)))
        windows.append(list(zip(before, after, strict=True)))
        ends = begin + np.cumsum(LENGTHS_NS + 2000)
        starts = np.full(4, begin) if from_submit else ends - LENGTHS_NS
        a, b = driver.device(starts), driver.device(ends)
        queued.append(list(zip(a, a + ((b - a) * scale).astype(int), strict=True)))
    spans = [Spans(k, q, a, w or 0) for k, q, a, w in
             zip(KERNELS, best(queued), best(alone), best(windows), strict=True)]
    return checked("net b8", "gpu", 4, spans, WAIT, driver.step_ns)


@given(DRIVERS)
@settings(max_examples=100, deadline=None)
def test_the_truth_agrees_whatever_the_clock(driver: FakeDriver) -> None:
    found = seen(driver)
    assert {k.verdict for k in (*found.kernels, found.total)} == {"agrees"}
    assert found.lies == ()


HONEST = FakeDriver(offset_ns=4_000_000, ppm=20, wander_ppm=5, step_ns=80, seed=3)


@pytest.mark.parametrize("scale, verdict", [(0.5, "too short"), (0.85, "too short"),
                                            (1.3, "too long"), (0.0, "too short")])
def test_events_that_last_longer_or_less_than_they_did(scale: float, verdict: str) -> None:
    found = seen(HONEST, scale=scale)
    assert found.total.verdict == verdict
    assert found.kernels[0].verdict == verdict and found.total in found.lies


def test_start_stamped_when_it_was_submitted() -> None:
    found = seen(HONEST, from_submit=True)
    assert [(k.kernel, k.verdict) for k in found.kernels] == [
        ("gemm", "queued longer"), ("pool", "queued longer"), ("sgd", "queued longer")]


def test_no_times_and_brief_launches_are_said_to_be_so() -> None:
    spans = [Spans("dead", 5_000_000, None, 5_000_000), Spans("tiny", 1000, 1000, 33_000)]
    dead, tiny = checked("net", "gpu", 1, spans, WAIT).kernels
    assert (dead.verdict, tiny.verdict) == ("no times", "too brief to judge")


def test_the_best_of_steps_leaves_out_impossible_times() -> None:
    assert best([[(10, 30), (0, 5), (9, 4)], [(10, 25)], []]) == [15, None, None]


def test_the_text_and_the_rows() -> None:
    spans = [Spans("gemm", 1_000_000, 1_050_000, 1_090_000),
             Spans("sgd", 400_000, 200_000, 440_000)]
    found = checked("net b8", "gpu", 4, spans, WAIT)
    assert told(found).splitlines() == [
        "Event times of net b8 on gpu, every launch waited for, the best of 4 steps; a wait costs "
        "30.0 us, give or take 8.0",
        "kernel  launches  queued ms  alone ms  host ms  unsure",
        "gemm           1      1.000     1.050    1.060   0.008  agrees",
        "sgd            1      0.400     0.200    0.410   0.008  too short",
        "all            2      1.400     1.250    1.470   0.016  too short",
        "Doubtful: sgd, all: events last less than the host waited, by more than a wait costs"]
    figures = {r.name: r.value for r in rows_of(found, "profile")}
    assert figures == pytest.approx({
        "check: events, queued": 1.4, "check: events, alone": 1.25, "check: host, alone": 1.47,
        "check: host, unsure": 0.016002, "check: doubtful kernels": 1})
    busy = checked("net b8", "gpu", 4, spans, WAIT, others_cores=3.2)
    assert busy.lies == () and told(busy).splitlines()[-1] == (
        "Not judged: sgd, all: other programs used 3.2 cores, and a host that waits is woken late; "
        "again on a free machine")
    honest = replace(found, kernels=found.kernels[:1], total=found.kernels[0])
    assert told(honest).splitlines()[-1] == "The driver's event times agree with the host's clock."


