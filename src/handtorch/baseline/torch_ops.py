"""Torch's operations on the CPU as rows of a run, in the form of a device's launches.

When an operation ran is what torch itself recorded. Where it comes from and what work it is, a hook
finds out in one step that is learnt; later ones that run the same have the same labels. The hook
stands above autograd, on a dispatch key that torch leaves to tests, so that what runs is what runs
without it. A `TorchDispatchMode` stands below and changes the run: while one is on, autograd adds
up gradients out of place (on a ResNet50, `add` took twice its time).

An operation that calls others is one row, named as torch.profiler names its outermost `aten::`
event."""

from __future__ import annotations

import linecache
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple

import torch

from handtorch.baseline.torch_origin import Origin, Origins
from handtorch.baseline.torch_recorder import Recorded, recording
from handtorch.baseline.torch_work import work
from handtorch.errors import BadInput
from handtorch.record import Clock, Gap, Launch, Place, Step

PLACE, CLOCK, LANE = "torch cpu", "CLOCK_MONOTONIC", "cpu"
_KEY_NAME = "TESTING_ONLY_GenericMode"
_NO_QUEUE = "torch runs it where it is called: there is no queue"
_NOT_FOLLOWED = "who else reads the results of torch's operations is not followed"
_NO_RULE = "no rule for the arithmetic of this operation"
_ANOTHER_WAY = "the step went another way than the one that was learnt"
_now = time.monotonic_ns


def _dispatch_key(name: str) -> torch._C.DispatchKey:
    key = torch._C._parse_dispatch_key(name)
    assert key is not None, f"this torch has no dispatch key {name}"
    return key


_KEY = _dispatch_key(_KEY_NAME)
_KEYS = torch._C.DispatchKeySet(_KEY)


class Label(NamedTuple):
    """What is said of an operation, equal in every step."""

    name: str
    shape: tuple[int, ...]                      # of its first argument, if that is a tensor
    origin: Origin
    flops: int | None
    moved_bytes: int | None

    def fits(self, op: Recorded) -> bool:
        return (self.name, self.shape) == (op.name, op.shape)


class Seen(NamedTuple):
    """One operation of a step."""

    label: Label
    start_ns: int
    end_ns: int

    @property
    def name(self) -> str:
        return self.label.name


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

    A step's window begins where reading the record of the one before it ended, until `pause()`:
    then it begins with its call. One of them at a time, on one thread (autograd's CPU work runs on
    the caller's).

    The first step is learnt: layers, lines and work, some 15 us an operation. Later ones are only
    recorded as long as they run the same operations on the same shapes. In one that does not, the
    operations that are others have no work and no layer, and the next step is learnt again."""

    def __init__(self) -> None:
        self.steps: list[SeenStep] = []
        self.error_ns = 0                       # how far off a stamp can be
        self._origins = Origins()
        self._asked: list[tuple[Origin, int | None, int]] = []     # of the step being learnt
        self._known: list[Label] = []           # of the step that was learnt
        self._learns = True
        self._reached_ns: int | None = None

    @contextmanager
    def step(self) -> Iterator[None]:
        """One step is in `steps` afterwards, unless it raised."""
        global _watching
        if _watching is not None:
            raise BadInput("watching torch's operations", why="another watch is on",
                           fix="end that one first")
        self._asked = []
        with ExitStack() as undo:
            _watching = self
            undo.callback(_forget)
            record = undo.enter_context(recording())
            called_ns = _now()
            if self._learns:
                with self._origins.follow(), _hooked():
                    yield
            else:
                yield
            end_ns = _now()
        start_ns = called_ns if self._reached_ns is None else self._reached_ns
        seen = self._learnt(record.ops) if self._learns else self._labelled(record.ops)
        self.steps.append(SeenStep(start_ns, called_ns, end_ns,
                                   tuple(_in_turn(seen, called_ns, end_ns))))
        self.error_ns = max(self.error_ns, record.error_ns)
        self._reached_ns = _now()               # reading the record belongs to no step

    @property
    def clock(self) -> Clock:
        return Clock(name=CLOCK, offset_ns=0, error_ns=self.error_ns, provenance="measured")

    def pause(self) -> None:
        """What happens until the next step is not part of it."""
        self._reached_ns = None

    def asked(self, op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The operation's result; called by the hook."""
        if op.namespace == "profiler":          # torch's own marks, which do no work
            return op(*args, **kwargs)
        origin = self._origins.current(2)
        first = torch._C._autograd._get_sequence_nr()
        out = op(*args, **kwargs)
        self._origins.made(first, torch._C._autograd._get_sequence_nr(), origin)
        self._asked.append((origin, *work(op, args, kwargs, out)))
        return out

    def _learnt(self, ops: Sequence[Recorded]) -> list[Seen]:
        """In the record an operation of the hook's holds the operation itself."""
        inner = [op.inside[0] for op in ops]
        assert [op.name for op in inner] == [op.name for op in ops], "hook and record differ"
        self._known = [Label(op.name, op.shape, *asked)
                       for op, asked in zip(inner, self._asked, strict=True)]
        self._learns = False
        return [Seen(label, op.start_ns, op.end_ns)
                for label, op in zip(self._known, inner, strict=True)]

    def _labelled(self, ops: Sequence[Recorded]) -> list[Seen]:
        """Known are the operations up to the first that is another, and those after the last."""
        same = list(takewhile(lambda both: both[0].fits(both[1]),
                              zip(self._known, ops, strict=False)))
        self._learns = len(same) != max(len(ops), len(self._known))
        rest = min(len(ops), len(self._known)) - len(same)
        tail = list(takewhile(lambda both: both[0].fits(both[1]),
                              zip(self._known[::-1][:rest], ops[::-1][:rest], strict=True)))[::-1]
        phase = same[-1][0].origin.phase if same else "forward"
        other = [(Label(op.name, op.shape, Origin("", phase, None), None, None), op)
                 for op in ops[len(same):len(ops) - len(tail)]]
        return [Seen(label, op.start_ns, op.end_ns) for label, op in (*same, *other, *tail)]

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
        return TorchRows(place(), self.clock, tuple(steps), tuple(launches), tuple(gaps))


def _in_turn(ops: Iterable[Seen], reached_ns: int, end_ns: int) -> Iterator[Seen]:
    """They ran one after the other, inside the step, whatever the error of their stamps."""
    for op in ops:
        start_ns = min(max(op.start_ns, reached_ns), end_ns)
        reached_ns = min(max(op.end_ns, start_ns), end_ns)
        yield op._replace(start_ns=start_ns, end_ns=reached_ns)


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
    said, name = op.label, op.name.partition("::")[2]
    return Launch(
        step=step, number=number, kernel=op.name, op=name, layer=said.origin.layer,
        phase=said.origin.phase, source_line=_shown(said.origin.line), clock=CLOCK, queued_ns=None,
        submit_ns=None, start_ns=op.start_ns, end_ns=op.end_ns, times_reason=_NO_QUEUE,
        flops=said.flops, moved_bytes=said.moved_bytes,
        work_reason=_why_unknown(said), provenance="measured",
        lane=LANE, node=f"{number} {name}", spared_reason=_NOT_FOLLOWED)


def _why_unknown(said: Label) -> str:
    if said.moved_bytes is None:
        return _ANOTHER_WAY
    return "" if said.flops is not None else _NO_RULE


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


_watching: TorchOps | None = None
_library: list[torch.library.Library] = []      # alive as long as the process: torch keeps its hook


def _forget() -> None:
    global _watching
    _watching = None


@contextmanager
def _hooked() -> Iterator[None]:
    """The hook is asked for every operation; it stays known to torch afterwards."""
    if not _library:
        library = torch.library.Library("_", "IMPL")
        library.fallback(_ask, _KEY_NAME)
        _library.append(library)
    with torch._C._IncludeDispatchKeyGuard(_KEY):
        yield


def _ask(op: Any, *args: Any, **kwargs: Any) -> Any:
    with torch._C._ExcludeDispatchKeyGuard(_KEYS):  # what the operation calls is part of it
        assert _watching is not None, "asked outside of a step"
        return _watching.asked(op, args, kwargs)
