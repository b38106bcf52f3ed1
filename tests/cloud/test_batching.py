"""Batches by samples: when they begin, who is in them, and what a bad request does to others."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from handtorch.cloud.batching import Arrays, Batcher, BatchLimits, Cost
from handtorch.cloud.refused import ClientGone, Refused
from handtorch.errors import BadInput


def rows(count: int, value: float = 0.0) -> Arrays:
    return (np.full((count, 2), value, "f4"),)


def here() -> bool:
    return False


class Gate:
    """A model that doubles its input, and waits at a gate; a negative number is too much for it."""

    def __init__(self, is_open: bool = False) -> None:
        self.gate, self.began, self.sizes = threading.Event(), threading.Semaphore(0), []
        if is_open:
            self.gate.set()

    sizes: list[int]

    def __call__(self, arrays: Arrays) -> Arrays:
        self.sizes.append(len(arrays[0]))
        self.began.release()
        assert self.gate.wait(30)
        if (arrays[0] < 0).any():
            raise BadInput("a negative number")
        return (2 * arrays[0],)


def with_batcher(model: Gate, limits: BatchLimits,
                 test: Callable[[Batcher], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        with ThreadPoolExecutor(1) as thread:
            batcher = Batcher(model, limits, thread)
            try:
                return await asyncio.wait_for(test(batcher), 30)
            finally:
                model.gate.set()
    return asyncio.run(run())


async def begun(model: Gate) -> None:
    assert await asyncio.to_thread(model.began.acquire, True, 30)


def start(batcher: Batcher, inputs: Arrays, gone: Callable[[], bool] = here) -> Any:
    return asyncio.create_task(batcher.run(inputs, gone))


def test_what_waits_is_computed_together_and_given_back_apart() -> None:
    model = Gate()

    async def test(batcher: Batcher) -> None:
        first = start(batcher, rows(1))
        await begun(model)
        others = [start(batcher, rows(n, n)) for n in (3, 2, 3, 1)]
        await asyncio.sleep(0)
        assert batcher.queued == 9
        model.gate.set()
        done = [await task for task in (first, *others)]
        assert [d.batch_rows for d in done] == [1, 8, 8, 8, 1]
        assert [d.outputs[0].tolist() for d in done[1:]] == [
            [[2.0 * n, 2.0 * n]] * n for n in (3, 2, 3, 1)]
        assert all(d.begin_ns <= d.end_ns for d in done)
        assert batcher.idle and batcher.queued == 0
    with_batcher(model, BatchLimits(), test)
    assert model.sizes == [1, 8, 1]


def test_samples_count_not_requests() -> None:
    """Two of five rows do not fit into eight."""
    model = Gate()

    async def test(batcher: Batcher) -> None:
        first = start(batcher, rows(1))
        await begun(model)
        pair = [start(batcher, rows(5)) for _ in range(2)]
        await asyncio.sleep(0)
        model.gate.set()
        await asyncio.gather(first, *pair)
    with_batcher(model, BatchLimits(), test)
    assert model.sizes == [1, 5, 5]


def test_a_single_client_never_waits() -> None:
    model = Gate(is_open=True)

    async def test(batcher: Batcher) -> float:
        begin = time.monotonic()
        for _ in range(5):
            await batcher.run(rows(1), here)
        return time.monotonic() - begin
    assert with_batcher(model, BatchLimits(wait_s=10), test) < 10
    assert model.sizes == [1] * 5


def test_the_oldest_request_waits_no_longer_than_it_may() -> None:
    """Three were under way, one comes back: it waits for the others, but not for ever."""
    model = Gate()

    async def test(batcher: Batcher) -> float:
        first = start(batcher, rows(1))
        await begun(model)
        three = [start(batcher, rows(1)) for _ in range(3)]
        await asyncio.sleep(0)
        model.gate.set()
        await asyncio.gather(first, *three)
        begin = time.monotonic()
        await batcher.run(rows(1), here)
        return time.monotonic() - begin
    waited_s = with_batcher(model, BatchLimits(wait_s=0.2), test)
    assert model.sizes == [1, 3, 1]
    assert waited_s >= 0.19


def test_a_crowd_is_waited_for() -> None:
    model = Gate()

    async def test(batcher: Batcher) -> None:
        first = start(batcher, rows(1))
        await begun(model)
        three = [start(batcher, rows(1)) for _ in range(3)]
        await asyncio.sleep(0)
        model.gate.set()
        await asyncio.gather(first, *three)
        again = []
        for _ in range(3):
            again.append(start(batcher, rows(1)))
            await asyncio.sleep(0.01)
        await asyncio.gather(*again)
    with_batcher(model, BatchLimits(wait_s=20), test)
    assert model.sizes == [1, 3, 3]


def test_one_bad_request_harms_nobody_else() -> None:
    model = Gate()

    async def test(batcher: Batcher) -> None:
        first = start(batcher, rows(1))
        await begun(model)
        good, bad, other = (start(batcher, rows(1, v)) for v in (1.0, -1.0, 3.0))
        await asyncio.sleep(0)
        model.gate.set()
        await first
        assert (await good).outputs[0].tolist() == [[2.0, 2.0]]
        assert (await other).outputs[0].tolist() == [[6.0, 6.0]]
        with pytest.raises(BadInput, match="negative"):
            await bad
    with_batcher(model, BatchLimits(), test)


def test_a_full_queue_says_when_to_come_again() -> None:
    model = Gate()

    async def test(batcher: Batcher) -> None:
        tasks = [start(batcher, rows(1))]
        await begun(model)
        tasks += [start(batcher, rows(4)) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(Refused) as refused:
            await batcher.run(rows(1), here)
        assert (refused.value.status, refused.value.headers) == (503, {"Retry-After": "1"})
        model.gate.set()
        await asyncio.gather(*tasks)
        await batcher.run(rows(1), here)
    with_batcher(model, BatchLimits(rows=4, queued=8, wait_s=0), test)


def test_who_has_left_or_run_out_of_time_is_not_computed() -> None:
    model, left = Gate(), False

    async def test(batcher: Batcher) -> None:
        nonlocal left
        first = start(batcher, rows(1))
        await begun(model)
        gone, late, there = (start(batcher, rows(1), lambda: left), start(batcher, rows(1)),
                             start(batcher, rows(1)))
        await asyncio.sleep(0)
        left = True
        late.cancel()
        await asyncio.sleep(0)
        model.gate.set()
        await asyncio.gather(first, there)
        with pytest.raises(ClientGone):
            await gone
    with_batcher(model, BatchLimits(), test)
    assert model.sizes == [1, 1]


def test_an_engine_that_breaks_is_no_silence() -> None:
    def broken(arrays: Arrays) -> Arrays:
        raise RuntimeError("broken")

    async def run() -> None:
        with ThreadPoolExecutor(1) as thread:
            batcher = Batcher(broken, BatchLimits(), thread)
            for _ in range(2):
                with pytest.raises(RuntimeError, match="broken"):
                    await batcher.run(rows(1), here)
    asyncio.run(run())


@pytest.mark.parametrize(("own_s", "each_s", "worth_s"), [
    (0.050, 0.001, 0.010), (0.010, 0.010, 0.002), (0.0, 0.010, 0.0)])
def test_a_wait_is_worth_a_fifth_of_what_a_batch_saves(own_s: float, each_s: float,
                                                       worth_s: float) -> None:
    cost = Cost()
    assert cost.worth_s() == float("inf")
    for rows in (1, 8, 3, 1, 5, 2, 8, 4, 1):
        cost.saw(rows, own_s + each_s * rows)
    assert cost.worth_s() == pytest.approx(worth_s, abs=1e-9)


def test_what_is_always_the_same_size_tells_nothing() -> None:
    cost = Cost()
    for _ in range(50):
        cost.saw(1, 0.01)
    assert cost.worth_s() == float("inf")


def test_replicas_compute_batches_side_by_side_and_no_more_than_there_are() -> None:
    model = Gate()

    async def run() -> None:
        with ThreadPoolExecutor(2) as threads:
            batcher = Batcher(model, BatchLimits(rows=2, wait_s=0.0), threads, at_once=2)
            tasks = [start(batcher, rows(2, n)) for n in range(3)]
            await begun(model)
            await begun(model)
            await asyncio.sleep(0.05)
            assert model.sizes == [2, 2] and batcher.queued == 2 and not batcher.idle
            model.gate.set()
            done = [await asyncio.wait_for(task, 30) for task in tasks]
            assert [float(d.outputs[0][0, 0]) for d in done] == [0.0, 2.0, 4.0]
            assert batcher.idle
    try:
        asyncio.run(run())
    finally:
        model.gate.set()
