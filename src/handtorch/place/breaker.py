"""A place that failed is left alone for a while: a second, two, four, up to a minute."""

from __future__ import annotations

FIRST_S, MOST_S = 1.0, 60.0


class Breaker:
    """Closed as long as all is well. After its pause one attempt is let through: what comes of it
    closes the breaker, or doubles the pause."""

    def __init__(self) -> None:
        self._pause_s, self._until_s = 0.0, 0.0
        self.reason = ""

    def is_open(self, now_s: float) -> bool:
        return now_s < self._until_s

    def left_s(self, now_s: float) -> float:
        return max(0.0, self._until_s - now_s)

    def failed(self, now_s: float, reason: str) -> None:
        self._pause_s = min(MOST_S, max(FIRST_S, 2 * self._pause_s))
        self._until_s, self.reason = now_s + self._pause_s, reason

    def succeeded(self) -> None:
        self._pause_s, self._until_s, self.reason = 0.0, 0.0, ""
