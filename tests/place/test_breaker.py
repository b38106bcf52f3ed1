from __future__ import annotations

from handtorch.place.breaker import Breaker


def test_pauses_double_up_to_a_minute_and_a_success_ends_them() -> None:
    breaker, now, pauses = Breaker(), 100.0, []
    assert not breaker.is_open(now)
    for _ in range(8):
        breaker.failed(now, "no answer")
        assert breaker.is_open(now) and breaker.reason == "no answer"
        pauses.append(breaker.left_s(now))
        now += breaker.left_s(now)
        assert not breaker.is_open(now)         # one attempt is let through
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60]
    breaker.succeeded()
    breaker.failed(now, "again")
    assert breaker.left_s(now) == 1
