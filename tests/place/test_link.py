from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handtorch.place.link import (
    INITIAL_WINDOW_BYTES,
    LEAST_BYTES,
    REQUEST_HEAD_BYTES,
    Link,
    LinkEstimate,
    link_of,
    slow_start_s,
    slowest_tenth_bps,
)
from handtorch.place.network import Network, Trace

LTE = Link(5.64e6, 12.74e6, 0.070, "simulated", "a profile", 5.64e6)


def test_an_exchange_on_an_open_connection() -> None:
    found = LTE.exchange(172_000, 1000, there_s=0.02)
    assert (found.connect_s, found.slow_start_s) == (0, 0)
    assert found.up_s == pytest.approx(8 * (172_000 + REQUEST_HEAD_BYTES) / 5.64e6)
    assert found.network_s == pytest.approx(found.up_s + 0.070 + 8000 / 12.74e6)
    assert found.waiting_s == pytest.approx(0.070 + 0.02)


def test_a_new_connection_pays_a_round_trip_and_slow_start() -> None:
    cold, warm = LTE.exchange(172_000, cold=True), LTE.exchange(172_000)
    assert cold.connect_s == 0.070
    assert cold.slow_start_s == pytest.approx(
        (0.070 - 8 * 14600 / 5.64e6) + (0.070 - 8 * 29200 / 5.64e6))
    assert cold.network_s == pytest.approx(warm.network_s + cold.connect_s + cold.slow_start_s)


@pytest.mark.parametrize("windows", [0.5, 1, 2, 3, 7, 100])
def test_slow_start_on_an_endless_link_is_whole_round_trips(windows: float) -> None:
    rounds = max(1, math.ceil(math.log2(windows + 1)))
    assert slow_start_s(windows * INITIAL_WINDOW_BYTES, 1e15, 0.1) == pytest.approx(
        0.1 * (rounds - 1), abs=1e-6)


@given(st.floats(1, 1e7), st.floats(1e4, 1e9), st.floats(0, 2))
def test_slow_start_never_more_than_its_round_trips(size: float, bps: float, rtt_s: float) -> None:
    rounds = max(1, math.ceil(math.log2(size / INITIAL_WINDOW_BYTES + 1)))
    assert 0 <= slow_start_s(size, bps, rtt_s) <= rtt_s * (rounds - 1) + 1e-9


@given(st.floats(1e3, 1e7), st.floats(1e4, 1e8), st.floats(1.01, 50), st.booleans())
def test_a_faster_link_is_never_slower(size: float, bps: float, faster: float, cold: bool) -> None:
    slow, quick = (Link(b, b, 0.1, "simulated", "x", b).exchange(size, cold=cold).network_s
                   for b in (bps, bps * faster))
    assert quick <= slow + 1e-9


def test_a_network_with_loss_and_jitter_is_slower_and_later() -> None:
    found = link_of(Network("n", 10e6, 20e6, 40.0, "lte", "made up", jitter_ms=10.0, loss=0.02))
    assert (found.up_bps, found.down_bps) == (pytest.approx(9.8e6), pytest.approx(19.6e6))
    assert found.rtt_s == pytest.approx(0.050)
    assert found.exchange(1000, slow=True).flight_s == pytest.approx(0.050 + 0.01 * 0.5528,
                                                                     abs=1e-5)


def test_a_trace_counts_with_its_mean_and_its_worst_tenth() -> None:
    # 9 seconds of 100 packets, then one of 10.
    at = [1000 * s + 10 * k for s in range(9) for k in range(100)] + [
        9000 + 100 * k for k in range(10)] + [10_000]
    trace = Trace(tuple(at))
    found = link_of(Network("n", 1.0, 5e6, 40.0, "lte", "made up", up_trace=trace))
    assert found.up_bps == pytest.approx(trace.mean_bps)
    assert found.slow_up_bps == slowest_tenth_bps(trace) == 100 * 12_000
    worse = Trace(tuple(range(0, 1000, 100)) + tuple(range(1000, 9001, 10)))
    assert slowest_tenth_bps(worse) == 10 * 12_000
    dead = Trace((0, 5000))
    assert slowest_tenth_bps(dead) > 0


def test_the_rate_is_the_harmonic_mean_of_the_last_eight() -> None:
    found = LinkEstimate()
    found.sent(100_000, 99.0, 0.0)                      # the ninth from the end: forgotten
    for k in range(8):
        found.sent(100_000, 0.1 if k % 2 else 0.4, 1.0)
    link = found.link(1.0)
    assert link is not None
    assert link.up_bps == pytest.approx(2 / (1 / 8e6 + 1 / 2e6))
    assert link.slow_up_bps == pytest.approx(2e6)
    assert link.provenance == "measured"


def test_short_transfers_count_only_where_there_are_no_others() -> None:
    found = LinkEstimate()
    found.sent(LEAST_BYTES - 1, 1.0, 0.0)
    found.sent(LEAST_BYTES - 1, 0.5, 0.0)
    link = found.link(0.0)
    assert link is not None and "the quickest of them" in link.how
    assert link.up_bps == pytest.approx(8 * (LEAST_BYTES - 1) / 0.5)
    found.sent(LEAST_BYTES, 0.1, 0.0)
    link = found.link(0.0)
    assert link is not None and link.up_bps == pytest.approx(8 * LEAST_BYTES / 0.1)
    assert "short" not in link.how


def test_round_trips_are_smoothed_as_tcp_does() -> None:
    found = LinkEstimate()
    found.sent(100_000, 0.1, 0.0)
    found.answered(0.100, 0.0)
    found.answered(0.180, 1.0)
    link = found.link(1.0)
    assert link is not None and link.rtt_s == pytest.approx(0.110)
    assert link.late_s == pytest.approx(2 * (0.050 + (0.080 - 0.050) / 4))


def test_what_is_older_than_a_minute_is_forgotten() -> None:
    found = LinkEstimate()
    assert found.link(0.0) is None
    found.sent(100_000, 0.1, 0.0)
    found.answered(0.1, 0.0)
    assert found.link(60.0) is not None
    assert found.link(60.1) is None
    found.answered(0.5, 100.0)                          # begins anew, without the old one
    found.sent(100_000, 0.1, 100.0)
    link = found.link(100.0)
    assert link is not None and link.rtt_s == 0.5
    found.forget()
    assert found.link(100.0) is None


def test_what_took_no_time_tells_no_rate() -> None:
    found = LinkEstimate()
    found.sent(100_000, 0.0, 0.0)
    assert found.link(0.0) is None
