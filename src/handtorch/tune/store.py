"""Results: what was tried on one device and driver, as one JSON file that can be handed on.

    format, version   what it is
    device, kernels   whose it is: platform, name, driver; a hash of the kernels' text
    best              problem -> the fastest variant that gave the right numbers
    avoid             variants that failed here, as they were built: never chosen on this driver,
                      for any problem
    trials            every try, so that an interrupted search goes on where it stopped
    running           what is being tried now, and for the how manieth time: a search that ended
                      with its machine leaves it behind, and the third one will not try it again

All but the last two are what other rooms read (`kernels.results.checked_results`)."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from handtorch.errors import BadInput, StorageError
from handtorch.graph.device_spec import DeviceSpec
from handtorch.kernels.results import (
    FORMAT,
    VERSION,
    as_problem,
    checked_results,
    damaged,
    kernels_key,
    whose,
)
from handtorch.kernels.variant import Problem, Variant, as_variant
from handtorch.store.atomic import write_atomically

# What became of a try. After one of FAILED the variant is not used on this driver any more; where
# there was "no room", or it was "too slow", the problem was too large for it.
FAILED = ("wrong", "crashed", "hung", "refused")
STATES = ("right", *FAILED, "no room", "too slow")


@dataclass(frozen=True)
class Trial:
    """`times_ns`: mean of a launch in each timed block, over all `rounds`."""

    state: str
    why: str = ""
    times_ns: tuple[int, ...] = ()
    rounds: int = 1

    @property
    def time_ns(self) -> int:
        """The lower quartile, by nearest rank: what other programs do to a time only adds to it,
        often for longer than half of the blocks, and a single block may be lucky."""
        return sorted(self.times_ns)[len(self.times_ns) // 4]

    def and_then(self, again: Trial) -> Trial:
        """Both as one; a failure wins."""
        if again.state != "right":
            return again
        return replace(again, times_ns=self.times_ns + again.times_ns, rounds=self.rounds + 1)


class Results:
    """What is known is on the disk before the next try begins."""

    def __init__(self, path: Path, spec: DeviceSpec) -> None:
        self.path, self._spec = path, spec
        self.trials: dict[tuple[Problem, Variant], Trial] = {}
        # A full search has thousands of lines, of which few are new at a time.
        self._written: dict[tuple[Problem, Variant], tuple[Trial | None, str]] = {}
        self.best: dict[Problem, Variant] = {}
        self._avoid: set[str] = set()
        self._running: tuple[Problem, Variant, int] | None = None

    @classmethod
    def open(cls, path: Path, spec: DeviceSpec) -> Results:
        """What is kept at `path`, or nothing yet; refuses a file that is not whole or not ours."""
        made = cls(path, spec)
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return made
        except OSError as e:
            raise _cannot(path, e) from e
        made._take(f"tuned results {path}", data)
        return made

    @property
    def spec(self) -> DeviceSpec:
        """The device, with what is known by now."""
        return replace(self._spec, tuned=tuple(sorted((str(p), str(v))
                                                      for p, v in self.best.items())),
                       avoid=tuple(sorted(self._avoid)))

    def begin(self, problem: Problem, variant: Variant) -> bool:
        """Note what comes next; False if it has ended the whole search twice, and is not tried."""
        times = 1
        if self._running and self._running[:2] == (problem, variant):
            times += self._running[2]
        if times > 2:
            self.add(problem, variant, Trial("crashed", "the search ended twice while it ran"))
            return False
        self._running = problem, variant, times
        self.save()
        return True

    def finish(self) -> None:
        """Keep all there is. The search has ended by itself: nothing that ran is to blame."""
        self._running = None
        self.save()

    def add(self, problem: Problem, variant: Variant, trial: Trial) -> None:
        """Keep a try, in memory so far. A variant that failed is from now on the best of none."""
        self._running = None
        before = self.trials.get((problem, variant))
        self.trials[problem, variant] = before.and_then(trial) if before else trial
        if trial.state in FAILED:
            self.bar(variant.built)

    def bar(self, *built: str) -> None:
        """Never choose what is built like this on this driver."""
        self._avoid.update(built)
        self.best = {p: v for p, v in self.best.items() if v.built not in self._avoid}

    def choose(self, problem: Problem, variant: Variant) -> None:
        assert variant.built not in self._avoid, f"{variant} has failed"
        self.best[problem] = variant

    def right(self, problem: Problem) -> dict[Variant, Trial]:
        """The variants of a problem that gave the right numbers and failed nowhere."""
        return {v: t for (p, v), t in self.trials.items()
                if p == problem and t.state == "right" and v.built not in self._avoid}

    def failures(self) -> list[tuple[Problem, Variant, Trial]]:
        return [(p, v, t) for (p, v), t in self.trials.items() if t.state in FAILED]

    def to_bytes(self) -> bytes:
        """The file's contents: the same results, the same bytes."""
        running = self._running and [*map(str, self._running[:2]), self._running[2]]
        lines = [f'"format": {json.dumps(FORMAT)}', f'"version": {VERSION}',
                 f'"device": {json.dumps(whose(self._spec))}',
                 f'"kernels": {json.dumps(kernels_key())}',
                 f'"best": {_lines("{}", self._best_lines())}',
                 f'"avoid": {_lines("[]", [json.dumps(v) for v in self.spec.avoid])}',
                 f'"trials": {_lines("[]", self._trial_lines())}',
                 f'"running": {json.dumps(running)}']
        return ("{\n" + ",\n".join(lines) + "\n}\n").encode()

    def _best_lines(self) -> list[str]:
        return [f"{json.dumps(p)}: {json.dumps(v)}" for p, v in self.spec.tuned]

    def _trial_lines(self) -> list[str]:
        for (p, v), t in self.trials.items():
            if self._written.get((p, v), (None, ""))[0] is not t:
                told = {"problem": str(p), "variant": str(v), "state": t.state, "why": t.why,
                        "times_ns": t.times_ns, "rounds": t.rounds}
                self._written[p, v] = t, json.dumps(told)
        return [self._written[key][1] for key in self.trials]

    def save(self) -> None:
        try:
            write_atomically(self.path, self.to_bytes())
        except OSError as e:
            raise _cannot(self.path, e) from e

    def _take(self, what: str, data: bytes) -> None:
        told = checked_results(what, data, self._spec)
        try:
            self.trials = dict(_trial(entry) for entry in told["trials"])
            self._running = _running(told["running"])
        except (KeyError, TypeError, ValueError, BadInput) as e:
            raise damaged(what, "its trials are not as this program writes them") from e
        self.best = {as_problem(p): as_variant(v) for p, v in told["best"].items()}
        self.bar(*told["avoid"])


def offered(path: Path, spec: DeviceSpec) -> tuple[dict[Problem, Variant], tuple[str, ...]]:
    """The choices and the failures of somebody else's file, if it is whole and of this device;
    nothing of it has been tried here yet."""
    try:
        data = path.read_bytes()
    except OSError as e:
        raise StorageError(f"{path} cannot be read", why=str(e.strerror)) from e
    told = checked_results(str(path), data, spec)
    return ({as_problem(p): as_variant(v) for p, v in told["best"].items()},
            tuple(told["avoid"]))


def _lines(brackets: str, lines: list[str]) -> str:
    """A JSON list or object with an entry on each line, for people and their diffs."""
    inside = ",\n  ".join(lines)
    return f"{brackets[0]}\n  {inside}\n{brackets[1]}" if lines else brackets


def _trial(entry: Any) -> tuple[tuple[Problem, Variant], Trial]:
    match entry:
        case {"problem": str(problem), "variant": str(variant), "state": str(state),
              "why": str(why), "times_ns": [*times], "rounds": int(rounds)} if (
                state in STATES and all(type(t) is int and t > 0 for t in times)
                and bool(times) == (state == "right") and rounds > 0):
            key = as_problem(problem), as_variant(variant)
            return key, Trial(state, why, tuple(times), rounds)
    raise ValueError(entry)


def _running(entry: Any) -> tuple[Problem, Variant, int] | None:
    match entry:
        case None:
            return None
        case [str(problem), str(variant), int(times)]:
            return as_problem(problem), as_variant(variant), times
    raise ValueError(entry)


def _cannot(path: Path, e: OSError) -> StorageError:
    return StorageError(f"tuned results cannot be kept in {path}", why=str(e.strerror),
                        fix="set HANDTORCH_CACHE to a folder that can be written")
