"""The side of the process that trains: it starts a sampler, stops it, and reads what it wrote.

Nothing here raises for what may befall a sampler, its file or its machine: training goes on, and
`Troubles` says what is missing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from handtorch.errors import BadFile
from handtorch.meters import ring
from handtorch.meters.sampler import Sampler, search
from handtorch.profile.sampled import Ending, How, Readings, joined, without_readings

FILE = "readings.ring"
SEARCH = "handtorch.meters.search:find_all"
MOST_BYTES = 1 << 29                    # 16 million readings
LIMIT_S = 24 * 3600.0
SILENT_S = 1.0                          # a reading that takes longer hangs
GRACE_S = 2.0                           # to end by itself, when asked
_KILLED_S = 1.0                         # for the kernel to take it away
_LOOK_S = 0.005
_PACKAGE = Path(__file__).parents[2]
# Isolated and without site: neither the user's folder nor installed packages can get in its way.
_CODE = ("import json, sys; told = json.loads(sys.argv[1]); sys.path[:0] = told['paths']; "
         "from handtorch.meters.sampler import main; main(told)")
_CANNOT = (OSError, BadFile)


class Sampling:
    """Samples the sensors below `root` and the threads of `pid` between `start` and `stop`.

    `how` is "process"; "thread" where no process can be started: then readings wait for the
    interpreter's lock, and take time of the training; "none" where neither could be."""

    def __init__(self, folder: Path, *, root: Path = Path("/"), pid: int | None = None,
                 find: str = SEARCH, paths: Sequence[Path] = (), limit_s: float = LIMIT_S,
                 most_bytes: int = MOST_BYTES, silent_s: float = SILENT_S,
                 python: str | None = None) -> None:
        self.file = folder / FILE
        self.how: How = "none"
        self._ending = Ending()
        self._process: subprocess.Popen[bytes] | None = None
        self._thread: _InThread | None = None
        self._python = sys.executable if python is None else python
        self._told: dict[str, Any] = {
            "paths": [str(_PACKAGE), *map(str, paths)], "search": find, "root": str(root),
            "pid": os.getpid() if pid is None else pid, "parent": os.getpid(),
            "file": str(self.file), "limit_s": limit_s, "most_bytes": most_bytes,
            "silent_s": silent_s}
        self._began_ns = 0

    def __enter__(self) -> Sampling:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Returns at once; `ready` waits until the first reading can come. What an earlier run
        left in the folder is replaced."""
        self._began_ns = time.monotonic_ns()
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            self.file.unlink(missing_ok=True)
        except OSError as e:
            self._ending = Ending(not_started=f"{self.file.parent}: {e.strerror}")
            return
        if not self._python:                    # as in a program that embeds Python
            self._start_thread("this interpreter knows no program to start")
            return
        try:
            self._process = subprocess.Popen(
                [self._python, "-I", "-S", "-c", _CODE, json.dumps(self._told)],
                stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                start_new_session=True)         # Ctrl-C is for the training alone
            self.how = "process"
        except OSError as e:
            self._start_thread(f"no process could be started ({e.strerror})")

    def _start_thread(self, why: str) -> None:
        try:
            self._thread = _InThread(self._told)
            self.how = "thread"
            self._ending = Ending(in_thread=why)
        except (OSError, ImportError) as e:
            self._ending = Ending(not_started=f"{why}, and in this one: {e}")

    @property
    def sampler_pid(self) -> int | None:
        """Of its process, None if there is none."""
        return None if self._process is None else self._process.pid

    def ready(self, seconds: float) -> bool:
        """Whether there are readings, after waiting for them at most so long."""
        until = time.monotonic() + seconds
        while True:
            with suppress(*_CANNOT):
                if ring.read(self.file, slots=False).fields["count"]:
                    return True
            if self.how == "none" or time.monotonic() > until or self._exit_code() is not None:
                return False
            time.sleep(_LOOK_S)

    def alive(self, within_s: float = 2.0) -> bool:
        """Whether a reading was written lately; there is at least one every 1.6 s."""
        try:
            fields = ring.read(self.file, slots=False).fields
        except _CANNOT:
            return False
        late_ns = time.monotonic_ns() - fields["heartbeat_ns"]
        return fields["state"] == ring.RUNNING and late_ns < within_s * 1e9

    def stop(self, grace_s: float = GRACE_S) -> None:
        """It has ended or was killed; takes at most `grace_s` and a second. Twice is once."""
        if self._thread is not None:
            self._thread.stop()
        if self._process is not None and not self._ending.stopped_ns:
            self._ending = self._stopped(self._process, grace_s)

    def _stopped(self, process: subprocess.Popen[bytes], grace_s: float) -> Ending:
        assert process.stdin is not None and process.stderr is not None
        asked_ns = time.monotonic_ns()
        with suppress(OSError):                 # it may be gone
            process.stdin.write(b"s")
            process.stdin.flush()
        killed = not _ends(process, grace_s)
        if killed:
            process.kill()
        gone = not killed or _ends(process, _KILLED_S)
        said = _last_line(process.stderr.fileno()) if gone else ""
        for pipe in (process.stdin, process.stderr):
            with suppress(OSError):             # a byte that it did not take
                pipe.close()
        return Ending(stopped_ns=asked_ns, exit_code=process.returncode, said=said, killed=killed,
                      gone=gone)

    def _exit_code(self) -> int | None:
        return None if self._process is None else self._process.poll()

    def readings(self) -> Readings:
        """All readings until now, and what is missing of them. At any time, also while it runs."""
        now_ns = self._ending.stopped_ns or time.monotonic_ns()
        ending = self._ending
        if not ending.stopped_ns and (code := self._exit_code()) is not None:
            ending = Ending(exit_code=code)
        try:
            return joined(ring.read(self.file), ending, self.how, self._began_ns, now_ns)
        except _CANNOT as e:
            return without_readings(ending, self.how, str(e))


class _InThread:
    """The sampler in this process."""

    def __init__(self, told: dict[str, Any]) -> None:
        found = search(told["search"], Path(told["root"]), told["pid"])
        self._over = threading.Event()
        self._sampler = Sampler(Path(told["file"]), found, whole_process=False,
                                most_bytes=told["most_bytes"], limit_s=told["limit_s"],
                                silent_s=told["silent_s"])
        self._thread = threading.Thread(target=self._sampler.run, args=(self,), daemon=True)
        self._thread.start()
        self._closed = False

    def wait(self, seconds: float) -> int:
        return ring.ASKED if self._over.wait(seconds) else 0

    def stop(self) -> None:
        self._over.set()
        self._thread.join(GRACE_S)
        if not self._closed and not self._thread.is_alive():
            self._closed = self._sampler.close()


def _ends(process: subprocess.Popen[bytes], seconds: float) -> bool:
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def _last_line(fd: int) -> str:
    """Of what a process that is gone wrote; a child of its own may keep the pipe open."""
    os.set_blocking(fd, False)
    try:
        text = os.read(fd, 65536).decode("utf-8", "replace").strip()
    except OSError:
        return ""
    return text.splitlines()[-1] if text else ""
