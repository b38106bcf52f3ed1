"""Batches made ahead of the step, in a process of their own, handed over in shared memory.

The process is a fresh interpreter, not a fork: a fork would copy the threads' locks of OpenCL and
torch without the threads. It loads neither of them. The memory has no name (a memfd): it cannot be
left behind, whatever ends, and a container's small /dev/shm does not bound it. Batch k is made from
k alone, and by one process, so the order never depends on who was faster."""

from __future__ import annotations

import json
import mmap
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, NoReturn

from handtorch import errors, knobs
from handtorch.errors import BadInput, HandTorchError, NoInput
from handtorch.zoo.data.dataset import Arrays, Part
from handtorch.zoo.data.messages import BATCH, END, ERROR, HEAD, LAYOUT, MOST_BYTES, Layout

OPEN_FEED = "handtorch.zoo.data.feed:open_feed"
SLOTS, TIMEOUT_S, GRACE_S = 4, 120.0, 2.0
_CODE = ("import json, sys; told = json.loads(sys.argv[1]); "
         "sys.path += [p for p in told['paths'] if p not in sys.path]; "
         "from handtorch.zoo.data.maker import main; main(told)")
# One core at most: the others are the step's.
_ONE_THREAD = {name: "1" for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")}


class Ahead:
    """Batches `first`, `first + 1`, ... of a source, each as arrays that cannot be written to.

    A batch keeps its values until the next one is asked for; then its memory is used again. Up to
    `slots - 1` batches are made while one is in use. Ends at `last`, with an error of the maker's,
    with `close`, or with this process. `waited_s` adds up how long batches were waited for."""

    def __init__(self, open_source: str, arguments: Mapping[str, Any], *, first: int = 0,
                 last: int | None = None, slots: int = SLOTS, timeout_s: float = TIMEOUT_S) -> None:
        """`open_source` is `module:function`; what the function gives for `arguments` (JSON) has
        `source` and `batch(index)`. Returns at once, before anything was opened."""
        arguments = json.loads(json.dumps(arguments))
        if not 2 <= slots <= 64 or first < 0 or (last is not None and last <= first):
            raise BadInput(f"batches {first} to {last} in {slots} slots",
                           why="there are 2 to 64 slots, and a last batch comes behind the first",
                           fix=f"slots={SLOTS}, first=0, last=None")
        self._slots, self._timeout_s, self._first = slots, timeout_s, first
        self._next, self._used = first, False
        self._layout: Layout | None = None
        self._memory: mmap.mmap | None = None
        self._over: HandTorchError | None = None
        self._ended = False
        self._source = ""
        self.waited_s = 0.0
        self._memory_fd = os.memfd_create("handtorch-batches")
        self._told, told = os.pipe()
        free, self._free = os.pipe()
        life, self._life = os.pipe()
        given = (told, free, life, self._memory_fd)
        code = json.dumps({"paths": [p for p in sys.path if p], "open": open_source,
                           "arguments": arguments, "first": first, "last": last,
                           "slots": slots, "parent": os.getpid(), "told": told, "free": free,
                           "life": life, "memory": self._memory_fd})
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _CODE, code], pass_fds=given, stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL, env={**knobs.environment_for_child(), **_ONE_THREAD},
                start_new_session=True)     # Ctrl-C is for the training alone
        except OSError as e:
            for fd in (self._told, self._free, self._life, self._memory_fd):
                os.close(fd)
            self._ended = True
            raise NoInput("the process that makes batches cannot be started", why=str(e.strerror),
                          fix="free some memory, or use the feed without it") from e
        finally:
            for fd in given[:3]:
                os.close(fd)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def source(self) -> str:
        """Where the batches are from; waits until the maker has opened it."""
        while self._layout is None and not self._ended:
            self._hear(time.monotonic() + self._timeout_s)
        if self._over is not None:
            raise self._over
        return self._source

    def __iter__(self) -> Iterator[Arrays]:
        return self

    def __next__(self) -> Arrays:
        """The next batch. Raises the maker's error, or NoInput if it died or is silent."""
        if self._over is not None:
            raise self._over
        if self._ended:
            raise StopIteration
        if self._used:
            self._used = False
            with suppress(BrokenPipeError):         # it may have made the last one and ended
                os.write(self._free, b"f")
        began = time.monotonic()
        while (kind := self._hear(began + self._timeout_s)) == LAYOUT:
            pass
        self.waited_s += time.monotonic() - began
        if kind == END:
            raise StopIteration
        assert self._layout is not None and self._memory is not None
        slot = (self._next - self._first) % self._slots
        views = self._layout.views(self._memory, slot)
        for view in views:
            # Over memory that can be written to, so that nobody takes it for settled (ADR 19).
            view.flags.writeable = False
        self._next, self._used = self._next + 1, True
        return views

    def _hear(self, until: float) -> bytes:
        """The next message's kind; what it says is noted. Raises what went wrong."""
        kind, length = HEAD.unpack(self._exactly(HEAD.size, until))
        if length > MOST_BYTES:
            self._fail(NoInput("the process that makes batches", why="it speaks another language"))
        told = json.loads(self._exactly(length, until))
        if kind == LAYOUT:
            self._layout = Layout(tuple(map(tuple, told["shapes"])), tuple(told["dtypes"]))
            self._source = told["source"]
            self._memory = mmap.mmap(self._memory_fd, self._layout.slot_bytes * self._slots)
        elif kind == ERROR:
            self._fail(_again(told, self._next))
        elif kind == END:
            self.close()
        elif kind == BATCH:
            assert told == self._next, f"batch {told} came where {self._next} was due"
        return bytes(kind)

    def _exactly(self, count: int, until: float) -> bytes:
        found = b""
        while len(found) < count:
            ready, _, _ = select.select([self._told], [], [], max(0.0, until - time.monotonic()))
            if not ready:
                self._fail(NoInput(f"batch {self._next} is not there",
                                   why=f"nothing came within {self._timeout_s:g} s; the process "
                                       "that makes batches was ended",
                                   fix="a longer timeout_s, or look whether the disk answers"))
            piece = os.read(self._told, count - len(found))
            if not piece:
                self._fail(self._died())
            found += piece
        return found

    def _died(self) -> NoInput:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(GRACE_S)
        code = self._process.returncode
        how = ("closed its pipe" if code is None else f"was ended by signal {-code}" if code < 0
               else f"ended with code {code}")
        return NoInput(f"batch {self._next} is not there",
                       why=f"the process that makes batches {how}",
                       fix="signal 9 often is the system short of memory: smaller batches, or "
                           "fewer ahead")

    def _fail(self, error: HandTorchError) -> NoReturn:
        self._over = error
        self.close()
        raise error

    def close(self) -> None:
        """The maker has ended; twice is once. Arrays that were handed out stay readable."""
        if not self._ended:
            self._ended = True
            for fd in (self._told, self._free, self._life, self._memory_fd):
                os.close(fd)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(GRACE_S)
            if self._process.returncode is None:
                self._process.kill()
                self._process.wait()
            self._memory = None             # the mapping goes with the last array on it

    def __enter__(self) -> Ahead:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_process", None) is not None:
            self.close()


def feed_ahead(model: str, size: int, *, form: str = "", small: bool = False, path: str = "",
               seed: int = 0, part: Part = "train", first: int = 0, last: int | None = None,
               slots: int = SLOTS, timeout_s: float = TIMEOUT_S) -> Ahead:
    """What `open_feed(...)` gives, made ahead: the same batches in the same order."""
    given = {"model": model, "size": size, "form": form, "small": small, "path": path,
             "seed": seed, "part": part}
    return Ahead(OPEN_FEED, given, first=first, last=last, slots=slots, timeout_s=timeout_s)


def _again(told: Mapping[str, str], index: int) -> HandTorchError:
    """The maker's error, as it was there."""
    kind = getattr(errors, told["class"], None) if told["class"] else None
    if isinstance(kind, type) and issubclass(kind, HandTorchError):
        return kind(told["what"], why=told["why"], where=told["where"], fix=told["fix"])
    return NoInput(f"batch {index} is not there",
                   why=f"the process that makes batches failed: {told['error']}\n{told['trace']}")
