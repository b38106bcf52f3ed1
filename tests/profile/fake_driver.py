"""A driver whose clock is off by an offset, drifts, wanders, counts coarsely, and at times lies."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from handtorch.profile.clocks import Ints, Stamps
from handtorch.runtime.recorder import SyncPoint

WANDER_PERIOD_NS = 2e9


@dataclass(frozen=True)
class FakeDriver:
    """`ppm` is the even drift, `wander_ppm` the amplitude of a slow change of it."""

    offset_ns: int
    ppm: float
    wander_ppm: float
    step_ns: int
    seed: int

    def device(self, true_ns: NDArray[np.float64]) -> Ints:
        """What the device's clock shows at these times of CLOCK_MONOTONIC, as counted by it."""
        turn = 2 * np.pi / WANDER_PERIOD_NS
        wandered = self.wander_ppm * 1e-6 * np.sin(turn * true_ns) / turn
        shown = true_ns * (1 + self.ppm * 1e-6) + wandered
        return (np.floor(shown / self.step_ns).astype(np.int64) * self.step_ns) - self.offset_ns

    queued_off_ns: int = 0              # how far QUEUED lies from the clock of START

    def sync(self, true_ns: float, jitter_ns: float) -> SyncPoint:
        """The host looks, the device's clock is read, the host looks again."""
        rng = np.random.default_rng(self.seed + int(true_ns))
        before, after = true_ns - rng.uniform(0, jitter_ns), true_ns + rng.uniform(0, jitter_ns)
        shown = int(self.device(np.array([true_ns]))[0])
        # Counting in steps, the clock may stand on a number for a whole step.
        return SyncPoint(shown, int(np.floor(before)) - shown - self.step_ns,
                         int(np.ceil(after)) - shown + self.step_ns, "write",
                         abs(self.queued_off_ns) + 2 * self.step_ns)


@dataclass(frozen=True)
class Truth:
    """When events really ran, on CLOCK_MONOTONIC."""

    start: NDArray[np.float64]
    end: NDArray[np.float64]


def steps(driver: FakeDriver, begin_ns: float, count: int, launches: int, jitter_ns: float,
          pause_ns: float) -> tuple[Truth, Stamps]:
    """Steps of launches on an in-order queue, with what the host stamped around each step."""
    rng = np.random.default_rng(driver.seed)
    now, starts, ends, after, before = begin_ns, [], [], [], []
    queued, flushed = [], []
    for _ in range(count):
        enqueued, now = now, now + rng.uniform(0, jitter_ns)
        queued += sorted(rng.uniform(enqueued, now, launches))
        flushed += [now] * launches
        for _ in range(launches):
            now += rng.uniform(0, jitter_ns / 10)
            starts.append(now)
            now += rng.exponential(50_000)
            ends.append(now)
        now += rng.uniform(0, jitter_ns)
        after += [enqueued] * launches
        before += [now] * launches
        now += pause_ns
    truth = Truth(np.array(starts), np.array(ends))
    start, end = driver.device(truth.start), driver.device(truth.end)
    asked = driver.device(np.array(queued)) + driver.queued_off_ns
    host = [np.floor(np.array(after)).astype(np.int64),
            *(np.ceil(np.array(x)).astype(np.int64) for x in (flushed, before))]
    return truth, Stamps(asked, asked, start, end, *host)


def one_by_one(driver: FakeDriver, begin_ns: float, lengths_ns: NDArray[np.float64],
               waits_ns: NDArray[np.float64]) -> tuple[Ints, Ints, Ints, Ints]:
    """Launches that the host waits for: its stamps before and after, the driver's START and END.
    Half of what a wait costs lies before the launch."""
    before = begin_ns + np.concatenate([[0.0], np.cumsum(lengths_ns + waits_ns)[:-1]])
    start = before + waits_ns / 2
    after = start + lengths_ns + waits_ns / 2
    return (np.floor(before).astype(np.int64), np.ceil(after).astype(np.int64),
            driver.device(start), driver.device(start + lengths_ns))
