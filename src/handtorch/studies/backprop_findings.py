"""What the study `backprop` found: one `Point` per model, as rows, as a table, as a verdict."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from handtorch.baseline.fair import MOST_OTHERS, Timing, middle_half
from handtorch.record import Published, Result, Verdict
from handtorch.record.rows import Better
from handtorch.runtime.opencl.discover import FoundDevice
from handtorch.studies.backprop_accounting import Observed, Split, split
from handtorch.studies.study import HOST
from handtorch.studies.unjudged import mark, marked

NAME = "backprop"
QUESTION = "Does moving data eat the time of training here, so that the device loses to the CPU?"
TORCH, NAIVE, TUNED, RESIDENT = ("torch CPU", "op by op, naive kernels", "op by op, tuned kernels",
                                 "resident step")
OURS = (NAIVE, TUNED, RESIDENT)
SIDES = (TORCH, *OURS)
BATCH = 32
X = "Model"
MOVED, COMPUTED, DEPTH = ("copies / (kernels + copies)", "kernels / whole step",
                          "three layers / one layer")
_PAPER = "Das et al., Enabling On-Device Smartphone GPU based Training: Lessons Learned, 2022"
_PHONES = "OnePlus Nord, 6 and 8 Pro GPU"
PUBLISHED = (
    (MOVED, 91, "%", f"{_PAPER}, abstract: almost 91 % of training time"),
    (COMPUTED, 9, "%", f"{_PAPER}, section IV-C: about 9 % of the total training time"),
    (DEPTH, 3, "x", f"{_PAPER}, section IV-B: about 3 times longer, the backward pass alone"))
_NO_SPLIT = "torch computes in the host's own memory; its time is not taken apart"
_MOST_OF_IT = 0.5                           # of kernels and copies; beyond it movement decides


@dataclass(frozen=True)
class Point:
    """One model: blocks of the four sides in turn, then steps of our three seen from inside."""

    number: int                             # 1 is Model1
    times: Mapping[str, Timing]
    observed: Mapping[str, tuple[Observed, ...]]
    moved_bytes: Mapping[str, int]          # over the bus in one step

    def splits(self, side: str) -> tuple[Split, ...]:
        return tuple(split(o) for o in self.observed[side] if not o.fault())

    def fault(self, side: str) -> str:
        """Why the side has no split; empty if it has one."""
        if side not in self.observed:
            return _NO_SPLIT
        faults = [o.fault() for o in self.observed[side]]
        return faults[0] if all(faults) else ""

    def median_of(self, side: str, part: Callable[[Split], float | None]) -> float | None:
        found = [n for n in map(part, self.splits(side)) if n is not None]
        return median(found) if found else None

    def speeds(self, side: str) -> tuple[float, ...]:
        """How many times as fast as torch, round by round."""
        return tuple(theirs / ours for theirs, ours in
                     zip(self.times[TORCH].seconds, self.times[side].seconds, strict=True))


_Part = Callable[[Split], float | None]
PARTS: Mapping[str, tuple[_Part, str, Better]] = {
    "kernels": (lambda s: s.kernel_ns / 1e3, "us", "lower"),
    "copies": (lambda s: s.copy_ns / 1e3, "us", "lower"),
    "host wait": (lambda s: s.wait_ns / 1e3, "us", "lower"),
    MOVED: (lambda s: None if s.moved_share is None else 100 * s.moved_share, "%", "lower"),
    COMPUTED: (lambda s: 100 * s.kernel_share, "%", "higher"),
}


def published() -> Iterator[Published]:
    for name, value, unit, source in PUBLISHED:
        yield Published(study=NAME, name=name, subject=_PHONES, value=value, unit=unit,
                        source=source)


def results(p: Point, place: str) -> Iterator[Result]:
    """All rows of one model: whole steps, ratios, parts, bytes."""
    for side in SIDES:
        yield _result(p, "whole step", side, place, [s * 1e6 for s in p.times[side].seconds], "us",
                      "lower", p.times[side].runs)
    for side in OURS:
        yield _result(p, "times as fast as torch CPU", side, place, p.speeds(side), "x", "higher")
    for name, (part, unit, better) in PARTS.items():
        for side in SIDES if unit == "us" else OURS:
            found = [] if p.fault(side) else [n for n in map(part, p.splits(side)) if n is not None]
            why = p.fault(side) or "neither a kernel nor a copy took any time"
            yield _result(p, name, side, place, found, unit, better, why=why)
    for side in OURS:
        yield _result(p, "bytes over the bus in a step", side, place,
                      [p.moved_bytes[side] / 1e3], "kB", "lower")


def _result(p: Point, name: str, side: str, place: str, values: Sequence[float], unit: str,
            better: Better, repeats: int = 0, why: str = "") -> Result:
    return Result(study=NAME, name=name, subject=side, place=HOST if side == TORCH else place,
                  x_name=X, x_value=p.number, value=median(values) if values else None,
                  value_reason="" if values else why, unit=unit, better=better,
                  repeats=repeats or len(values), provenance="measured",
                  spread=middle_half(values) if len(values) > 1 else None)


def depth_results(points: Sequence[Point], place: str) -> Iterator[Result]:
    """The paper's other finding: time grows with the number of layers. Model2 is Model1 thrice."""
    at = {p.number: p.times for p in points}
    if not {1, 2} <= set(at):
        return
    for side in SIDES:
        yield Result(study=NAME, name=DEPTH, subject=side, place=HOST if side == TORCH else place,
                     value=at[2][side].median_s / at[1][side].median_s, unit="x",
                     better="neither", repeats=1, provenance="measured")


def judge(points: Sequence[Point], device: FoundDevice, others: float | None = None) -> Verdict:
    """Holds if, with the best kernels, copies outweigh kernels and torch wins on every model.

    Of speed it speaks only where the machine was quiet."""
    moved = [m for p in points if (m := p.median_of(TUNED, lambda s: s.moved_share)) is not None]
    speeds = {side: [median(p.speeds(side)) for p in points] for side in OURS}
    said = (f"A step runs at {_range(speeds[NAIVE])} times torch's speed with naive and "
            f"{_range(speeds[TUNED])} with tuned kernels, resident at {_range(speeds[RESIDENT])}.")
    doubt = ""
    if others is not None and others > MOST_OTHERS:
        said = "Nothing is said of speed."
        doubt = f"other programs used {others:.0%} of this machine's cores meanwhile: run it again"
    elif not moved:
        doubt = f"the device's times cannot be used: {points[0].fault(TUNED)}"
    elif device.spec.kind == "cpu":
        doubt = ("the device is the CPU itself: a copy stays in its memory, so a phone's cost of "
                 "moving data is not to be seen here")
    holds = None if doubt else (all(s < 1 for s in speeds[TUNED]) and min(moved) > _MOST_OF_IT)
    return Verdict(
        study=NAME, question=QUESTION, holds=holds, holds_reason=doubt,
        answer=f"On {device.label}, op by op with every operand copied in and every result out, "
               f"copies take {_range([100 * m for m in moved], ' %')} of kernels and copies "
               f"together; in the paper 91 %. {said}")


def _range(values: Sequence[float], unit: str = "") -> str:
    if not values:
        return "an unknown share"
    low, high = (f"{v:.0f}" if v >= 10 else f"{v:.2g}" for v in (min(values), max(values)))
    return f"{low}{unit}" if low == high else f"{low} to {high}{unit}"


def table(points: Sequence[Point], others: float | None = None) -> str:
    """Models down, sides across: whole steps and how they compare, then the parts."""
    whole = [["", *SIDES]]
    parts = [["", *OURS]]
    for p in points:
        us = [f"{p.times[side].median_s * 1e6:.0f}" for side in SIDES]
        speeds = ["", *(f" ({median(p.speeds(side)):.2f} x{mark(others)})" for side in OURS)]
        whole.append([f"{X}{p.number}", *(a + b for a, b in zip(us, speeds, strict=True))])
        parts.append([f"{X}{p.number}", *(_parts(p, side) for side in OURS)])
    return (f"whole step, batch {BATCH}: median us (times as fast as {TORCH})\n{_lines(whole)}\n"
            f"us in kernels + copies + host wait\n{_lines(parts)}{marked(others)}\n")


def _parts(p: Point, side: str) -> str:
    if p.fault(side):
        return "-"
    three = [p.median_of(side, PARTS[name][0]) or 0.0 for name in ("kernels", "copies",
                                                                   "host wait")]
    return " + ".join(f"{us:.0f}" for us in three)


def _lines(rows: Sequence[Sequence[str]]) -> str:
    wide = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "".join("  ".join(cell.rjust(w) for cell, w in zip(row, wide, strict=True)) + "\n"
                   for row in rows)
