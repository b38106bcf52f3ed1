"""Where the time of one request went: six stamps, five steps between them.

Steps touch, so that their sum is the whole; each has two stamps of the monotonic clock, and only
durations travel: no two clocks are ever compared.

    receive   from the request's first byte to the last of its body. A slow network takes longer for
              the head alone than a quick one for all; a server that does not tell when the first
              byte came counts from the end of the head
    decode    the message's tensors, its pictures to the model's input
    queue     until the batch that it is part of begins
    compute   that batch, copies included
    send      from the result to the answer's bytes in the hands of the operating system's socket,
              without writing this very head; how long the network then takes only a client can see
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from handtorch.cloud.protocol import STEPS


class Stamps:
    """The stamps of one request, taken in order."""

    def __init__(self, began_ns: int | None = None) -> None:
        self.at_ns = [time.perf_counter_ns() if began_ns is None else began_ns]

    def mark(self) -> None:
        self.at_ns.append(time.perf_counter_ns())

    def marked(self, *at_ns: int) -> None:
        """Stamps that another thread took."""
        self.at_ns.extend(at_ns)

    def steps_ms(self) -> dict[str, float]:
        """Milliseconds of the five steps."""
        assert len(self.at_ns) == len(STEPS) + 1, f"{len(self.at_ns)} stamps"
        return {step: (end - begin) / 1e6 for step, begin, end in
                zip(STEPS, self.at_ns, self.at_ns[1:], strict=False)}


def server_timing(steps_ms: Mapping[str, float]) -> str:
    """The steps as the header `Server-Timing` has them."""
    return ", ".join(f"{step};dur={ms:.4f}" for step, ms in steps_ms.items())


def rounded(steps_ms: Mapping[str, float]) -> dict[str, float]:
    return {step: round(ms, 4) for step, ms in steps_ms.items()}
