"""The search: every candidate of every product once, the best again, and the choice among them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from handtorch.kernels.gemm_tiles import Product, Variant, table_variant, tuning_for
from handtorch.tune.candidates import candidates
from handtorch.tune.store import FAILED, Results, Trial
from handtorch.tune.trial import OutOfTime, Worker

FAR_SLOWER = 3                    # times the best so far: one block is enough to know
FINALISTS, ROUNDS = 3, 3          # the best few are timed in so many rounds, by turns
MARGIN = 0.03                     # the table's choice stays unless beaten by more than this


@dataclass(frozen=True)
class Progress:
    """`done` of `of` tries; `trial` is None before the first, and when a product is done."""

    done: int
    of: int
    product: Product
    variant: Variant | None = None
    trial: Trial | None = None


@dataclass(frozen=True)
class Search:
    """What to do. `until_s` is a moment of the monotonic clock, or None."""

    results: Results
    worker: Worker
    products: Sequence[Product]
    full: bool = False
    until_s: float | None = None
    progress: Callable[[Progress], None] = lambda _: None
    _known: dict[tuple[Product, bool, tuple[str, ...]], tuple[Variant, ...]] = field(
        default_factory=dict)

    def run(self) -> bool:
        """Tune every product; what is known already is not tried again. False if the time was
        over first. Whatever ends it, the results so far are kept."""
        try:
            for product in self.products:
                self._tell(product)
                self._tune(product)
                self._tell(product)
        except OutOfTime:
            return False
        finally:
            self.results.finish()
        return True

    def _tune(self, product: Product) -> None:
        """Stage 1 ends with a choice. In stage 2 each better one is chosen at once: most full
        searches are ended by their time limit."""
        for full in (False, True) if self.full else (False,):
            while (variant := self._untried(product, full)) is not None:
                self._attempt(product, variant)
                if full and self._beats_the_best(product, variant):
                    self._settle(product)
            self._settle(product)

    def _untried(self, product: Product, full: bool) -> Variant | None:
        """The next candidate; asked anew each time, as a failure may change the table's choice."""
        tried = self.results.trials
        return next((v for v in self._candidates(product, full) if (product, v) not in tried),
                    None)

    def _candidates(self, product: Product, full: bool) -> tuple[Variant, ...]:
        spec = self.results.spec
        key = product, full, spec.avoid
        if key not in self._known:
            self._known[key] = candidates(product, spec, full=full)
        return self._known[key]

    def _beats_the_best(self, product: Product, variant: Variant) -> bool:
        right, best = self.results.right(product), self.results.best.get(product)
        return variant in right and (best not in right or right[variant].time_ns
                                     < right[best].time_ns * (1 - MARGIN))

    def _attempt(self, product: Product, variant: Variant) -> None:
        self._check_time()
        if not self.results.begin(product, variant):
            return
        times = [t.time_ns for t in self.results.right(product).values()]
        stop_ns = int(FAR_SLOWER * min(times)) if times else None
        trial = self.worker.attempt(product, variant, stop_ns=stop_ns, until_s=self.until_s)
        self.results.add(product, variant, trial)
        self._tell(product, variant, trial)

    def _settle(self, product: Product) -> None:
        """Time the finalists again, by turns; keep the fastest that is right in all its work."""
        while right := self.results.right(product):
            fast = sorted(right, key=lambda v: right[v].time_ns)[:FINALISTS]
            table = table_variant(product, self.results.spec)
            finalists = dict.fromkeys((*fast, *(v for v in (table,) if v in right)))
            again = min(finalists, key=lambda v: right[v].rounds)
            if right[again].rounds < ROUNDS:
                self._attempt(product, again)
                continue
            best = fast[0]
            if table in right and right[table].time_ns <= right[best].time_ns * (1 + MARGIN):
                best = table
            if self.results.best.get(product) == best or self._confirmed(product, best):
                self.results.choose(product, best)
                return

    def _confirmed(self, product: Product, variant: Variant) -> bool:
        """Whether it is right in all its work; if not, it is out."""
        self._check_time()
        if not self.results.begin(product, variant):
            return False
        trial = self.worker.check(product, variant, self.until_s)
        if trial.state in FAILED:
            self.results.add(product, variant, trial)
            self._tell(product, variant, trial)
            return False
        return True

    def _check_time(self) -> None:
        if self.until_s is not None and time.monotonic() >= self.until_s:
            raise OutOfTime

    def _tell(self, product: Product, variant: Variant | None = None, trial: Trial | None = None
              ) -> None:
        tried = self.results.trials
        wanted = [(p, v) for p in self.products
                  for v in self._candidates(p, self.full)]
        done = sum(key in tried for key in wanted)
        self.progress(Progress(done, len(wanted), product, variant, trial))


def take_over(results: Results, worker: Worker, best: dict[Product, Variant],
              avoid: Sequence[Variant], progress: Callable[[Progress], None] = lambda _: None
              ) -> list[Product]:
    """Try what somebody else found best, and keep what is right here and no slower than what was
    found here. Gives the products whose variant failed; what failed there is not used here."""
    refused = []
    results.bar(*avoid)
    tuning_for(results.spec)      # refuses a list that leaves no tile for every shape
    try:
        for number, (product, variant) in enumerate(best.items(), 1):
            if not results.begin(product, variant):
                refused.append(product)
                continue
            trial = worker.attempt(product, variant)
            if trial.state == "right":
                checked = worker.check(product, variant)
                trial = trial if checked.state == "right" else checked
            results.add(product, variant, trial)
            progress(Progress(number, len(best), product, variant, trial))
            right, ours = results.right(product), results.best.get(product)
            if variant not in right:
                refused.append(product)
            elif ours not in right or right[variant].time_ns < right[ours].time_ns:
                results.choose(product, variant)
    finally:
        results.finish()
    return refused
