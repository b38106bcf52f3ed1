"""How long before its time a relay wakes, so that it is there when the time comes.

A core that sleeps is woken late: on the virtual machines of docs/adr/0027 by a fifth of a
millisecond as a rule and by several now and then. Whoever wakes early and polls is not, but polling
is work: so it wakes only as early as wake-ups have lately been late, as TCP waits for answers (the
mean and four deviations), and polls no more than a tenth of the time."""

from __future__ import annotations

FIRST_NS = 1e6                  # before anything is known
LEAST_NS, MOST_NS = 0.2e6, 5e6
SHARE = 0.1                     # of a core, in the long run
SAVED_NS = 50e6                 # of it, at most, for when it is needed
_MEAN, _DEVIATION, _TIMES = 1 / 8, 1 / 4, 4.0


class Waking:
    """Times are nanoseconds of any clock that the caller keeps to."""

    def __init__(self) -> None:
        self._mean_ns = self._deviation_ns = FIRST_NS / (1 + _TIMES)
        self._saved_ns, self._at_ns = SAVED_NS, 0.0
        self.polled_ns = 0.0

    def woke(self, late_ns: float) -> None:
        """A sleep ended so much later than it was to."""
        off_ns = late_ns - self._mean_ns
        self._mean_ns += _MEAN * off_ns
        self._deviation_ns += _DEVIATION * (abs(off_ns) - self._deviation_ns)

    def early_ns(self, now_ns: float) -> float:
        """How long before its time to wake; less, or not at all, for one who has polled much."""
        self._saved_ns = min(SAVED_NS, self._saved_ns + SHARE * max(0.0, now_ns - self._at_ns))
        self._at_ns = max(self._at_ns, now_ns)
        wanted_ns = self._mean_ns + _TIMES * self._deviation_ns
        return max(0.0, min(max(LEAST_NS, wanted_ns), MOST_NS, self._saved_ns))

    def polled(self, ns: float) -> None:
        self._saved_ns -= ns
        self.polled_ns += ns
