"""The search: which values to give up and make again, so that a graph fits into so many bytes, or
takes as few as so much time buys.

Greedy, by bytes x places over the target that giving up a class frees, to the time it takes to make
it again (Melon's rule); what no longer helps in the end is taken back."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from handtorch.passes.tape import Drop, Drops, Ints, Tape, Way, part_at, play

_MOST_AT_ONCE = 32
_DEEPEST = 12                    # nodes repeated for one class because their results are gone too
_TRIED_BACK = 400
_TRIED_KEPT = 100
# How far the least is approached: each time this much below the peak reached, while that succeeds.
_DOWN = (0.85, 0.92, 0.96, 0.985)
_DOWN_A_LITTLE = (0.9, 0.95, 0.98)      # where time is short, so that little of it is left over
# What a part of a step's time must buy at least: so many times that part of the peak.
_WORTH = 5.0


@dataclass(frozen=True)
class Trade:
    """What is dropped, and what is expected of it; `fits` says whether the target was reached."""

    drops: Drops
    peak_bytes: int
    time_ns: float
    fits: bool


def trade(tape: Tape, target_bytes: int) -> Trade:
    """The cheapest drops we find with which at most `target_bytes` are alive at every row.

    Where no such are found: the best that were. The same tape gives the same trade."""
    search = _Search(tape)
    if not search.reach(target_bytes):
        search = _Search(tape)
        search.descend(target_bytes)
    fits = search.scene.peak_bytes <= target_bytes
    if fits:
        search.take_back(target_bytes)
    return Trade(search.drops, search.scene.peak_bytes, search.scene.time_ns, fits)


def least(tape: Tape) -> Trade:
    """The lowest peak the search comes down to, whatever it costs."""
    search = _Search(tape)
    search.descend(0)
    search.take_back(search.scene.peak_bytes)
    return Trade(search.drops, search.scene.peak_bytes, search.scene.time_ns, fits=True)


def spare(tape: Tape, share: float) -> Trade:
    """The lowest peak we find for at most that share more time; what buys too little is kept."""
    search = _Search(tape, (1 + share) * tape.time_ns)
    for down in _DOWN_A_LITTLE:
        while search.goes_down(down):
            pass
    search.take_back(search.scene.peak_bytes)
    return Trade(search.drops, search.scene.peak_bytes, search.scene.time_ns, fits=True)


@dataclass(frozen=True)
class _Offer:
    key: tuple[int, int]
    drops: dict[int, Drop]
    score: float
    covers_peak: bool


class _Search:
    """With `most_ns`, the time that a step may take, it ends where that is spent, and does not
    look for what to undo."""

    def __init__(self, tape: Tape, most_ns: float | None = None) -> None:
        self.tape, self.drops = tape, dict[int, tuple[Drop, ...]]()
        self._most_ns = most_ns
        self.scene = play(tape, self.drops)
        self._banned: set[tuple[int, int]] = set()

    def reach(self, target: int) -> bool:
        """Drop until nothing is over the target, or nothing helps any more."""
        self._banned.clear()                # what did not help with another target may now
        while (over := self.scene.over(target)) > 0:
            if self._most_ns is not None and self.scene.time_ns > self._most_ns:
                return False
            offers = _independent(self._offers(target), self.scene.peak_bytes - target, self.tape)
            if not offers and (self._most_ns is not None or not self._keep_one(target, over)):
                return False
            while offers and not self._accept(offers, target, over):
                if len(offers) == 1:
                    self._banned.add(offers[0].key)
                    break
                offers = offers[:max(1, len(offers) // 4)]
        return self._most_ns is None or self.scene.time_ns <= self._most_ns

    def descend(self, target: int) -> None:
        """Go down in steps, which finds more than one leap does; ends at the target, or at the
        lowest peak that was reached."""
        for down in _DOWN:
            while (peak := self.scene.peak_bytes) > target:
                drops, scene = self.drops, self.scene
                if not self.reach(max(target, int(down * peak))):
                    self.drops, self.scene = drops, scene
                    break

    def goes_down(self, down: float) -> bool:
        """Whether that part of the peak was reached for what it is worth; else all is as before."""
        drops, scene = self.drops, self.scene
        if self.reach(int(down * scene.peak_bytes)):
            saved = scene.peak_bytes - self.scene.peak_bytes
            spent_ns = self.scene.time_ns - scene.time_ns
            if saved > 0 and saved * self.tape.time_ns >= _WORTH * spent_ns * scene.peak_bytes:
                return True
        self.drops, self.scene = drops, scene
        return False

    def _accept(self, offers: list[_Offer], target: int, over: int) -> bool:
        tried = _added(self.drops, (x for offer in offers for x in offer.drops.items()))
        scene = play(self.tape, tried)
        if not scene.legal or scene.over(target) >= over:
            return False
        self.drops, self.scene = tried, scene
        return True

    def _keep_one(self, target: int, over: int) -> bool:
        """Where no drop helps: undo the one that helps most, dropped too eagerly before."""
        best = None
        for root, drop in self._made_over(target)[:_TRIED_KEPT]:
            tried = _without(self.drops, root, drop)
            scene = play(self.tape, tried)
            now = scene.over(target)
            if scene.legal and now < over:
                best, over = (root, tried, scene, drop.after), now
        if best is None:
            return False
        root, self.drops, self.scene, after = best
        self._banned.add((root, after))
        return True

    def _made_over(self, target: int) -> list[tuple[int, Drop]]:
        """The drops whose class is made again where too much is alive, largest first."""
        hot = {e[0] for e, now in zip(self.scene.entries, self.scene.curve, strict=True)
               if now > target}
        found = {(root, part) for row, root, part in self.scene.entries
                 if root >= 0 and row in hot}
        return [(root, self.drops[root][part - 1]) for root, part in
                sorted(found, key=lambda x: (-self.tape.nbytes[x[0]], x))]

    def take_back(self, target: int) -> None:
        """Keep, dearest first, what need not be dropped after all."""
        dearest = sorted(_listed(self.drops), key=lambda x: -x[1].way.time_ns)
        for root, drop in dearest[:_TRIED_BACK]:
            tried = _without(self.drops, root, drop)
            scene = play(self.tape, tried)
            if (scene.legal and scene.peak_bytes <= target
                    and scene.time_ns <= self.scene.time_ns):
                self.drops, self.scene = tried, scene

    def _offers(self, target: int) -> list[_Offer]:
        """One for each gap that frees more over the target than it costs there, best first."""
        alive = self.scene.by_place(len(self.tape.touches))
        hot = np.concatenate(([0], np.cumsum(alive > target)))
        top = int(alive.argmax())
        found = []
        for (root, _), places in self.scene.seen.items():
            begin, end = _longest_gap(places)
            after, until = begin // 2, end // 2
            ways = self.tape.ways.get(root, ())
            freed = self.tape.nbytes[root] * _between(hot, begin, end)
            if freed <= 0 or after == until or (root, after) in self._banned:
                continue
            best: tuple[float, dict[int, Drop]] | None = None
            for way, deep in ((w, d) for w in ways for d in (False, True)):
                price = _Price(self, hot, deep)
                if not price.add(root, Drop(after, way), until) or freed <= price.lost:
                    continue
                score = (freed - price.lost) / max(price.time_ns, 1.0)
                if best is None or score > best[0]:
                    best = score, price.drops
            if best is not None:
                found.append(_Offer((root, after), best[1], best[0], begin < top < end))
        return sorted(found, key=lambda o: (-o.score, o.key))


class _Price:
    """What making a class again takes: time, and bytes x places over the target of what must live
    longer for it. With `deep`, sources that are gone are made again too instead of kept."""

    def __init__(self, search: _Search, hot: Ints, deep: bool) -> None:
        self._search, self._hot, self._deep = search, hot, deep
        self.drops: dict[int, Drop] = {}
        self._moved: set[int] = set()
        self.time_ns, self.lost = 0.0, 0

    def add(self, root: int, drop: Drop, at: int) -> bool:
        """False where it cannot be made again at that row."""
        tape = self._search.tape
        way = drop.way
        if at <= way.row if way.part else at > tape.limit[way.row]:
            return False
        if len(self.drops) >= _DEEPEST or self._circular(root, drop.way):
            return False
        self.drops[root] = drop
        self.time_ns += drop.way.time_ns
        return all(self._source(r, at) for r in drop.way.reads if r not in self.drops)

    def _source(self, root: int, at: int) -> bool:
        """What it takes to have that class there at row `at`."""
        tape, search = self._search.tape, self._search
        part = part_at(search.drops, root, at)
        places = search.scene.seen.get((root, part))
        here = 2 * at
        if not places or places[0] <= here <= places[-1]:
            return True
        if here < places[0] and not part:           # not made yet
            return False
        if here < places[0]:                        # made again for a later reader: now earlier,
            if root not in self._moved:             # and so is all that it is made from
                self._moved.add(root)
                self.lost += tape.nbytes[root] * _between(self._hot, here, places[0])
                return all(self._source(r, at) for r in search.drops[root][part - 1].way.reads)
        elif self._deep and not part and root in tape.ways:
            return self.add(root, Drop(places[-1] // 2, tape.ways[root][0]), at)
        else:
            self.lost += tape.nbytes[root] * _between(self._hot, places[-1], here)
        return True

    def _circular(self, root: int, way: Way) -> bool:
        """Whether what it is made from would itself be made from it."""
        todo, seen = list(way.reads), set[int]()
        while todo:
            source = todo.pop()
            if source == root:
                return True
            if source not in seen:
                seen.add(source)
                drops = list(self._search.drops.get(source, ()))
                drops += [self.drops[source]] if source in self.drops else []
                todo += [r for d in drops for r in d.way.reads]
        return False


def _added(drops: Drops, more: Iterable[tuple[int, Drop]]) -> dict[int, tuple[Drop, ...]]:
    found = dict(drops)
    for root, drop in more:
        found[root] = tuple(sorted((*found.get(root, ()), drop), key=lambda d: d.after))
    return found


def _listed(drops: Drops) -> list[tuple[int, Drop]]:
    return [(r, d) for r, ds in sorted(drops.items()) for d in ds]


def _without(drops: Drops, root: int, drop: Drop) -> dict[int, tuple[Drop, ...]]:
    left = tuple(d for d in drops[root] if d != drop)
    return {r: left if r == root else ds for r, ds in drops.items() if left or r != root}


def _longest_gap(places: list[int]) -> tuple[int, int]:
    """The two neighbouring places that are farthest apart."""
    pairs = zip(places, places[1:] or places, strict=False)
    return max(pairs, key=lambda ab: (ab[1] - ab[0], -ab[0]))


def _between(hot: Ints, after: int, until: int) -> int:
    """How many places strictly between are over the target."""
    return int(hot[until] - hot[after + 1]) if until > after + 1 else 0


def _independent(offers: list[_Offer], need: int, tape: Tape) -> list[_Offer]:
    """The best that do not touch each other, enough to free half of what is needed at the peak:
    after that everything is looked at anew."""
    taken, touched, freed = list[_Offer](), set[int](), 0
    for offer in offers:
        reads = {r for d in offer.drops.values() for r in d.way.reads}
        if touched & (reads | offer.drops.keys()):
            continue
        taken.append(offer)
        touched |= offer.drops.keys()
        freed += tape.nbytes[offer.key[0]] if offer.covers_peak else 0
        if len(taken) == _MOST_AT_ONCE or 2 * freed >= need:
            break
    return taken
