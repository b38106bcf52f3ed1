"""The search: every candidate of every problem once, the best again, and the choice among them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from handtorch.kernels.gemm_tiles import tuning_for
from handtorch.kernels.variant import Problem, Variant
from handtorch.tune.candidates import candidates
from handtorch.tune.store import FAILED, Results, Trial
from handtorch.tune.trial import OutOfTime, Worker

FAR_SLOWER = 3                    # times the best so far: one block is enough to know
FINALISTS, ROUNDS = 3, 3          # the best few are timed in so many rounds, by turns
MARGIN = 0.03                     # the table's choice stays unless beaten by more than this


@dataclass(frozen=True)
class Progress:
    """`done` of `of` tries; `trial` is None before the first, and when a problem is done."""

    done: int
    of: int
    problem: Problem
    variant: Variant | None = None
    trial: Trial | None = None


@dataclass(frozen=True)
class Search:
    """What to do. `until_s` is a moment of the monotonic clock, or None."""

    results: Results
    worker: Worker
    problems: Sequence[Problem]
    full: bool = False
    until_s: float | None = None
    progress: Callable[[Progress], None] = lambda _: None
    _known: dict[tuple[Problem, bool, tuple[str, ...]], tuple[Variant, ...]] = field(
        default_factory=dict)

    def run(self) -> bool:
        """Tune every problem; what is known already is not tried again. False if the time was
        over first. Whatever ends it, the results so far are kept."""
        try:
            for problem in self.problems:
                self._tell(problem)
                self._tune(problem)
                self._tell(problem)
        except OutOfTime:
            return False
        finally:
            self.results.finish()
        return True

    def _tune(self, problem: Problem) -> None:
        """Stage 1 ends with a choice. In stage 2 each better one is chosen at once: most full
        searches are ended by their time limit."""
        for full in (False, True) if self.full else (False,):
            while (variant := self._untried(problem, full)) is not None:
                self._attempt(problem, variant)
                if full and self._beats_the_best(problem, variant):
                    self._settle(problem)
            self._settle(problem)

    def _untried(self, problem: Problem, full: bool) -> Variant | None:
        """The next candidate; asked anew each time, as a failure may change the table's choice."""
        tried = self.results.trials
        return next((v for v in self._candidates(problem, full) if (problem, v) not in tried),
                    None)

    def _candidates(self, problem: Problem, full: bool) -> tuple[Variant, ...]:
        spec = self.results.spec
        key = problem, full, spec.avoid
        if key not in self._known:
            self._known[key] = candidates(problem, spec, full=full)
        return self._known[key]

    def _beats_the_best(self, problem: Problem, variant: Variant) -> bool:
        right, best = self.results.right(problem), self.results.best.get(problem)
        return variant in right and (best not in right or right[variant].time_ns
                                     < right[best].time_ns * (1 - MARGIN))

    def _attempt(self, problem: Problem, variant: Variant) -> None:
        self._check_time()
        if not self.results.begin(problem, variant):
            return
        times = [t.time_ns for t in self.results.right(problem).values()]
        stop_ns = int(FAR_SLOWER * min(times)) if times else None
        trial = self.worker.attempt(problem, variant, stop_ns=stop_ns, until_s=self.until_s)
        self.results.add(problem, variant, trial)
        self._tell(problem, variant, trial)

    def _settle(self, problem: Problem) -> None:
        """Time the finalists again, by turns; keep the fastest that is right in all its work."""
        while right := self.results.right(problem):
            fast = sorted(right, key=lambda v: right[v].time_ns)[:FINALISTS]
            table = problem.table_variant(self.results.spec)
            finalists = dict.fromkeys((*fast, *(v for v in (table,) if v in right)))
            again = min(finalists, key=lambda v: right[v].rounds)
            if right[again].rounds < ROUNDS:
                self._attempt(problem, again)
                continue
            best = fast[0]
            if table in right and right[table].time_ns <= right[best].time_ns * (1 + MARGIN):
                best = table
            if self.results.best.get(problem) == best or self._confirmed(problem, best):
                self.results.choose(problem, best)
                return

    def _confirmed(self, problem: Problem, variant: Variant) -> bool:
        """Whether it is right in all its work; if not, it is out."""
        self._check_time()
        if not self.results.begin(problem, variant):
            return False
        trial = self.worker.check(problem, variant, self.until_s)
        if trial.state in FAILED:
            self.results.add(problem, variant, trial)
            self._tell(problem, variant, trial)
            return False
        return True

    def _check_time(self) -> None:
        if self.until_s is not None and time.monotonic() >= self.until_s:
            raise OutOfTime

    def _tell(self, problem: Problem, variant: Variant | None = None, trial: Trial | None = None
              ) -> None:
        tried = self.results.trials
        wanted = [(p, v) for p in self.problems
                  for v in self._candidates(p, self.full)]
        done = sum(key in tried for key in wanted)
        self.progress(Progress(done, len(wanted), problem, variant, trial))


def take_over(results: Results, worker: Worker, best: dict[Problem, Variant],
              avoid: Sequence[str], progress: Callable[[Progress], None] = lambda _: None
              ) -> list[Problem]:
    """Try what somebody else found best, and keep what is right here and no slower than what was
    found here. Gives the problems whose variant failed; what failed there is not used here."""
    refused = []
    results.bar(*avoid)
    tuning_for(results.spec)      # refuses a list that leaves no tile for every shape
    for problem in best:
        problem.table_variant(results.spec)
    try:
        for number, (problem, variant) in enumerate(best.items(), 1):
            if not results.begin(problem, variant):
                refused.append(problem)
                continue
            trial = worker.attempt(problem, variant)
            if trial.state == "right":
                checked = worker.check(problem, variant)
                trial = trial if checked.state == "right" else checked
            results.add(problem, variant, trial)
            progress(Progress(number, len(best), problem, variant, trial))
            right, ours = results.right(problem), results.best.get(problem)
            if variant not in right:
                refused.append(problem)
            elif ours not in right or right[variant].time_ns < right[ours].time_ns:
                results.choose(problem, variant)
    finally:
        results.finish()
    return refused
