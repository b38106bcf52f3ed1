"""A side's process as the bench sees it: started, asked, and ended whatever it does."""

from __future__ import annotations

import json
import os
import select
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from handtorch.errors import HandTorchError

MAKE_S, RUN_S = 1800.0, 600.0       # who takes longer is ended; compilers take their time
_END_S = 5.0


class SideEnded(HandTorchError):
    """A side's process died, or was ended because it did not answer; `side` is its name."""

    def __init__(self, side: str, why: str) -> None:
        self.side = side
        super().__init__(f"the process of {side} ended", why=why)


class SideProcess:
    """Use as a context manager: at its end the process is gone.

    A process that is not asked anything sleeps on its input. What it writes to its errors goes to
    `log`, whose last line is told if it dies."""

    def __init__(self, side: str, command: Sequence[str], environment: Mapping[str, str],
                 log: Path) -> None:
        self.side, self._log = side, log
        with log.open("wb") as errors:
            # A session of its own: Ctrl-C is for us, and we end it.
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
                env=dict(environment), start_new_session=True, bufsize=0)
        self._read = b""

    def __enter__(self) -> SideProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ask(self, what: str, most_s: float = RUN_S, **told: Any) -> dict[str, Any]:
        """Its answer. Raises SideEnded where there is none; then the process is gone."""
        pipe = self._process.stdin
        assert pipe is not None
        if pipe.closed:
            raise SideEnded(self.side, "it was ended before")
        try:
            pipe.write(json.dumps({"do": what, **told}).encode() + b"\n")
            line = self._line(time.monotonic() + most_s)
        except BrokenPipeError:
            line = b""
        if line is None:
            self.close()
            raise SideEnded(self.side, f"no answer to {what!r} within {most_s:.0f} s")
        if not line:
            raise SideEnded(self.side, self._how_it_ended())
        try:
            answer = json.loads(line)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            self.close()
            raise SideEnded(self.side, f"its answer is no JSON record: {line[:80]!r}")
        return answer

    def block(self, warm_up: int, count: int) -> float:
        """Seconds of `count` runs, by its own clock; a `fair.Block`."""
        told = self.ask("run", warm_up=warm_up, count=count)
        if "error" in told or "skipped" in told:
            self.close()
            raise SideEnded(self.side, told.get("error") or told["skipped"])
        return float(told["seconds"])

    def close(self) -> None:
        """Gone afterwards: it is asked to end by the end of its input, then made to."""
        _close(self._process.stdin)
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        _close(self._process.stdout)

    def _line(self, until: float) -> bytes | None:
        """A whole line; empty at the end of its output, None when time is up."""
        assert self._process.stdout is not None
        handle = self._process.stdout.fileno()
        while b"\n" not in self._read:
            ready, _, _ = select.select([handle], [], [], max(0.0, until - time.monotonic()))
            if not ready:
                return None
            if not (part := os.read(handle, 1 << 16)):
                return b""
            self._read += part
        line, _, self._read = self._read.partition(b"\n")
        return line

    def _how_it_ended(self) -> str:
        self.close()
        code = self._process.returncode
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        said = self._log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return f"{how}: {said[-1].strip()[:200] if said else 'it said nothing'}"


def _close(pipe: Any) -> None:
    try:
        if pipe is not None:
            pipe.close()
    except BrokenPipeError:
        return                              # it left before us
