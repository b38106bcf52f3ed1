"""Torch's operations on the CPU as rows of a run, in the form of a device's launches.

The hook stands above autograd, on a dispatch key that torch itself leaves to tests, so that what
runs is what runs without it. A `TorchDispatchMode` stands below and changes the run: while one is
on, autograd adds up gradients out of place (on a ResNet50, `add` took twice its time).

An operation that calls others is one row, named as torch.profiler names its outermost `aten::`
event."""

from __future__ import annotations

import linecache
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch

from handtorch.baseline.torch_asking import Asking, dispatch_key
from handtorch.baseline.torch_origin import Origin, Origins
from handtorch.baseline.torch_work import work
from handtorch.errors import BadInput
from handtorch.record import Clock, Gap, Launch, Place, Step

PLACE, CLOCK, LANE = "torch cpu", "CLOCK_MONOTONIC", "cpu"
_KEY_NAME = "TESTING_ONLY_GenericMode"
_NO_QUEUE = "torch runs it where it is called: there is no queue"
_NOT_FOLLOWED = "who else reads the results of torch's operations is not followed"
_NO_RULE = "no rule for the arithmetic of this operation"
_now = time.monotonic_ns


_KEY = dispatch_key(_KEY_NAME)
_KEYS = torch._C.DispatchKeySet(_KEY)


class Label(NamedTuple):
    """What is said of an operation, equal in every step."""

    op: Any
    shape: Any                                  # of its first argument, if that is a tensor
    name: str
    origin: Origin
    flops: int | None
    moved_bytes: int


class Seen(NamedTuple):
    """One operation as the hook saw it."""

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

    A step's window begins where the one before it ended, until `pause()`: then it begins with its
    call. One of them at a time, on one thread (autograd's CPU work runs on the caller's).

    The first step is learnt: layers, lines and work, some 15 us an operation. Later ones are only
    stamped as long as they run the same operations on the same shapes; one that does not is
    labelled as far as can be seen, and the next is learnt again.

    The next `probing` ones also find out what asking for each operation takes."""

    def __init__(self, probing: int = 1) -> None:
        self.steps: list[SeenStep] = []
        self._origins = Origins()
        self._ops: list[tuple[Label, int, int]] = []
        self._known: list[Label] = []           # of the step that was learnt
        self._learns = True
        self._reached_ns: int | None = None
        self.asking, self._probing, self._probes = Asking(), probing, 0

    @contextmanager
    def step(self) -> Iterator[None]:
        """One step is in `steps` afterwards, unless it raised."""
        global _watching
        if _watching is not None:
            raise BadInput("watching torch's operations", why="another watch is on",
                           fix="end that one first")
        self._ops = []
        if self._learns:
            self._known = []
        with ExitStack() as undo:
            if self._learns:
                undo.enter_context(self._origins.follow())
            _install()
            _watching = self
            undo.callback(_forget)
            called_ns = _now()
            with torch._C._IncludeDispatchKeyGuard(_KEY):
                yield
            end_ns = _now()
        start_ns = called_ns if self._reached_ns is None else self._reached_ns
        spent = self.asking.spent_ns
        seen = tuple(Seen(label, min(a + spent(label.op), b), b) for label, a, b in self._ops)
        self.steps.append(SeenStep(start_ns, called_ns, end_ns, seen))
        self._reached_ns = end_ns
        learnt = self._learns
        self._learns = not learnt and len(seen) != len(self._known)     # it went another way
        self._known = [op.label for op in seen]
        if self._probes:
            self.asking.learn()
        self._probes = self._probing if learnt else max(0, self._probes - 1)

    def pause(self) -> None:
        """What happens until the next step is not part of it."""
        self._reached_ns = None

    def run(self, op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The operation's result; called by the hook."""
        at = len(self._ops)
        if at < len(self._known):               # little is done here: it would empty the caches
            label = self._known[at]
            if label.op is op and (label.shape is None or label.shape == args[0].shape):
                if self._probes:
                    self.asking.probe(op, args, kwargs)
                start_ns = _now()
                out = op(*args, **kwargs)
                end_ns = _now()
                self._ops.append((label, start_ns, end_ns))
                return out
        if op.namespace == "profiler":          # torch's own marks, which do no work
            return op(*args, **kwargs)
        return self._learn(op, args, kwargs)

    def _learn(self, op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        origin = self._origins.current(3)
        first = torch._C._autograd._get_sequence_nr()
        start_ns = _now()
        out = op(*args, **kwargs)
        end_ns = _now()
        self._origins.made(first, torch._C._autograd._get_sequence_nr(), origin)
        shape = args[0].shape if args and isinstance(args[0], torch.Tensor) else None
        label = Label(op, shape, op._schema.name, origin, *work(op, args, kwargs, out))
        self._ops.append((label, start_ns, end_ns))
        del self._known[len(self._ops) - 1:]    # what follows has another place
        return out


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
        return TorchRows(place(), clock(), tuple(steps), tuple(launches), tuple(gaps))


def watch(call: Callable[..., Any], batches: Iterable[tuple[Any, ...]]) -> TorchOps:
    """`call(*batch)` watched for each batch; the time to get a batch belongs to its step."""
    ops = TorchOps()
    for batch in batches:
        with ops.step():
            call(*batch)
    return ops


def clock() -> Clock:
    return Clock(name=CLOCK, offset_ns=0, error_ns=0, provenance="measured")


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
        work_reason="" if said.flops is not None else _NO_RULE, provenance="measured",
        lane=LANE, node=f"{number} {name}", spared_reason=_NOT_FOLLOWED)


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
