"""The benchmark of the relay: what it calls agreement is that."""

from __future__ import annotations

import pytest

from benchmarks import relay
from handtorch.cloud.relay_log import Burst


@pytest.mark.parametrize("reported, seen, agreed", [
    (3.0, 1.0, True), (3.1, 1.0, False), (105.0, 100.0, True), (105.1, 100.0, False),
    (94.9, 100.0, False), (39.0, 41.0, True)])
def test_five_percent_or_two_milliseconds(reported: float, seen: float, agreed: bool) -> None:
    assert relay.agrees(reported, seen) is agreed


def burst(carried_ms: float) -> Burst:
    return Burst(1, "up", 900, 900, 0, 0, 1, int((carried_ms + 20) * 1e6), 20.0)


def test_a_cell_is_judged_by_its_median_and_shows_its_worst() -> None:
    found = relay.cell(1.0, "png", [(100.0, burst(101.0)), (103.0, burst(100.0)),
                                    (130.0, burst(100.0))])
    assert found.good and (found.agreed, found.count, found.message_bytes) == (2, 3, 900)
    assert (found.error_ms, found.worst_ms) == (pytest.approx(3.0), pytest.approx(30.0))
    bad = relay.cell(1.0, "png", [(130.0, burst(100.0))])
    assert not bad.good and bad.line().endswith("0/1  MISSED")
