"""The arithmetic of a link, on times that are said and not waited for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from handtorch.cloud.link import PACKET_BYTES, Link, Piece, ways
from handtorch.place.network import Network, Trace

MS = 1e6
# 8 Mb/s: a byte takes a microsecond, and a piece has a thousand of them.
STEADY = Network("steady", 8e6, 8e6, 20.0, "wifi", "made up")


def up(network: Network, seed: int = 0) -> Link:
    return Link(ways(network)[0], seed)


def last(link: Link, now_ms: float, count: int, not_before_ns: float = 0.0) -> Piece:
    return link.carry(now_ms * MS, count, not_before_ns)[-1]


@pytest.mark.parametrize("mbps", [0.5, 1, 2, 5, 10, 20, 40])
def test_bytes_leave_at_the_rate_and_arrive_a_delay_later(mbps: float) -> None:
    link = up(replace(STEADY, up_bps=mbps * 1e6))
    pieces = link.carry(0.0, 100_000)
    assert sum(piece.size for piece in pieces) == 100_000
    assert pieces[-1].leaves_ns == pytest.approx(100_000 * 8e9 / (mbps * 1e6), rel=1e-9)
    for piece in pieces:
        assert piece.arrives_ns == pytest.approx(piece.leaves_ns + 10 * MS)
        assert piece.size <= PACKET_BYTES and piece.size * 8e9 / (mbps * 1e6) <= MS


def test_both_ways_have_their_own_rate() -> None:
    there, back = ways(replace(STEADY, down_bps=1e6))
    assert (there.bps, back.bps, there.delay_ns, back.delay_ns) == (8e6, 1e6, 10 * MS, 10 * MS)


def test_one_after_the_other_as_if_it_were_one() -> None:
    whole, parts = up(STEADY), up(STEADY)
    for _ in range(99):
        parts.carry(0.0, 1000)
    assert last(parts, 0, 1000).leaves_ns == pytest.approx(last(whole, 0, 100_000).leaves_ns)


def test_a_link_that_had_nothing_to_do_begins_anew() -> None:
    link = up(STEADY)
    assert last(link, 0, 5000).leaves_ns == pytest.approx(5 * MS)
    assert last(link, 3, 1000).leaves_ns == pytest.approx(6 * MS)       # waits for the first
    assert last(link, 50, 1000).leaves_ns == pytest.approx(51 * MS)


def test_nothing_leaves_during_an_outage() -> None:
    out = replace(STEADY, outages_s=((0.002, 0.010), (0.012, 0.020)))
    link = up(out)
    assert last(link, 0, 2000).leaves_ns == pytest.approx(2 * MS)
    assert last(link, 0, 1000).leaves_ns == pytest.approx(11 * MS)
    assert last(link, 0, 2000).leaves_ns == pytest.approx(21 * MS)      # one before, one after
    assert last(up(out), 5, 1000).leaves_ns == pytest.approx(11 * MS)
    assert last(up(out), 25, 1000).leaves_ns == pytest.approx(26 * MS)
    assert last(up(replace(out, outages_s=((0.002, 0.01), (0.01, 0.02)))), 0, 3000
                ).leaves_ns == pytest.approx(21 * MS)


def test_jitter_is_drawn_for_each_packet_and_keeps_the_order() -> None:
    link = up(replace(STEADY, jitter_ms=7.0))
    late, before = [], 0.0
    for number in range(400):
        piece = last(link, 50.0 * number, 1)
        late.append((piece.arrives_ns - piece.leaves_ns) / MS - 10)
    assert 0 <= min(late) < 0.5 and 6.5 < max(late) <= 7
    assert sum(late) / len(late) == pytest.approx(3.5, abs=0.4)         # 4 standard errors
    for piece in up(replace(STEADY, jitter_ms=7.0)).carry(0.0, 50_000):
        assert piece.arrives_ns >= before
        before = piece.arrives_ns


def test_what_is_lost_takes_the_link_again_and_comes_a_round_trip_later() -> None:
    link = up(replace(STEADY, loss=0.2))
    spent = 0
    for number in range(2000):
        piece = last(link, 100.0 * number, PACKET_BYTES)
        sendings = round((piece.leaves_ns - 100.0 * number * MS) / (1.5 * MS))
        assert piece.arrives_ns - piece.leaves_ns == pytest.approx((10 + 20 * (sendings - 1)) * MS)
        spent += sendings
    assert link.packets == 2000 and link.lost == spent - 2000
    assert spent / 2000 == pytest.approx(1 / 0.8, abs=0.05)             # 4 standard errors


def test_what_is_lost_holds_up_its_own_connection_alone() -> None:
    link = up(replace(STEADY, loss=0.3))
    mine = other = held = 0
    for _ in range(200):
        before = link.lost
        lost = last(link, 0, PACKET_BYTES)
        if link.lost == before:
            continue
        before, mine = link.lost, mine + 1
        theirs = last(link, 0, PACKET_BYTES)
        ours = last(link, 0, PACKET_BYTES, lost.arrives_ns)
        assert ours.arrives_ns >= lost.arrives_ns
        held += ours.arrives_ns == lost.arrives_ns
        other += theirs.arrives_ns < lost.arrives_ns
    assert mine > 30 and held > mine / 2 and other > mine / 2


@pytest.mark.parametrize("seed", [0, 1])
def test_the_same_seed_the_same_times(seed: int) -> None:
    uneven = replace(STEADY, jitter_ms=5.0, loss=0.1)
    one, two, other = up(uneven, seed), up(uneven, seed), up(uneven, seed + 7)
    assert one.carry(0.0, 90_000) == two.carry(0.0, 90_000) != other.carry(0.0, 90_000)


def test_a_trace_says_when() -> None:
    link = up(replace(STEADY, up_trace=Trace((1, 1, 4, 10))))
    assert [p.leaves_ns / MS for p in link.carry(0.0, 4 * 1500)] == [1, 1, 4, 10]
    assert [p.leaves_ns / MS for p in link.carry(0.0, 2 * 1500)] == [11, 11]     # begins again
    assert last(link, 12, 1).leaves_ns == 14 * MS
    assert last(link, 12, 1499).leaves_ns == 14 * MS            # the rest of the same chance
    assert last(link, 12, 1).leaves_ns == 20 * MS
    assert last(link, 1002, 1).leaves_ns == 1004 * MS           # chances meanwhile are gone
    assert last(link, 1005, 1500).leaves_ns == 1010 * MS        # and what was left of that one


def test_a_trace_with_an_outage() -> None:
    link = up(replace(STEADY, up_trace=Trace((1, 2, 3, 10)), outages_s=((0.0015, 0.0125),)))
    assert [p.leaves_ns / MS for p in link.carry(0.0, 3 * 1500)] == [1, 13, 20]


def test_a_traces_mean_rate_is_kept() -> None:
    trace = Trace(tuple(range(1, 1001)))                        # 12 Mb/s
    link = up(replace(STEADY, up_trace=trace))
    count = 10 * 1000 * 1500
    assert trace.mean_bps == 12e6
    assert last(link, 0, count).leaves_ns == pytest.approx(count * 8e9 / trace.mean_bps, rel=1e-3)
