"""Torch's operations on the CPU as rows of a run, in the form of a device's launches.

The hook stands above autograd, on a dispatch key that torch itself leaves to tests, so that what
runs is what runs without it. A `TorchDispatchMode` stands below and changes the run: while one is
on, autograd adds up gradients out of place (on a ResNet50, `add` took twice its time).

An operation that calls others is one row, named as torch.profiler names its outermost `aten::`
event. The hook costs some 15 us an operation, nearly all of it outside the stamps."""

from __future__ import annotations

import linecache
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from types import CodeType, FrameType
from typing import Any, NamedTuple

import torch
from torch.autograd.graph import _engine_run_backward
from torch.nn.modules import module as torch_module
from torch.optim import optimizer as torch_optimizer

from handtorch.baseline.torch_work import Work, work
from handtorch.capture.lines import is_users
from handtorch.errors import BadInput
from handtorch.record import Clock, Gap, Launch, Place, Step

PLACE, CLOCK, LANE = "torch cpu", "CLOCK_MONOTONIC", "cpu"
_KEY_NAME = "TESTING_ONLY_GenericMode"
_ENGINE: CodeType = _engine_run_backward.__code__
_NO_QUEUE = "torch runs it where it is called: there is no queue"
_NO_RULE = "no rule for the arithmetic of this operation"
_ZOO = str(Path(__file__).parents[1] / "zoo")   # its models stand for the user's own
_ASKED = 200                                    # calls of an operation that does nothing
_now = time.monotonic_ns


def _key() -> torch._C.DispatchKey:
    key = torch._C._parse_dispatch_key(_KEY_NAME)
    assert key is not None, f"this torch has no dispatch key {_KEY_NAME}"
    return key


_KEY = _key()
_KEYS = torch._C.DispatchKeySet(_KEY)


class Origin(NamedTuple):
    """Where an operation comes from; the line as (file, number)."""

    layer: str
    phase: str
    line: tuple[str, int] | None

    @property
    def backward(self) -> Origin:
        """The same for the gradient of what was made here."""
        return self._replace(phase="backward")


class Seen(NamedTuple):
    """One operation as the hook saw it."""

    name: str
    start_ns: int
    end_ns: int
    origin: Origin
    flops: int | None
    moved_bytes: int


@dataclass(frozen=True)
class SeenStep:
    """One step: its window, when it was called, and its operations in order."""

    start_ns: int
    called_ns: int
    end_ns: int
    ops: tuple[Seen, ...]


@dataclass(frozen=True)
class TorchRows:
    """What goes into a run file, in an order in which references come first."""

    place: Place
    clock: Clock
    steps: tuple[Step, ...]
    launches: tuple[Launch, ...]
    gaps: tuple[Gap, ...]

    @property
    def all(self) -> tuple[Place | Clock | Step | Launch | Gap, ...]:
        return self.place, self.clock, *self.steps, *self.launches, *self.gaps


class TorchOps:
    """Watches the steps run inside `with ops.step():`; at other times torch is as ever.

    A step's window begins where the one before it ended, until `pause()`: then it begins with its
    call. One of them at a time, on one thread (autograd's CPU work runs on the caller's)."""

    def __init__(self) -> None:
        self.steps: list[SeenStep] = []
        self._layers, self._optimizing = _Layers(), 0
        self._ops: list[Seen] = []
        self._made_by: dict[int, Origin] = {}   # autograd's number of a node: who made it
        self._user: dict[CodeType, bool] = {}
        self._work: dict[tuple[Any, ...], Work] = {}
        self._reached_ns: int | None = None
        self._asking_ns = 0
        self._asking_ns = self._cost_of_asking()

    @contextmanager
    def step(self) -> Iterator[None]:
        """One step is in `steps` afterwards, unless it raised."""
        global _watching
        if _watching is not None:
            raise BadInput("watching torch's operations", why="another watch is on",
                           fix="end that one first")
        self._ops, self._made_by = [], {}
        with ExitStack() as undo:
            undo.enter_context(self._layers.follow())
            undo.enter_context(self._follow_optimizers())
            _install()
            _watching = self
            undo.callback(_forget)
            called_ns = _now()
            with torch._C._IncludeDispatchKeyGuard(_KEY):
                yield
            end_ns = _now()
        start_ns = called_ns if self._reached_ns is None else self._reached_ns
        self.steps.append(SeenStep(start_ns, called_ns, end_ns, tuple(self._ops)))
        self._reached_ns = end_ns

    def pause(self) -> None:
        """What happens until the next step is not part of it."""
        self._reached_ns = None

    def run(self, op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The operation's result; called by the hook."""
        origin = self._origin()
        first = torch._C._autograd._get_sequence_nr()
        start_ns = _now()
        out = op(*args, **kwargs)
        end_ns = _now()
        for number in range(first, torch._C._autograd._get_sequence_nr()):
            self._made_by[number] = origin
        if op.namespace != "profiler":          # torch's own marks, which do no work
            flops, moved = self._work_of(op, args, kwargs, out)
            start_ns = min(start_ns + self._asking_ns, end_ns)
            self._ops.append(Seen(op._schema.name, start_ns, end_ns, origin, flops, moved))
        return out

    def _work_of(self, op: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> Work:
        """Looked up: the same place of a step and the same shapes are the same work."""
        key = (len(self._ops), op, *[a.shape for a in args if isinstance(a, torch.Tensor)])
        if (known := self._work.get(key)) is None:
            known = self._work[key] = work(op, args, kwargs, out)
        return known

    def _origin(self) -> Origin:
        node = torch._C._current_autograd_node()
        if node is not None and (made := self._made_by.get(node._sequence_nr())) is not None:
            return made.backward
        line, in_backward = self._line(sys._getframe(3))
        in_backward = in_backward or node is not None
        phase = "backward" if in_backward else "optimizer" if self._optimizing else "forward"
        return Origin(self._layers.innermost, phase, line)

    def _line(self, frame: FrameType | None) -> tuple[tuple[str, int] | None, bool]:
        """The innermost line that is the user's, and whether autograd's engine runs below it."""
        in_backward = False
        while frame is not None:
            code = frame.f_code
            in_backward = in_backward or code is _ENGINE
            if (users := self._user.get(code)) is None:
                users = self._user[code] = is_users(frame) or code.co_filename.startswith(_ZOO)
            if users:
                return (code.co_filename, frame.f_lineno), in_backward
            frame = frame.f_back
        return None, in_backward

    @contextmanager
    def _follow_optimizers(self) -> Iterator[None]:
        def begin(*_: Any) -> None:
            self._optimizing += 1

        def end(*_: Any) -> None:
            self._optimizing -= 1
        hooks = (torch_optimizer.register_optimizer_step_pre_hook(begin),
                 torch_optimizer.register_optimizer_step_post_hook(end))
        try:
            yield
        finally:
            self._optimizing = 0
            for hook in hooks:
                hook.remove()

    def _cost_of_asking(self) -> int:
        """Between the stamps of an operation that does nothing: that much is not the operation."""
        x = torch.ones(1)
        with self.step():
            for _ in range(_ASKED):
                torch.ops.aten.is_same_size.default(x, x)
        spent = int(median(op.end_ns - op.start_ns for op in self.steps.pop().ops))
        self.pause()
        return spent

    def rows(self, subject: str, kind: str = "training", first_id: int = 0) -> TorchRows:
        """Steps numbered from 0, with ids from `first_id`."""
        steps, launches, gaps = list[Step](), list[Launch](), list[Gap]()
        for number, seen in enumerate(self.steps):
            key = first_id + number
            steps.append(Step(id=key, place=PLACE, subject=subject, number=number, kind=kind,
                              clock=CLOCK, start_ns=seen.start_ns, end_ns=seen.end_ns,
                              provenance="measured"))
            launches += [_launch(key, i, op) for i, op in enumerate(seen.ops)]
            gaps += _gaps(key, seen)
        return TorchRows(place(), Clock(name=CLOCK, offset_ns=0, error_ns=0, provenance="measured"),
                         tuple(steps), tuple(launches), tuple(gaps))


def watch(call: Callable[..., Any], batches: Iterable[tuple[Any, ...]]) -> TorchOps:
    """`call(*batch)` watched for each batch; the time to get a batch belongs to its step."""
    ops = TorchOps()
    for batch in batches:
        with ops.step():
            call(*batch)
    return ops


def place() -> Place:
    threads = torch.get_num_threads()
    return Place(name=PLACE, kind="host cpu", cores=None,
                 cores_reason=f"torch's {threads} threads are not pinned")


def _launch(step: int, number: int, op: Seen) -> Launch:
    name = op.name.partition("::")[2]
    return Launch(
        step=step, number=number, kernel=op.name, op=name, layer=op.origin.layer,
        phase=op.origin.phase, source_line=_shown(op.origin.line), clock=CLOCK, queued_ns=None,
        submit_ns=None, start_ns=op.start_ns, end_ns=op.end_ns, times_reason=_NO_QUEUE,
        flops=op.flops, moved_bytes=op.moved_bytes, work_reason="" if op.flops is not None
        else _NO_RULE, provenance="measured", lane=LANE, node=f"{number} {name}")


def _shown(line: tuple[str, int] | None) -> str:
    if line is None:
        return ""
    file, number = line
    return f"{Path(file).name}:{number}  {linecache.getline(file, number).strip()}".rstrip()


def _gaps(step: int, seen: SeenStep) -> list[Gap]:
    """Time before the call is the caller's; between two operations Python and the dispatcher."""
    made = list[Gap]()

    def add(cause: str, start_ns: int, end_ns: int) -> None:
        if start_ns < end_ns:
            made.append(Gap(step=step, number=len(made), cause=cause, clock=CLOCK,
                            start_ns=start_ns, end_ns=end_ns, provenance="measured"))
    add("input", seen.start_ns, seen.called_ns)
    reached_ns = seen.called_ns
    for op in seen.ops:
        add("dispatch", reached_ns, op.start_ns)
        reached_ns = op.end_ns
    add("dispatch", reached_ns, seen.end_ns)
    return made


class _Layers:
    """The path of the module that runs, in the outermost module that was called."""

    def __init__(self) -> None:
        self._stack: list[str] = []
        self._paths: dict[torch.nn.Module, str] = {}

    @property
    def innermost(self) -> str:
        return self._stack[-1] if self._stack else ""

    @contextmanager
    def follow(self) -> Iterator[None]:
        hooks = (torch_module.register_module_forward_pre_hook(self._enter),
                 torch_module.register_module_forward_hook(self._leave, always_call=True))
        try:
            yield
        finally:
            self._stack.clear()
            for hook in hooks:
                hook.remove()

    def _enter(self, module: torch.nn.Module, _: Any) -> None:
        if module not in self._paths:           # an outermost one brings the names of its parts
            inside = f"{self.innermost}." if self._stack else ""
            self._paths |= {m: inside + path for path, m in module.named_modules()}
        self._stack.append(self._paths[module])

    def _leave(self, *_: Any) -> None:
        self._stack.pop()


_watching: TorchOps | None = None
_library: list[torch.library.Library] = []      # alive as long as the process: torch keeps its hook


def _forget() -> None:
    global _watching
    _watching = None


def _install() -> None:
    """The hook is known to torch; it is asked only while a step is watched."""
    if not _library:
        library = torch.library.Library("_", "IMPL")
        library.fallback(_asked, _KEY_NAME)
        _library.append(library)


def _asked(op: Any, *args: Any, **kwargs: Any) -> Any:
    with torch._C._ExcludeDispatchKeyGuard(_KEYS):  # what the operation calls is part of it
        assert _watching is not None, "asked outside of a step"
        return _watching.run(op, args, kwargs)
