"""What was compared as rows of a run file, and the verdicts on it. Every number that was measured
is among them: the first runs one by one, and each block."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import exp, log, prod
from statistics import median

from handtorch.baseline.fair import MOST_OTHERS, middle_half, quartiles
from handtorch.bench.case import Case
from handtorch.bench.compare import Compared
from handtorch.bench.outcome import Outcome, ratios
from handtorch.bench.sides import FROM_FILE, INDUCTOR, OURS, TORCH
from handtorch.record import Result, Software, Verdict
from handtorch.record.rows import Better
from handtorch.report.side_by_side import BEYOND, FIRST, PEAK, RATIO, RUNS, TIME

EACH, EACH_FIRST, OFF = "time of a run, each block", "first runs", "difference from torch's results"
RATE, STEPS_PEAK = "rate", "peak memory while it runs"
MB, MS = 1e-6, 1e3
SAME = "Do all sides compute the same as torch?"


def rows_of(study: str, found: Compared, timed: bool) -> Iterator[Result]:
    """Sides in the order in which they were asked for; a side without figures has its reason."""
    ours = _ours(found)
    for one in found.outcomes:
        of = _Of(study, one)
        if timed:
            yield from _times(of, one)
            if ours is not None and one.side not in (OURS, FROM_FILE) and one.seconds:
                yield of.spread(RATIO, ratios(ours, one), "x", "higher")
        for number, seconds in enumerate(one.firsts_s, 1):
            yield of.one(EACH_FIRST, seconds, "s", "lower", x=("run", number))
        if one.firsts_s:
            yield of.one(FIRST, one.firsts_s[0], "s", "lower")
        for number, off in enumerate(one.off, 1):
            # What is as far off as can be is no number; the reason of its time says so.
            if off < float("inf"):
                yield of.one(OFF, off, "relative", "lower", x=("run", number))
        yield from _memory(of, one, timed)


def _times(of: _Of, one: Outcome) -> Iterator[Result]:
    if not one.seconds:
        yield of.one(TIME, None, "ms", "lower", why=f"{one.state}: {one.reason}")
        return
    yield of.spread(TIME, [MS * s for s in one.seconds], "ms", "lower")
    amount, unit = _work(one.case)
    yield of.spread(RATE, [amount / s for s in one.seconds], unit, "higher")
    yield of.one(RUNS, one.runs, "runs", "neither")
    for number, seconds in enumerate(one.seconds, 1):
        yield of.one(EACH, MS * seconds, "ms", "lower", x=("round", number))


def _work(case: Case) -> tuple[float, str]:
    if case.task == "product":
        return 2e-9 * prod(case.sizes), "GFLOPS"
    return case.batch, "samples/s"


def _memory(of: _Of, one: Outcome, timed: bool) -> Iterator[Result]:
    memory = one.memory
    if memory is None:
        if not timed:
            yield of.one(PEAK, None, "MB", "lower", why=f"{one.state}: {one.reason}")
        return
    yield of.one(PEAK, MB * memory.peak_bytes, "MB", "lower")
    yield of.one(STEPS_PEAK, MB * memory.steps_bytes, "MB", "lower")
    yield of.one(BEYOND, MB * (memory.steps_bytes - memory.before_bytes), "MB", "lower")


class _Of:
    """Rows of one side of one case."""

    def __init__(self, study: str, one: Outcome) -> None:
        self._study, self._subject, self._place = study, one.case.title, one.side

    def one(self, name: str, value: float | None, unit: str, better: Better, *, why: str = "",
            x: tuple[str, float] | None = None) -> Result:
        return Result(study=self._study, name=name, subject=self._subject, place=self._place,
                      x_name=x[0] if x else "", x_value=x[1] if x else None, value=value,
                      value_reason=why, unit=unit, better=better,
                      repeats=0 if value is None else 1, provenance="measured")

    def spread(self, name: str, values: Sequence[float], unit: str, better: Better) -> Result:
        low, high = quartiles(values)
        return Result(study=self._study, name=name, subject=self._subject, place=self._place,
                      value=median(values), unit=unit, better=better, repeats=len(values),
                      spread=middle_half(values) if len(values) > 1 else None, low=low, high=high,
                      bounds="quartiles", provenance="measured")


def software_of(found: Sequence[Compared], says: Mapping[str, str]) -> Iterator[Software]:
    """What each side ran, and how, once."""
    known = {one.side: one.version for each in found for one in each.outcomes if one.version}
    for side, version in known.items():
        yield Software(name=f"side {side}", version=f"{version} ({says[side]})")


def _ours(found: Compared) -> Outcome | None:
    """Captured in its own process, as a user does; else from a file."""
    known = {one.side: one for one in found.outcomes if one.seconds}
    return known.get(OURS) or known.get(FROM_FILE)


def verdicts_of(study: str, found: Sequence[Compared], timed: bool) -> Iterator[Verdict]:
    yield _same(study, found)
    doubt = doubt_of(found)
    sides = dict.fromkeys(one.side for each in found for one in each.outcomes)
    for side in sides:
        if side in (OURS, FROM_FILE):
            continue
        if timed and (times := _ratios(found, side)):
            yield _judged(study, f"Is handtorch faster than {side}?", "times as fast", times, doubt)
        if side == INDUCTOR and (firsts := _firsts(found, side)):
            yield _judged(study, f"Is its first run sooner than that of {side}?",
                          "times as soon", firsts, doubt)
        if side == TORCH and not timed and (held := _held(found, side)):
            yield _judged(study, f"Does handtorch hold less than {side}, engines not counted?",
                          "times as little", held, "")


def _same(study: str, found: Sequence[Compared]) -> Verdict:
    ran = [one for each in found for one in each.outcomes if one.state in ("believed", "differs")]
    bad = [f"{one.side} in {one.case.title} ({one.reason})" for one in ran
           if one.state == "differs"]
    answer = "Nothing ran." if not ran else (
        f"{len(ran) - len(bad)} of {len(ran)} do; their times are believed"
        + (f". Not believed: {'; '.join(bad)}." if bad else "."))
    return Verdict(study=study, question=SAME, answer=answer, holds=not bad if ran else None,
                   holds_reason="" if ran else "no side ran")


def _judged(study: str, question: str, words: str, values: dict[str, float], doubt: str) -> Verdict:
    worst = min(values, key=values.__getitem__)
    answer = (f"{geometric(list(values.values())):.2f} {words} in the geometric mean of "
              f"{len(values)}, least {values[worst]:.2f} ({worst}).")
    return Verdict(study=study, question=question, answer=answer + (f" Doubtful: {doubt}."
                   if doubt else ""), holds=None if doubt else values[worst] >= 1,
                   holds_reason=doubt)


def geometric(values: Sequence[float]) -> float:
    return exp(sum(map(log, values)) / len(values))


def _ratios(found: Sequence[Compared], side: str) -> dict[str, float]:
    """By case the median of the rounds' ratios."""
    made = {}
    for each in found:
        ours = _ours(each)
        for one in each.outcomes:
            if one.side == side and ours is not None and one.seconds:
                made[each.case.title] = median(ratios(ours, one))
    return made


def _firsts(found: Sequence[Compared], side: str) -> dict[str, float]:
    return {each.case.title: by[side].firsts_s[0] / by[OURS].firsts_s[0] for each in found
            if (by := {o.side: o for o in each.outcomes if o.firsts_s}).keys() >= {OURS, side}}


def _held(found: Sequence[Compared], side: str) -> dict[str, float]:
    made = {}
    for each in found:
        held = {o.side: o.memory.steps_bytes - o.memory.before_bytes for o in each.outcomes
                if o.memory is not None}
        ours = held.get(FROM_FILE) or held.get(OURS)
        if ours and held.get(side):
            made[each.case.title] = held[side] / ours
    return made


def doubt_of(found: Sequence[Compared]) -> str:
    """Why no time of this run says much, empty if there is nothing."""
    shares = [each.others for each in found if each.others is not None]
    if not shares or max(shares) <= MOST_OTHERS:
        return ""
    return f"other programs used {max(shares):.0%} of the machine meanwhile"
