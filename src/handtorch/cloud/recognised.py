"""One picture's recognition: what was seen in it, and what each step of it took.

    load       the model, from its file to its first answer; 0 where it was there before
    rescale    the file read, decoded, made small, and made ready to compute with or to send
    upload     the message made and sent: here until the socket had it all, or there from its first
               byte to its last, whichever took longer. A network's buffers hide the end of the
               first, and the second begins only when something has come, so neither has the way
               itself (half a round trip), and both have what the network's rate made of it
    decode     there: the message and the picture in it
    queue      there: waiting for the batch
    compute    the model
    send       there: the answer packed
    download   the answer from its first byte on, read and unpacked

Each has two stamps of one monotonic clock of its own; none is what others leave. What lies between
them (waking a thread, a packet on its way) is in no step: `sum_ms` falls short of `end_to_end_ms`
by it. Where this process was kept from running while it sent, the server was already at its next
step, and the two overlap."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from handtorch.cloud.recipes import Label
from handtorch.meters.used import Span

STEPS = ("load", "rescale", "upload", "decode", "queue", "compute", "send", "download")
# Of the paper's five; the others are the server's own, and 0 on a device.
SHORT = ("load", "rescale", "upload", "compute", "download")

Scores = np.ndarray[Any, Any]


@dataclass
class Steps:
    """Durations by step as they are taken, in nanoseconds."""

    taken_ns: dict[str, int] = field(default_factory=dict)

    @contextmanager
    def of(self, step: str) -> Iterator[None]:
        assert step in STEPS and step not in self.taken_ns, step
        begin_ns = time.perf_counter_ns()
        yield
        self.taken_ns[step] = time.perf_counter_ns() - begin_ns

    def ms(self) -> dict[str, float]:
        """All steps in order; 0 for one that was not needed."""
        return {step: self.taken_ns.get(step, 0) / 1e6 for step in STEPS}


@dataclass(frozen=True)
class Recognised:
    """`labels` is empty where nothing was recognised; `no_labels` then says why."""

    name: str
    width: int
    height: int
    file_bytes: int
    sent_bytes: int
    labels: tuple[Label, ...]
    no_labels: str
    steps_ms: Mapping[str, float]
    span: Span

    @property
    def sum_ms(self) -> float:
        return sum(self.steps_ms.values())

    @property
    def end_to_end_ms(self) -> float:
        return self.span.seconds * 1e3
