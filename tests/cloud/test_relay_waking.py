"""How early a relay wakes: as early as it was late, and not at the price of a core."""

from __future__ import annotations

import pytest

from handtorch.cloud.relay_waking import FIRST_NS, LEAST_NS, MOST_NS, SAVED_NS, SHARE, Waking


def test_it_begins_with_a_guess_and_learns() -> None:
    waking = Waking()
    assert waking.early_ns(0.0) == pytest.approx(FIRST_NS)
    for _ in range(100):
        waking.woke(0.3e6)
    assert waking.early_ns(0.0) == pytest.approx(0.3e6, rel=0.01)
    waking.woke(2.3e6)              # a late one counts for a while: 1/8 in the mean, 1/4 around it
    assert waking.early_ns(0.0) == pytest.approx(0.3e6 + 2e6 / 8 + 4 * 2e6 / 4, rel=0.01)


def test_it_is_never_much_too_early_nor_late_by_habit() -> None:
    waking = Waking()
    for _ in range(100):
        waking.woke(40e6)
    assert waking.early_ns(0.0) == MOST_NS
    for _ in range(200):
        waking.woke(0.0)
    assert waking.early_ns(0.0) == LEAST_NS


def test_polling_is_a_share_of_the_time() -> None:
    waking, now_ns = Waking(), 0.0
    for _ in range(100_000):        # it would poll all the time
        early_ns = waking.early_ns(now_ns)
        waking.polled(early_ns)
        now_ns += 0.5e6
    assert waking.polled_ns == pytest.approx(SHARE * now_ns, abs=SAVED_NS + MOST_NS)
    assert waking.early_ns(now_ns) < LEAST_NS
    assert waking.early_ns(now_ns + 1e9) == pytest.approx(FIRST_NS)     # it has rested
