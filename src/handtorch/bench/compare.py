"""One case on all of its sides: results first, then times in turn, then memory.

Every side is a process that lives as long as the case and sleeps while another has its turn. A side
whose results are not torch's is not timed. One that dies is told of, and the others begin anew."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from handtorch import knobs
from handtorch.baseline.fair import Plan, Timing, interleave_blocks, moment, share_of_others
from handtorch.bench.case import EXPECTED, Asked, Case, read_calls
from handtorch.bench.outcome import Memory, Outcome, checked, checked_again
from handtorch.bench.process import MAKE_S, SideEnded, SideProcess
from handtorch.bench.pythons import environment
from handtorch.bench.sides import SideKind
from handtorch.errors import BadInput

ALONE_RUNS = 8              # where memory is the question; each of the batches twice
_PREPARE = "handtorch.bench.prepare"
# What is known of a device, and no compiled code: it is not what a cold start is about.
_KNOWN = ("tuned", "selftest", "times")


@dataclass(frozen=True)
class Setting:
    """Where and how a case is compared. `python` is by side the interpreter that has its peer, and
    `absent` by side why there is none. Without a `plan` sides are run one after the other, each
    alone, and not timed. `cold` gives every side empty caches."""

    device: str
    spec: Mapping[str, str]
    threads: int
    python: Mapping[str, str]
    absent: Mapping[str, str]
    plan: Plan | None
    cold: bool = True
    progress: Callable[[str], None] = field(default=lambda text: None)


@dataclass(frozen=True)
class Compared:
    """`others` is the share of the machine that neither we nor the sides used."""

    case: Case
    outcomes: tuple[Outcome, ...]
    others: float | None


def compare(case: Case, kinds: Sequence[SideKind], at: Setting) -> Compared:
    with tempfile.TemporaryDirectory(prefix="handtorch-bench-") as name:
        one = _Comparison(case, kinds, at, Path(name))
        at.progress(f"{case.title}: weights, batches and what torch makes of them")
        one.prepare()
        return one.apart() if at.plan is None else one.in_turn(at.plan)


class _Comparison:
    def __init__(self, case: Case, kinds: Sequence[SideKind], at: Setting, folder: Path) -> None:
        self._case, self._kinds, self._at, self._folder = case, kinds, at, folder
        self._found: dict[str, Outcome] = {}

    def prepare(self) -> None:
        given = json.dumps(self._asked({}).to_json())
        done = subprocess.run([sys.executable, "-m", _PREPARE, given], text=True, check=False,
                              stdin=subprocess.DEVNULL, capture_output=True,
                              env=knobs.environment_for_child())
        said = json.loads(done.stdout) if done.stdout else {
            "error": (done.stderr.strip().splitlines() or ["its process ended"])[-1]}
        if "error" in said:
            raise BadInput(f"{self._case.title} cannot be prepared", why=said["error"])
        self._expected = read_calls(self._folder / EXPECTED)

    def in_turn(self, plan: Plan) -> Compared:
        with ExitStack() as stack:
            live = {}
            for kind in self._kinds:
                process = self._started(kind, stack)
                if process is not None:
                    live[kind.name] = process
            since = moment()
            timings = self._timed(live, plan)
            others = share_of_others(since)
            for name, timing in timings.items():
                self._end(name, live[name], timing)
        return self._all(others)

    def apart(self) -> Compared:
        """Each twice: a compiler leaves much behind in the process in which it has just run, and
        the second one finds what the first has compiled. The first runs that are told are cold."""
        for kind in self._kinds:
            for turn in range(2):
                known = self._found.get(kind.name)
                with ExitStack() as stack, self._telling(kind.name):
                    process = self._started(kind, stack)
                    if process is None:
                        break
                    if turn:
                        process.block(0, ALONE_RUNS)
                        self._end(kind.name, process, Timing((), 0))
                if known is not None:
                    self._found[kind.name] = replace(self._found[kind.name],
                                                     firsts_s=known.firsts_s)
        return self._all(None)

    def _all(self, others: float | None) -> Compared:
        return Compared(self._case, tuple(self._found[k.name] for k in self._kinds), others)

    def _asked(self, options: Mapping[str, Any]) -> Asked:
        at = self._at
        return Asked(self._case, self._folder, at.device, at.threads, at.spec, options)

    def _started(self, kind: SideKind, stack: ExitStack) -> SideProcess | None:
        """A process that has shown the right results, or None; then its outcome tells why."""
        name, at = kind.name, self._at
        if name not in at.python:
            self._found[name] = Outcome(self._case, name, "skipped", at.absent[name])
            return None
        at.progress(f"{self._case.title}: {name}, first runs")
        with self._telling(name):
            process = stack.enter_context(SideProcess(
                name, [at.python[name], "-m", "handtorch.bench.sides", self._case.task, name],
                self._environment(name), self._folder / f"{name}.log"))
            told = process.ask("make", MAKE_S, **self._asked(kind.options).to_json())
            self._found[name] = self._first(name, told)
        if self._found[name].state == "believed":
            return process
        return None

    def _first(self, name: str, told: Mapping[str, Any]) -> Outcome:
        if "skipped" in told:
            return Outcome(self._case, name, "skipped", told["skipped"])
        if "error" in told:
            return Outcome(self._case, name, "failed", told["error"])
        off, why = checked(self._case, read_calls(Path(told["results"])), self._expected)
        return Outcome(self._case, name, "differs" if why else "believed", why, told["version"],
                       tuple(told["firsts_s"]), off)

    def _timed(self, live: dict[str, SideProcess], plan: Plan) -> dict[str, Timing]:
        while live:
            self._at.progress(f"{self._case.title}: {', '.join(live)}, in turn")
            try:
                return interleave_blocks({n: p.block for n, p in live.items()}, plan)
            except SideEnded as e:
                self._failed(e.side, e)
                live.pop(e.side).close()
        return {}

    def _end(self, name: str, process: SideProcess, timing: Timing) -> None:
        """Its memory, and whether it still computes the same."""
        with self._telling(name):
            memory = Memory(**process.ask("memory"))
            again = process.ask("again")
            why = again.get("error") or again.get("skipped") or checked_again(
                self._case, read_calls(Path(again["results"])), self._expected)
            self._found[name] = replace(
                self._found[name], memory=memory, seconds=() if why else timing.seconds,
                runs=0 if why else timing.runs, state="differs" if why else "believed",
                reason=f"after the timed runs: {why}" if why else timing.refused)

    @contextmanager
    def _telling(self, name: str) -> Iterator[None]:
        try:
            yield
        except SideEnded as e:
            self._failed(name, e)

    def _failed(self, name: str, error: SideEnded) -> None:
        known = self._found.get(name, Outcome(self._case, name, "failed"))
        self._found[name] = replace(known, state="failed", reason=error.message(), seconds=(),
                                    runs=0)

    def _environment(self, name: str) -> dict[str, str]:
        """With empty caches of its own, where a first run is to be a first one."""
        given = environment(self._at.python[name], self._folder / "package")
        if not self._at.cold:
            return given
        caches = self._folder / f"caches-{name}"
        for known in _KNOWN:
            if (there := knobs.cache_folder() / known).is_dir():
                shutil.copytree(there, caches / "handtorch" / known, dirs_exist_ok=True)
        return {**given, "HANDTORCH_CACHE": str(caches / "handtorch"),
                "POCL_CACHE_DIR": str(_made(caches / "pocl")), "XDG_CACHE_HOME": str(caches),
                "TORCHINDUCTOR_CACHE_DIR": str(caches / "inductor")}


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder
