"""The benchmark of sampling: its figures are what they say."""

from __future__ import annotations

from benchmarks import sampling
from handtorch.profile.audit import Overhead


def test_the_cost_is_that_of_the_switch() -> None:
    on, now_ns = [False], [0]

    def switch(now: bool) -> None:
        on[0] = now

    def step() -> None:
        now_ns[0] += 3_000_000 if on[0] else 2_000_000

    cost, noise, step_ms = sampling.measure(step, switch, pairs=9, clock=lambda: now_ns[0])
    assert (cost.percent, cost.low, cost.high, cost.pairs) == (50, 50, 50, 10)
    assert (noise.percent, step_ms) == (0, 2)


def test_nothing_is_judged_beside_others() -> None:
    cheap, dear = Overhead(0.9, 0, 1, 0, 9), Overhead(1.1, 0, 1, 0, 9)
    assert sampling.judged(cheap, 0.04) is True and sampling.judged(dear, 0.04) is False
    assert sampling.judged(cheap, 0.06) is None and sampling.judged(cheap, None) is None


def test_a_line() -> None:
    assert sampling.line("sampling", Overhead(0.5, -0.25, 1.25, 2.0, 9)) == (
        "sampling     +0.50 %  (-0.25 to +1.25; middle half 2.00; 9 pairs)")
    assert sampling.line("noise", Overhead(0.5, None, None, 2.0, 3)) == (
        "noise        +0.50 %  (too few pairs for an interval; middle half 2.00; 3 pairs)")
