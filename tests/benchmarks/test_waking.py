"""Every way to wait waits, and the parts of a message's delay are those of that message."""

from __future__ import annotations

import pytest

from benchmarks import waking


def test_shares_of_what_was_seen() -> None:
    row = waking.told("x", [float(n) for n in range(100, 0, -1)])
    assert (row["p50_ms"], row["p90_ms"], row["p99_ms"], row["most_ms"]) == (51, 91, 100, 100)
    assert waking.told("one", [3.0])["p99_ms"] == 3.0


def test_nobody_wakes_too_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waking, "WAITS_MS", (2,))
    rows = waking.waits(3)
    assert len(rows) == len(waking.WAYS) and all(row["p50_ms"] > -0.1 for row in rows)


def test_the_parts_of_a_message() -> None:
    rows = waking.messages(20, 2)
    assert [row["count"] for row in rows] == [4, 4, 4]
    assert all(row["p50_ms"] > -1.0 for row in rows)
