"""What the strategies of the study `rnn` took: one `Point` per network, as rows, table, verdicts.

Ratios are taken round by round, so that both sides saw the same moments of the machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from handtorch.baseline.fair import MOST_OTHERS, Timing, middle_half
from handtorch.record import Published, Result, Verdict
from handtorch.record.rows import Better
from handtorch.runtime.opencl.discover import FoundDevice
from handtorch.studies.rnn_strategies import (
    A1,
    A2,
    B1,
    B2,
    C_GROUPS,
    D_PAPER,
    ON_HOST,
    TITLES,
    C,
    D,
    E,
)
from handtorch.studies.study import HOST
from handtorch.studies.unjudged import mark, marked

NAME = "rnn"
QUESTION = "Do coarse units of work turn an LSTM on the device from a loss into a win?"
OURS_QUESTION = "Is our way to run an LSTM anywhere slower than the paper's coarse units?"
X = "hidden units"
FINE, COARSE = ("a window: fine units against the CPU", "a window: coarse units against the CPU")
FINE_RATIO, COARSE_RATIO, MULTI_RATIO, MULTI_SHARE, OURS_RATIO = (
    "fine units: times as long as one CPU thread", "coarse units: times as fast as one CPU thread",
    "multi-threaded CPU: times as long as the device", "the multi-threaded CPU's part of the gain",
    "ours: times as fast as coarse units")
_PAPER = "Cao, Balasubramanian and Balasubramanian, MobiRNN, EMDL 2017"
# (name, subject, value, unit, where): what the text says; figures 5 and 6 print no more numbers.
PUBLISHED: tuple[tuple[str, str, float, str, str], ...] = (
    (FINE_RATIO, "Nexus 5 GPU", 4, "x", "section 3.1 and Fig. 3: up to 4 times slower"),
    (COARSE, "Nexus 5 CPU, one thread", 142, "ms", "section 4.2: in one case, to Fig. 4"),
    (COARSE, "Nexus 5 GPU, MobiRNN", 29, "ms", "section 4.2: in one case, to Fig. 4"),
    (COARSE_RATIO, "Nexus 5 GPU", 3.93, "x", "section 4.2 and Fig. 4: 100 cases"),
    (COARSE_RATIO, "Nexus 6P GPU", 2.83, "x", "section 4.2 and Fig. 4: 100 cases"),
    (MULTI_RATIO, "Nexus 5", 1.32, "x", "section 4.4 and Fig. 6: 32 % on average over the models"),
    (MULTI_SHARE, "Nexus 5", 70.5, "%", "section 4 and Fig. 6: at least"),
    ("parameters of 2 layers x 128 units", "the paper", 263, "thousand", "section 4.3 and Fig. 5"),
)
JUDGED = (2, 32)                            # the paper's usual network
_NOTHING = "nothing is said of which is faster"
_NO_CPU = "there is no OpenCL runtime for the CPU here"


def ratio(name: str) -> tuple[str, str]:
    """Which side's time is divided by which."""
    return {FINE_RATIO: (C, A1), COARSE_RATIO: (A1, D_PAPER), MULTI_RATIO: (B1, D),
            OURS_RATIO: (D, E)}[name]


@dataclass(frozen=True)
class Point:
    """One network: blocks of its sides in turn, one window a run."""

    layers: int
    hidden: int
    times: Mapping[str, Timing]
    launches: Mapping[str, float]           # per cell, where there are any
    notes: Mapping[str, str]                # the shape of coarse units

    @property
    def title(self) -> str:
        return f"{self.layers} x {self.hidden}"

    def ratios(self, over: str, under: str) -> tuple[float, ...]:
        """Time of `over` by time of `under`, round by round; empty where one was not measured."""
        if over not in self.times or under not in self.times:
            return ()
        return tuple(a / b for a, b in zip(self.times[over].seconds, self.times[under].seconds,
                                           strict=False))

    def gains(self, side: str) -> tuple[float, ...]:
        return self.ratios(A1, side)

    def shares(self) -> tuple[float, ...]:
        """What part of the device's gain over one thread the multi-threaded CPU has, in %."""
        return tuple(100 * r for r in self.ratios(D, B1))


def published() -> Iterator[Published]:
    for name, subject, value, unit, where in PUBLISHED:
        yield Published(study=NAME, name=name, subject=subject, value=value, unit=unit,
                        source=f"{_PAPER}, {where}")


def results(p: Point, place: str) -> Iterator[Result]:
    """Times and gains over one CPU thread by hidden units, a figure for each number of layers; at
    the paper's usual network its own comparisons too."""
    layers = f"{p.layers} layer{'s' if p.layers > 1 else ''}"
    for side, timing in p.times.items():
        yield _result(f"time of a window, {layers}", side, place, _ms(timing), "ms", "lower",
                      p.hidden, timing.runs)
    for side in (B1, B2, D, E):
        yield _result(f"times as fast as one CPU thread, {layers}", side, place, p.gains(side), "x",
                      "higher", p.hidden)
    yield _result(OURS_RATIO, E, place, p.ratios(*ratio(OURS_RATIO)), "x", "higher", p.hidden,
                  subject=layers)
    if (p.layers, p.hidden) != JUDGED:
        return
    for name, sides in ((FINE, (A1, A2, C, C_GROUPS)), (COARSE, (A1, A2, D_PAPER, D, E))):
        for side in sides:
            yield _result(name, side, place, _ms(p.times[side]), "ms", "lower", None,
                          p.times[side].runs)
    whose: tuple[tuple[str, str, Better], ...] = (
        (FINE_RATIO, C, "lower"), (COARSE_RATIO, D_PAPER, "higher"), (MULTI_RATIO, B1, "neither"))
    for name, side, better in whose:
        yield _result(name, side, place, p.ratios(*ratio(name)), "x", better, None)
    yield _result(MULTI_SHARE, B1, place, p.shares(), "%", "neither", None)
    for side, launches in p.launches.items():
        yield _result("launches per cell", side, place, [launches], "", "lower", None)


def _ms(timing: Timing) -> list[float]:
    return [s * 1e3 for s in timing.seconds]


def _result(name: str, side: str, place: str, values: Sequence[float], unit: str, better: Better,
            hidden: int | None, repeats: int = 0, subject: str = "") -> Result:
    x_name, x_value = ("", None) if hidden is None else (X, float(hidden))
    return Result(study=NAME, name=name, subject=subject or TITLES[side],
                  place=HOST if side in ON_HOST else place, x_name=x_name, x_value=x_value,
                  value=median(values) if values else None,
                  value_reason="" if values else _NO_CPU, unit=unit, better=better,
                  repeats=repeats or len(values), provenance="measured",
                  spread=middle_half(values) if len(values) > 1 else None)


def doubt_of(others: float | None) -> str:
    """Why nothing is judged; empty where the machine was quiet."""
    if others is not None and others > MOST_OTHERS:
        return f"other programs used {others:.0%} of this machine's cores meanwhile: run it again"
    return ""


def judge(points: Sequence[Point], device: FoundDevice, others: float | None) -> Verdict:
    """A win: fine units lose to one CPU thread, and the paper's coarse ones do not."""
    (p,) = (p for p in points if (p.layers, p.hidden) == JUDGED)
    fine, coarse = (median(p.ratios(*ratio(name))) for name in (FINE_RATIO, COARSE_RATIO))
    doubt = doubt_of(others)
    shared = " (the same cores)" if device.spec.kind == "cpu" else ""
    said = _NOTHING if doubt else (
        f"fine units take {fine:.2g} times as long as one CPU thread (in the paper up to 4), "
        f"coarse ones, 12 x 10, are {coarse:.2g} times as fast (3.93 and 2.83), ours "
        f"{median(p.gains(E)):.2g} times")
    return Verdict(study=NAME, question=QUESTION, holds=None if doubt else fine > 1 and coarse > 1,
                   holds_reason=doubt, answer=f"On {device.label}{shared}, {p.title}: {said}.")


def judge_ours(points: Sequence[Point], device: FoundDevice, others: float | None) -> Verdict:
    """Whether ours loses to the paper's way anywhere in the sweep, beyond what the rounds vary."""
    found = {p.title: p.ratios(*ratio(OURS_RATIO)) for p in points}
    slower = {title: rs for title, rs in found.items() if median(rs) < 1}
    doubt = doubt_of(others)
    medians = [median(rs) for rs in found.values()]
    said = (f"On {device.label} ours is {min(medians):.2g} to {max(medians):.2g} times as fast as "
            f"coarse units in their best shape, over {len(found)} networks")
    if slower:
        said += "; slower at " + ", ".join(
            f"{title} ({median(rs):.2f} x, {min(rs):.2f} to {max(rs):.2f})"
            for title, rs in slower.items())
    if doubt:
        said = f"On {device.label}, over {len(found)} networks: {_NOTHING}"
    return Verdict(study=NAME, question=OURS_QUESTION, answer=f"{said}.",
                   holds=None if doubt else bool(slower), holds_reason=doubt)


def table(points: Sequence[Point], others: float | None = None) -> str:
    """Networks down, sides across, ms for a window; then the ratios beside the paper's."""
    sides = [side for side in TITLES if any(side in p.times for p in points)]
    rows = [["layers x units", *sides]]
    for p in points:
        rows.append([p.title, *(f"{p.times[s].median_s * 1e3:.3g}" if s in p.times else "-"
                                for s in sides)])
    keys = "".join(f"  {side}  {TITLES[side]}{_launches(points, side)}\n" for side in sides)
    return f"ms for a window, median of the blocks\n{_lines(rows)}{keys}\n" \
           f"{_ratio_table(points, others)}{marked(others)}"


def _launches(points: Sequence[Point], side: str) -> str:
    for p in points:
        if (p.layers, p.hidden) == JUDGED and side in p.launches:
            note = f", {p.notes[side]}" if p.notes.get(side) else ""
            return f"; {p.launches[side]:.3g} launches per cell at {p.title}{note}"
    return ""


def _ratio_table(points: Sequence[Point], others: float | None) -> str:
    (p,) = (p for p in points if (p.layers, p.hidden) == JUDGED)
    rows = [[f"ratio of times at {p.title}", "here", "spread", "in the paper"]]
    for name, over, under, theirs in (
            ("c : a1", C, A1, "up to 4"), ("c : a2", C, A2, ""),
            ("a1 : d 12 x 10", A1, D_PAPER, "3.93 and 2.83"), ("a2 : d 12 x 10", A2, D_PAPER, ""),
            ("b1 : d", B1, D, "1.32"), ("b2 : d", B2, D, ""), ("a1 : e", A1, E, ""),
            ("d : e", D, E, "")):
        found = p.ratios(over, under)
        if found:
            rows.append([name, f"{median(found):.3g}{mark(others)}",
                         f"{middle_half(found):.2g}", theirs])
    return _lines(rows)


def _lines(rows: Sequence[Sequence[str]]) -> str:
    wide = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "".join("  ".join(cell.rjust(w) for cell, w in zip(row, wide, strict=True)).rstrip()
                   + "\n" for row in rows)
