"""`ht.profile(step)`: every launch, transfer and action of the host while the block runs."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Protocol, Self

from handtorch.errors import BadInput, DeviceError, tells_the_callers_line
from handtorch.meters.procfs import used_seconds
from handtorch.place.sheet import read_sheet
from handtorch.profile.alone import check
from handtorch.profile.audit import Audited, audit
from handtorch.profile.check import Check, rows_of
from handtorch.profile.collect import HOST_CLOCK, Subject, collected
from handtorch.profile.memory import ALIVE, alive, changes, held, process_peak_bytes
from handtorch.profile.peaks import peak_rows
from handtorch.profile.rows import as_run, write_run
from handtorch.profile.sensing import Sensing
from handtorch.profile.summary import STUDY, summary_rows
from handtorch.profile.tables import text
from handtorch.profile.torch_side import TorchProfile
from handtorch.record import Memory, Run, RunInfo, Sample
from handtorch.record.row import Row
from handtorch.runtime.opencl.context import OpenCLContext
from handtorch.runtime.opencl.resident import RING, OpenCLResident
from handtorch.runtime.opencl.setting import SelfTestState, setting_rows
from handtorch.runtime.opencl.sync import comparer, read_times
from handtorch.runtime.recorder import Recorder
from handtorch.runtime.session import Session


class Resident(Protocol):
    """What `ht.train_step`, `ht.inference` and `ht.load` give."""

    @property
    def session(self) -> Session: ...


@dataclass(frozen=True)
class Reading:
    """Processor time that all programs of this machine have used so far; None with a reason."""

    time_ns: int
    busy_s: float | None
    reason: str = ""


@dataclass
class Profile:
    """A profile while it is taken, and afterwards what was found.

    Steps are recorded inside the `with` block, but for those between `off()` and `on()`.

    >>> with ht.profile(step, sensors=False) as run:
    ...     float(step(x, y)) > 0
    True
    >>> len(run.run.steps)
    1
    """

    session: Session
    name: str
    self_test: SelfTestState = "not run"
    overhead: Audited | None = None
    command: str = "ht.profile"
    more: list[Row] = field(default_factory=list)
    sensing: Sensing | None = None
    _recorder: Recorder = field(init=False)
    _readings: list[Reading] = field(default_factory=list, init=False)
    _run: Run | None = field(default=None, init=False)
    _began: str = field(default="", init=False)
    _began_ns: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self._recorder = _recorder(self.session)

    @property
    def context(self) -> OpenCLContext:
        """The OpenCL context of its device: queues, clocks and limits.

        >>> run.context.spec.name == step.device_name
        True
        """
        assert isinstance(self.session.executor, OpenCLContext)
        return self.session.executor

    def __enter__(self) -> Self:
        if self.session.recorder is not None:
            raise BadInput("a profile inside another of the same step",
                           fix="one `with ht.profile(step)` at a time")
        self._began = datetime.now(UTC).isoformat(timespec="milliseconds")
        self._began_ns = time.monotonic_ns()
        if self.sensing is not None:
            self.sensing.start()
        self._attach(self._recorder)
        self._readings.append(reading())
        self.on()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        try:
            self.off()
        finally:
            self._readings.append(reading())
            self._attach(None)
            if self.sensing is not None:
                self.sensing.stop()

    def _attach(self, recorder: Recorder | None) -> None:
        """The session tells it of calls, the resident program of what it submits."""
        assert isinstance(self.session.resident, OpenCLResident)
        self.session.recorder = self.session.resident.recorder = recorder

    def on(self) -> None:
        """The steps to come are recorded. Waits for those under way; nothing is compiled.

        >>> with ht.profile(step, sensors=False) as run:
        ...     run.off()
        ...     loss = step(x, y)                   # not recorded
        ...     run.on()
        ...     loss = step(x, y)
        >>> len(run.run.steps)
        1
        """
        self._recorder.start()

    def off(self) -> None:
        """The steps to come are not recorded, and run as if there were no profile.

        >>> with ht.profile(step, sensors=False) as run:
        ...     loss = step(x, y)
        ...     run.off()                           # the rest as if there were no profile
        """
        self._recorder.stop()
        self._run = None

    def audit(self, step: Callable[[], object], pairs: int = 20) -> Audited:
        """What recording and sampling cost, from `pairs` of steps with and without them in random
        order. `step` makes one and waits for its result: `lambda: float(step(x, y))`. These train,
        too, and are not part of the profile.

        >>> cost = run.audit(lambda: float(step(x, y)), pairs=5)
        >>> cost.wall
        Overhead(...)
        """
        aside = _recorder(self.session)
        aside.start()
        before = self.session.recorder
        self._attach(aside)
        sampler = Sensing() if self.sensing is not None and self.sensing.samples else None

        def switch(on: bool) -> None:
            aside.on = on
            if sampler is not None:
                sampler.hold(not on)

        try:
            if sampler is not None:
                sampler.start()
            self.overhead = audit(step, switch, pairs)
            switch(True)
            aside.stop()
        finally:
            if sampler is not None:
                sampler.hold(False)
                sampler.stop()
            self._attach(before)
        self._run = None
        return self.overhead

    def check(self, step: Callable[[], object], steps: int = 5) -> Check:
        """Whether the driver's event times are true: so many steps more in which every launch is
        waited for, held against the host's clock and against the steps recorded so far. `step`
        makes one and waits, as for `audit`; these train, too, and are not part of the profile.

        >>> found = run.check(lambda: float(step(x, y)), steps=1)
        >>> len(found.kernels) > 3
        True
        """
        queued = [p for c in self._recorder.calls for p in c.passes]
        if not queued or self._recorder.on:
            raise BadInput("a check of event times", why="it needs recorded steps to compare with",
                           fix="after the `with ht.profile(step)` block, with a step in it")
        assert isinstance(self.session.resident, OpenCLResident)
        found = check(self.session.resident, self.context, (self.name, self.place), queued, step,
                      steps)
        self.add(rows_of(found, STUDY))
        return found

    def peaks(self) -> None:
        """The device's best rates are part of the run afterwards; takes about a second.

        >>> run.peaks()
        >>> any(row.name == "arithmetic peak" for row in run.run.results)
        True
        """
        self.more += peak_rows(self.context, STUDY, self.place)
        self._run = None

    def add(self, rows: Iterable[Row]) -> None:
        """The run has these rows too, after its own.

        >>> run.add([])
        """
        self.more += rows
        self._run = None

    @property
    def place(self) -> str:
        """The short name of its device, as `--device` takes it.

        >>> run.place in [one.name for one in run.run.places]
        True
        """
        return self.context.found.label

    @property
    def run(self) -> Run:
        """Everything that was recorded, as the rows of a run file.

        >>> run.run.steps[0].subject
        'training b8'
        """
        if self._run is None:
            if not any(c.passes for c in self._recorder.calls):
                raise BadInput("a profile without a step", why="none was run while it was on",
                               fix="call the step inside `with ht.profile(step) as run:`")
            if self._recorder.on:
                raise BadInput("a profile that still runs", fix="after the `with` block, or after "
                               "run.off()")
            info = RunInfo(id=uuid.uuid4().hex, command=self.command, started_utc=self._began,
                           duration_ns=time.monotonic_ns() - self._began_ns, status="complete")
            rows = self._rows()
            self._run = as_run(info, rows)
            if self.sensing is not None:
                found = self.sensing.worked_out(self._run)
                self._run = as_run(info, [*rows, *found])
        return self._run

    @tells_the_callers_line
    def table(self) -> str:
        """For a terminal: where time and memory went, and what recording cost.

        >>> print(run.table())
        training b8 ...
        """
        return text(self.run)

    @tells_the_callers_line
    def save(self, path: str | os.PathLike[str]) -> None:
        """`path` is a run file with all of it; one that is there is refused.

        >>> run.save("run.htr")
        """
        write_run(self.run, path)

    def _rows(self) -> list[Row]:
        program = self.session.program
        of = Subject(program, self.name, kind_of(self.session), self.place, RING)
        timed = collected(self._recorder, of)
        rows = [*setting_rows(self.context.found, self.self_test), *timed, *self._load(),
                *memory_rows(of)]
        sensed = [] if self.sensing is None else self.sensing.rows(of.name)
        return [*rows, *sensed,
                *summary_rows(of, timed, self.session.graph.inputs, self.overhead), *self.more]

    def _load(self) -> Iterable[Row]:
        for seen in self._readings:
            yield Sample(time_ns=seen.time_ns, clock=HOST_CLOCK, meter="/proc/stat",
                         quantity="machine_cpu_s", value=seen.busy_s, value_reason=seen.reason,
                         provenance="measured")


@tells_the_callers_line
def profile(step: Resident | Callable[..., Any], *, name: str = "", sensors: bool = True,
            sheet: str | os.PathLike[str] | None = None) -> Profile | TorchProfile:
    """A profile of `step`, to be used as `with ht.profile(step) as run:`.

    `step` is what `ht.train_step`, `ht.inference` or `ht.load` gave, and is called inside the
    block; or a function that runs torch on the CPU, and `run` is called in its place. `name` is
    what its rows are called, such as "ResNet50 b16"; else what it is. `sensors`: whether a process
    beside this one reads the machine's sensors meanwhile. `sheet` is a power sheet (docs/sheets.md)
    from which joules are estimated.

    >>> with ht.profile(step, sensors=False) as run:
    ...     for _ in range(3):
    ...         loss = step(x, y)
    >>> print(run.table())
    training b8 ...
    """
    sensing = Sensing(None if sheet is None else read_sheet(sheet), samples=sensors)
    session = getattr(step, "session", None)
    if isinstance(session, Session):
        return Profile(session, name or default_name(session), sensing=sensing)
    if not callable(step):
        raise BadInput(f"a profile of a {type(step).__name__}",
                       why="it takes what ht.train_step, ht.inference and ht.load give, or a "
                           "function that runs torch",
                       fix="step = ht.train_step(...); with ht.profile(step) as run: ...")
    return TorchProfile(step, name or getattr(step, "__name__", type(step).__name__),
                        sensing=sensing)


def default_name(session: Session) -> str:
    shapes = [p.value.shape for p in session.graph.inputs]
    batch = f" b{shapes[0][0]}" if shapes and shapes[0] else ""
    return f"{kind_of(session)}{batch}"


def kind_of(session: Session) -> str:
    """Training changes its parameters."""
    trains = any(s.changes for s in session.program.graph.states if s.role == "parameter")
    return "training" if trains else "inference"


def _recorder(session: Session) -> Recorder:
    resident, on = session.resident, session.executor
    if not isinstance(resident, OpenCLResident) or not isinstance(on, OpenCLContext):
        raise DeviceError(f"a profile on {on.spec.name}", why="this executor has no device clock",
                          fix="a step on an OpenCL device; `handtorch devices` lists them")
    return Recorder(read=lambda events: read_times(on, events), sync=comparer(on),
                    finish=resident.finish, ring=RING)


def memory_rows(of: Subject) -> Iterable[Memory]:
    """At the peak, over the launches of a step, and of the process."""
    found = held(of.program, of.ring)

    def row(moment: str, role: str, nbytes: int, launch: int | None = None) -> Memory:
        return Memory(place=of.place, subject=of.name, moment=moment, role=role, bytes=nbytes,
                      provenance="measured", launch=launch)

    yield from (row("peak", role, n) for role, n in found.peak.items())
    yield from (row(ALIVE, who, n) for who, n in alive(of.program, found.peak_launch).items())
    for role, line in found.over.items():
        if any(line):
            yield from (row("launch", role, n, i) for i, n in changes(line))
    yield row("process peak", "process", process_peak_bytes())


def reading() -> Reading:
    at, used_s = time.monotonic_ns(), used_seconds()
    return Reading(at, None, used_s) if isinstance(used_s, str) else Reading(at, used_s)
