"""Worker: tries variants in a child process that may crash or hang without harm."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

from handtorch import knobs
from handtorch.errors import DeviceError
from handtorch.kernels.variant import Problem, Variant
from handtorch.tune.families import family_of
from handtorch.tune.family import PLAIN
from handtorch.tune.store import STATES, Trial

TRY_S = 30.0                      # compiling, checking and timing one variant
START_S = 60.0                    # until a child has opened the device
CHILD = (sys.executable, "-m", "handtorch.tune.child")


class OutOfTime(Exception):
    """The search's own time limit came first; nothing is known of the variant."""


class _Died(Exception):
    """The child has ended or talks nonsense; the text says how."""


class Worker:
    """One child at a time, started when needed. `command` is what it runs, the device's label
    added."""

    def __init__(self, label: str, command: Sequence[str] = CHILD, try_s: float = TRY_S) -> None:
        self._command, self._try_s = (*command, label), try_s
        self._child: subprocess.Popen[bytes] | None = None
        self._unread = b""
        self._served = 0

    def attempt(self, problem: Problem, variant: Variant, *, stop_ns: int | None = None,
                work: str = PLAIN, timed: bool = True, until_s: float | None = None) -> Trial:
        """What became of the variant: right numbers and times, or how it failed.

        A child that dies is blamed on the variant only if it died in a child of its own: before
        that, an earlier one may have left damage. One that gives no answer in time hangs only if
        it does so on the smallest problem too. Ends with OutOfTime at `until_s`, a moment of the
        monotonic clock."""
        asked = {"problem": str(problem), "variant": str(variant), "stop_ns": stop_ns,
                 "work": work, "timed": timed}
        fresh = self._served == 0
        trial = self._ask(asked, until_s)
        if trial.state in ("crashed", "hung") and not fresh:
            trial = self._ask(asked, until_s)
        tiny = family_of(problem).smallest(problem, variant)
        if trial.state == "hung" and tiny != problem:
            probe = self._ask({**asked, "problem": str(tiny), "timed": False}, until_s)
            trial = Trial("too slow", trial.why) if probe.state == "right" else trial
        return trial

    def check(self, problem: Problem, variant: Variant, until_s: float | None = None) -> Trial:
        """Whether it is right in all its other work too, which is other code for a compiler."""
        trial = Trial("right")
        for work in family_of(problem).works(variant)[1:]:
            if trial.state == "right":
                trial = self.attempt(problem, variant, work=work, timed=False, until_s=until_s)
        return trial

    def _ask(self, asked: dict[str, Any], until_s: float | None) -> Trial:
        self._start(until_s)
        self._served += 1
        try:
            trial = self._answer(asked, _earlier(self._try_s, until_s))
        except TimeoutError:
            self.close()
            _check_limit(until_s)
            return Trial("hung", f"no answer in {self._try_s:g} s")
        except _Died as e:
            trial = Trial("crashed", str(e))
        if trial.state == "crashed":
            self.close()
        return trial

    def _start(self, until_s: float | None) -> None:
        if self._child is not None:
            return
        # A session of its own: Ctrl-C is for us, and we end it.
        self._child = subprocess.Popen(self._command, stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                       env=knobs.environment_for_child(), start_new_session=True)
        self._unread, self._served = b"", 0
        try:
            said = self._line(_earlier(START_S, until_s))
            why = "" if said.get("state") == "ready" else str(said.get("why"))
        except TimeoutError:
            self.close()
            _check_limit(until_s)
            why = f"no answer in {START_S:g} s"
        except _Died as e:
            why = str(e)
        if why:
            self.close()
            raise DeviceError("the device cannot be opened for tuning", why=why,
                              fix="`handtorch devices`")

    def _answer(self, asked: dict[str, Any], end_s: float) -> Trial:
        assert self._child is not None and self._child.stdin is not None
        try:
            self._child.stdin.write(json.dumps(asked).encode() + b"\n")
            self._child.stdin.flush()
        except BrokenPipeError:
            raise _Died(self._how()) from None
        match self._line(end_s):
            case {"state": "right", "times_ns": [*times]} if (
                    bool(times) == asked["timed"]
                    and all(type(t) is int and t > 0 for t in times)):
                return Trial("right", "", tuple(times))
            case {"state": str(state), "why": str(why)} if state in STATES[1:]:
                return Trial(state, why)
            case told:
                raise _Died(f"its process answered {told!r}")

    def _line(self, end_s: float) -> dict[str, Any]:
        """The child's next answer; TimeoutError if there is none by `end_s`."""
        assert self._child is not None and self._child.stdout is not None
        with selectors.DefaultSelector() as ready:
            ready.register(self._child.stdout, selectors.EVENT_READ)
            while b"\n" not in self._unread:
                left = end_s - time.monotonic()
                if left <= 0 or not ready.select(left):
                    raise TimeoutError
                more = os.read(self._child.stdout.fileno(), 1 << 16)
                if not more:
                    raise _Died(self._how())
                self._unread += more
        line, _, self._unread = self._unread.partition(b"\n")
        try:
            told = json.loads(line)
        except ValueError:
            raise _Died("its process wrote nonsense") from None
        return told if isinstance(told, dict) else {"state": "nonsense"}

    def _how(self) -> str:
        """How the child ended; it has closed its pipe, so it is ending."""
        assert self._child is not None
        try:
            code = self._child.wait(timeout=5)
        except subprocess.TimeoutExpired:
            return "its process closed the pipe"
        if code >= 0:
            return f"its process ended with code {code}"
        return f"its process ended with {signal.Signals(-code).name}"

    def close(self) -> None:
        """End the child, whatever it does."""
        if self._child is None:
            return
        self._child.kill()
        self._child.wait()
        for pipe in (self._child.stdin, self._child.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except BrokenPipeError:
                    continue
        self._child = None
        self._served = 0


def _earlier(seconds: float, until_s: float | None) -> float:
    """The moment of the monotonic clock when either is over."""
    end_s = time.monotonic() + seconds
    return end_s if until_s is None else min(end_s, until_s)


def _check_limit(until_s: float | None) -> None:
    if until_s is not None and time.monotonic() >= until_s:
        raise OutOfTime
