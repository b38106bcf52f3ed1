"""Timing several sides against each other, in one process or several, so that their ratio is fair.

Two thread pools in one process steal each other's cores: after a call into NumPy or torch the BLAS
workers spin, for OpenBLAS some 30 ms, and whoever comes next gets half a machine. So sides run in
blocks of their own: wait until the process is quiet, warm up untimed, then one side alone for a
while; then the next, in several rounds.

The warm-up is long because a virtual machine's idle cores answer slowly at first: after a pause,
PoCL's 256 x 256 product took 215 us for some 50 ms and 130 us from then on (its threads sleep
between launches; those of a BLAS spin).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from statistics import median

from handtorch.meters.procfs import tree_seconds, used_seconds

Work = Callable[[int], None]                # do it so many times, and wait for the end
# Wait until it is quiet, do it so many times untimed, then so many times: seconds of the latter.
Block = Callable[[int, int], float]

PAUSE_S = 0.010
WARM_UP_S = 0.080
MOST_OTHERS = 0.05                          # of the machine's cores; beyond that nothing is judged
_QUIET_S = 0.001                            # CPU time of this process in one pause
_MOST_PAUSES = 50
_MOST_GROWN = 5


@dataclass(frozen=True)
class Plan:
    """How long to measure.

    Each side runs `rounds` blocks of at least `block_s` and `runs / rounds` runs, unless a block
    would then take longer than `most_s`: such a side does what fits, at least one run a block, and
    a single round if one run alone takes that long. A side whose single run takes longer than
    `refuse_s` is left out."""

    rounds: int
    block_s: float = 0.060
    runs: int = 1
    most_s: float = float("inf")
    refuse_s: float = float("inf")


@dataclass(frozen=True)
class Timing:
    """Seconds per run, the mean of each block in order; `runs` is how many were timed in all."""

    seconds: tuple[float, ...]
    runs: int
    refused: str = ""

    @property
    def median_s(self) -> float:
        return median(self.seconds)


@dataclass
class _Course:
    """One side while it is being measured."""

    block: Block
    count: int = 1                          # runs in a block
    warm_up: int = 1                        # untimed runs before it
    rounds: int = 1
    runs: int = 0
    grown: int = 0                          # how often its blocks were made longer
    seconds: list[float] = field(default_factory=list)
    refused: str = ""


def interleave(sides: Mapping[str, Work], plan: Plan) -> dict[str, Timing]:
    """Time every side in alternating blocks; each round starts with another side."""
    return interleave_blocks({name: here(work) for name, work in sides.items()}, plan)


def here(work: Work) -> Block:
    """Blocks of a work that is done in this process."""
    def block(warm_up: int, count: int) -> float:
        settle()
        if warm_up:
            work(warm_up)
        return timed(work, count)
    return block


def interleave_blocks(sides: Mapping[str, Block], plan: Plan) -> dict[str, Timing]:
    """As `interleave`, of sides that time themselves: each may be a process of its own."""
    courses = {name: _prepare(block, plan) for name, block in sides.items()}
    names = list(sides)
    for number in range(plan.rounds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            course = courses[name]
            if number < course.rounds:
                course.seconds.append(_timed(course, plan))
    return {name: Timing(tuple(c.seconds), c.runs, c.refused)
            for name, c in courses.items()}


def settle() -> None:
    """Wait until no thread of this process computes, half a second at most."""
    for _ in range(_MOST_PAUSES):
        before = time.process_time()
        time.sleep(PAUSE_S)
        if time.process_time() - before < _QUIET_S:
            return


@dataclass(frozen=True)
class Moment:
    """Clock, CPU time of this process with all that it started and those did, and of everybody on
    this machine; None where it does not tell."""

    wall_s: float
    own_s: float | None
    all_s: float | None


def moment() -> Moment:
    own_s, everybody_s = tree_seconds(os.getpid()), used_seconds()
    return Moment(time.perf_counter_ns() / 1e9, None if isinstance(own_s, str) else own_s,
                  None if isinstance(everybody_s, str) else everybody_s)


def share_of_others(since: Moment) -> float | None:
    """How much of this machine's cores others used since then, 0 to 1; None if it does not tell.
    Processes of ours are no others, nor are those that they started, such as a compiler's.

    Beside another busy program no ratio is fair: a BLAS whose threads wait for each other by
    spinning falls to a hundredth, a queue of independent work-groups only to its share."""
    now = moment()
    if now.all_s is None or since.all_s is None or now.own_s is None or since.own_s is None:
        return None
    others_s = (now.all_s - since.all_s) - (now.own_s - since.own_s)
    return max(0.0, others_s / ((now.wall_s - since.wall_s) * (os.cpu_count() or 1)))


def timed(work: Work, count: int) -> float:
    """Seconds for `count` runs, on the monotonic clock, first call to end of the wait."""
    start_ns = time.perf_counter_ns()
    work(count)
    return (time.perf_counter_ns() - start_ns) / 1e9


def _prepare(block: Block, plan: Plan) -> _Course:
    """Warm up, and find out how many runs make a block."""
    once = block(1, 1)                      # the first compiles, allocates, wakes threads
    if once > plan.refuse_s:
        why = f"one run takes {once:.2g} s, more than the {plan.refuse_s:g} s allowed here"
        return _Course(block, rounds=0, refused=why)
    if once < plan.block_s:                 # a single short run is mostly the cost of waiting
        several = ceil(plan.block_s / 4 / once)
        once = block(0, several) / several
    wanted = max(ceil(plan.runs / plan.rounds), ceil(plan.block_s / once))
    return _Course(block, int(max(1, min(wanted, plan.most_s / once))),
                   ceil(min(WARM_UP_S, plan.most_s) / once),
                   1 if once > plan.most_s else plan.rounds)


def _timed(course: _Course, plan: Plan) -> float:
    """Seconds a run. A block that turns out far too short is done again with more runs: what was
    first found out of the side came from a bad moment."""
    while True:
        # Where one run is a whole block, warmth hardly matters.
        seconds = course.block(course.warm_up if course.count > 1 else 0, course.count)
        if seconds >= min(plan.block_s, plan.most_s) / 2 or course.grown == _MOST_GROWN:
            course.runs += course.count
            return seconds / course.count
        once = max(seconds, 1e-9) / course.count
        course.count = ceil(min(plan.block_s, plan.most_s) / once)
        course.warm_up = ceil(min(WARM_UP_S, plan.most_s) / once)
        course.grown += 1


def quartiles(values: Sequence[float]) -> tuple[float, float]:
    """The lower and the upper one, by nearest rank; both are the value if there is one only."""
    ordered = sorted(values)
    return (ordered[len(ordered) // 4],
            ordered[(3 * len(ordered)) // 4 if len(ordered) > 1 else 0])


def middle_half(values: Sequence[float]) -> float:
    """The interquartile range; 0 for a single value."""
    low, high = quartiles(values)
    return high - low
