"""The benchmark of the relay: what it calls agreement is that."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import relay
from handtorch.cloud.relay_check import Accuracy, spread
from handtorch.cloud.relay_check import Kept as Way
from handtorch.cloud.relay_log import Burst, Late


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


def test_rows_are_kept_and_not_measured_again(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    first = relay.Kept(path)
    assert first.wants("a") and first.wants("b")
    first.add({"name": "a", "missed": 1})
    again = relay.Kept(path)
    assert not again.wants("a") and again.wants("b") and again.rows["a"]["missed"] == 1
    late = relay.Kept(path, until_s=0.0)
    assert not late.wants("a") and not late.wants("b") and late.left == 1


def test_a_network_that_missed_both_ways_counts_twice() -> None:
    ways = tuple(Way(name, 1.0, spread([mbps]), 20.0, spread([20.0 + late]))
                 for name, mbps, late in (("up", 1.06, 0.1), ("down", 1.0, 2.1)))
    late = Late(3, 0.1, 0.2, 0.3)
    row = relay.of_rates(Accuracy("slow", (ways[0], ways[1]), late, late), 0.01)
    assert row["missed"] == 2 and row["name"] == "slow" and len(row["lines"]) == 4
    assert row["lines"][3] == ("      short messages: 3 deliveries late by 0.10 ms in the middle, "
                               "0.20 ms at 99 %")
