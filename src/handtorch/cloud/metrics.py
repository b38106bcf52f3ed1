"""Counters and histograms in Prometheus's text format; label values are ours, never a client's."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

Labels = tuple[tuple[str, str], ...]
Rows = Iterable[tuple[str, Labels, float]]      # suffix of the name, labels, value
SECONDS = (1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5,
           10, 30)
ROWS = (1, 2, 4, 8, 16, 32, 64)


@dataclass
class Counter:
    name: str
    help: str
    kind: str = "counter"
    values: dict[Labels, float] = field(default_factory=dict)

    def add(self, amount: float = 1, **labels: str) -> None:
        key = tuple(labels.items())
        self.values[key] = self.values.get(key, 0) + amount

    def rows(self) -> Rows:
        return [("", labels, value) for labels, value in self.values.items()]


@dataclass
class Gauge:
    """Asked when somebody reads it."""

    name: str
    help: str
    read: Callable[[], Mapping[Labels, float]]
    kind: str = "gauge"

    def rows(self) -> Rows:
        return [("", labels, value) for labels, value in self.read().items()]


@dataclass
class Histogram:
    name: str
    help: str
    bounds: Sequence[float]
    kind: str = "histogram"
    counts: dict[Labels, list[int]] = field(default_factory=dict)
    sums: dict[Labels, float] = field(default_factory=dict)

    def observe(self, value: float, **labels: str) -> None:
        key = tuple(labels.items())
        if key not in self.counts:
            self.counts[key], self.sums[key] = [0] * (len(self.bounds) + 1), 0.0
        self.counts[key][bisect_left(self.bounds, value)] += 1
        self.sums[key] += value

    def rows(self) -> Rows:
        for labels, counts in self.counts.items():
            so_far = 0
            for bound, count in zip((*self.bounds, "+Inf"), counts, strict=True):
                so_far += count
                yield "_bucket", (*labels, ("le", str(bound))), so_far
            yield "_sum", labels, self.sums[labels]
            yield "_count", labels, so_far


class Metrics:
    """All of one server's."""

    def __init__(self) -> None:
        self.requests = Counter("handtorch_requests_total", "Requests by model and HTTP status.")
        self.steps = Histogram("handtorch_step_seconds", "Where the time of answered requests "
                               "went.", SECONDS)
        self.batches = Histogram("handtorch_batch_rows", "Samples in the batch of a request.",
                                 ROWS)
        self.gauges: list[Gauge] = []

    def text(self) -> str:
        lines = []
        every: list[Counter | Histogram | Gauge] = [self.requests, self.steps, self.batches,
                                                    *self.gauges]
        for metric in every:
            lines += [f"# HELP {metric.name} {metric.help}", f"# TYPE {metric.name} {metric.kind}"]
            lines += [f"{metric.name}{suffix}{_labels(labels)} {value:g}"
                      for suffix, labels, value in metric.rows()]
        return "\n".join(lines) + "\n"


def _labels(labels: Labels) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
