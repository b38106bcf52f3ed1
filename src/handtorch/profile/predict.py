"""How well a step's time is foretold by the steps before it, and what the rest of a run will take.

Four estimators look only backwards: the last step; the median of the last five; the median of the
present level, which begins anew when three steps in a row leave it to the same side (warm-up,
throttling, another program); and a line through the present level, for slow drifts. Which of them
has erred least so far is the one that predicts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise, zip_longest
from statistics import median

from handtorch.record import Result, Run

WITHIN = 0.05
FEW, WILD = 10, 0.5                         # steps, and an error: nothing is told of less, of more
_RECENT, _LEVEL, _LINE = 5, 50, 20          # steps an estimator looks back at most
_LEAVING = 3                                # steps in a row that make a new level
_SCATTER, _LEAST_SCATTER = 4.0, 0.02        # of the level: MADs, and the share always allowed
_AFTER = (1, 2, 3, 5, 10, 20, 50, 100, 200, 500, 1000)
Estimator = Callable[[Sequence[float], int, float], float]


@dataclass(frozen=True)
class Forecast:
    """After `seen` steps: what the `left` steps to come take; error is (predicted - actual) /
    actual, None while they have not been."""

    seen: int
    left: int
    estimator: str
    predicted_ns: float
    actual_ns: float | None

    @property
    def error(self) -> float | None:
        return None if not self.actual_ns else self.predicted_ns / self.actual_ns - 1


@dataclass(frozen=True)
class Predictability:
    """`errors` is by estimator the median error of the next step, `by_seen` that of the one used
    after so many steps; `needed` steps foretell the rest of the run within 5 %, and so does every
    longer beginning that leaves a tenth of the run (None: not even the longest). `levels`
    are the steps where the time settled on another level."""

    steps: int
    estimator: str
    errors: dict[str, float]
    by_seen: tuple[tuple[int, float], ...]
    needed: int | None
    levels: tuple[int, ...]
    forecasts: tuple[Forecast, ...]


class Levels:
    """The steps at which a level begins; the first is 0. A step alone is an outlier, no level."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self.starts = [0]
        self._away = self._side = 0

    def see(self, time: float) -> None:
        """One more step, judged by the present level, of which it may be the end."""
        at, times = len(self.times), self.times
        present = times[max(self.starts[-1], at - self._away - _LEVEL):at - self._away]
        times.append(time)
        if not present:
            return
        middle = median(present)
        scatter = _SCATTER * median(abs(t - middle) for t in present)
        unsure = max(_LEAST_SCATTER, 0.5 / len(present))    # few steps tell little of their scatter
        allowed = max(scatter, unsure * middle)
        now = (time > middle + allowed) - (time < middle - allowed)
        self._away = 0 if not now else self._away + 1 if now == self._side else 1
        self._side = now
        if self._away == _LEAVING:
            self.starts.append(at + 1 - _LEAVING)
            self._away = self._side = 0


def levels(times: Sequence[float]) -> tuple[int, ...]:
    """Where the levels of all these steps begin."""
    seen = Levels()
    for time in times:
        seen.see(time)
    return tuple(seen.starts)


def _last(times: Sequence[float], _: int, ahead: float) -> float:
    return times[-1]


def _recent(times: Sequence[float], _: int, ahead: float) -> float:
    return median(times[-_RECENT:])


def _level(times: Sequence[float], start: int, ahead: float) -> float:
    return median(times[max(start, len(times) - _LEVEL):])


def _line(times: Sequence[float], start: int, ahead: float) -> float:
    """The median of slopes between steps half the window apart, from the window's middle on."""
    window = times[max(start, len(times) - _LINE):]
    half = len(window) // 2
    if half < 2:
        return median(window)
    slope = median((b - a) / half for a, b in zip(window, window[half:], strict=False))
    middle = median(t - slope * i for i, t in enumerate(window))
    return max(0.0, middle + slope * (len(window) - 1 + ahead))


# Of equals the first: it minds a single slow step least.
ESTIMATORS: dict[str, Estimator] = {"present level": _level, "median of 5": _recent,
                                    "last step": _last, "line": _line}
_MARGIN = {"present level": 1.0, "median of 5": 0.7, "last step": 0.6, "line": 0.6}


class Foresight:
    """Takes step times one by one; what it says at any moment it knew at that moment."""

    def __init__(self) -> None:
        self.levels = Levels()
        self.errors: dict[str, list[float]] = {name: [] for name in ESTIMATORS}
        self.used: list[float] = []         # the error of the estimator that was best until then

    @property
    def times(self) -> list[float]:
        return self.levels.times

    def see(self, time_ns: float) -> None:
        if self.times and time_ns > 0:
            start, best = self.levels.starts[-1], self.best
            for name, estimate in ESTIMATORS.items():
                error = abs(estimate(self.times, start, 1.0) / time_ns - 1)
                self.errors[name].append(error)
                if name == best:
                    self.used.append(error)
        self.levels.see(time_ns)

    @property
    def best(self) -> str:
        """Least median error over the last fifty steps. Others must be better than the level by a
        margin, a line by a large one: where there is only noise, they lead far away."""
        known = {name: median(errors[-_LEVEL:]) / _MARGIN[name]
                 for name, errors in self.errors.items() if errors}
        return min(known, key=known.__getitem__) if known else "present level"

    def rest(self, left: int) -> Forecast:
        """What `left` more steps take: a line is followed to their middle, others stay."""
        name, start = self.best, self.levels.starts[-1]
        each = ESTIMATORS[name](self.times, start, (left + 1) / 2)
        return Forecast(len(self.times), left, name, each * left, None)


def predictability(times_ns: Sequence[float], within: float = WITHIN) -> Predictability | None:
    """What was foretold of these steps as they came; None for fewer than two."""
    if len(times_ns) < 2:
        return None
    sight, said = Foresight(), list[Forecast]()
    rests = [*accumulate(reversed(times_ns))][-2::-1]       # after each step but the last
    for seen, (time, rest) in enumerate(zip_longest(times_ns, rests), 1):
        sight.see(time)
        if left := len(times_ns) - seen:
            said.append(replace(sight.rest(left), actual_ns=float(rest)))
    judged = [f for f in said if f.left >= len(times_ns) // 10]
    missed = [f.seen for f in judged if f.error is None or abs(f.error) > within]
    needed = (missed[-1] if missed else 0) + 1
    errors = {name: median(e) for name, e in sight.errors.items() if e}
    shown = [k for k in _AFTER if k < len(times_ns)]
    by_seen = tuple((a, median(sight.used[a - 1:b - 1]))
                    for a, b in pairwise((*shown, len(times_ns))) if sight.used[a - 1:b - 1])
    return Predictability(len(times_ns), sight.best, errors, by_seen,
                          needed if needed <= judged[-1].seen else None,
                          tuple(sight.levels.starts),
                          tuple(f for f in said if f.seen in _AFTER))


def few(steps: int) -> str:
    """Why fewer than FEW foretell nothing."""
    return f"takes {FEW} steps to say, and here are {steps}"


def of_run(run: Run) -> dict[tuple[str, str], Predictability]:
    """For every subject and place of the run with at least two steps."""
    times: dict[tuple[str, str], list[float]] = {}
    for step in run.steps:
        times.setdefault((step.subject, step.place), []).append(step.end_ns - step.start_ns)
    found = {key: predictability(values) for key, values in times.items()}
    return {key: value for key, value in found.items() if value is not None}


def results(subject: str, place: str, found: Predictability) -> tuple[Result, ...]:
    """The rows of a run file: errors by steps seen, of the next step and of the rest of the run."""
    rows = [Result(study="profile", name=name, subject=subject, place=place, x_name="steps seen",
                   x_value=float(seen), value=100 * error, unit="%", better="lower", repeats=1,
                   provenance="measured")
            for name, pairs in (("error of the next step", found.by_seen),
                                ("error of the rest of the run",
                                 [(f.seen, abs(f.error)) for f in found.forecasts
                                  if f.error is not None]))
            for seen, error in pairs]
    needed = found.needed
    rows.append(Result(study="profile", name="steps that foretell the rest within 5 %",
                       subject=subject, place=place, value=None if needed is None
                       else float(needed), value_reason="" if needed is not None else
                       f"no beginning of these {found.steps} steps did",
                       unit="steps", better="lower", repeats=1, provenance="measured"))
    return tuple(rows)


def told(found: Predictability) -> str:
    """For the terminal; of a few steps or wild ones only that nothing can be foretold."""
    if found.steps < FEW:
        return f"How well the next step is foretold {few(found.steps)}."
    error = found.errors[found.estimator]
    if error > WILD:
        return (f"The time of the next step cannot be foretold: the {found.steps} steps here "
                "differ too much.")
    text = (f"The time of the next step was foretold within {100 * error:.1f} % half of the time "
            f"({found.steps} steps, by the {found.estimator}). ")
    if found.needed is None:
        text += "No beginning of the run foretold its rest within 5 %."
    else:
        text += (f"{found.needed} step{'s' if found.needed > 1 else ''} foretold the rest of the "
                 "run within 5 %.")
    if len(found.levels) > 1:
        at = ", ".join(str(step) for step in found.levels[1:])
        text += f" The time of a step changed its level at step {at}."
    for f in found.forecasts:
        if f.error is not None:
            text += (f"\n  after {f.seen:4} steps: {f.left} more take {f.predicted_ns / 1e6:.1f} ms"
                     f", took {(f.actual_ns or 0) / 1e6:.1f} ms ({100 * f.error:+.1f} %)")
    return text
