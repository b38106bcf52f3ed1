"""The joules that sensors measured, as rows of a run: by operation, layer, phase and step."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from handtorch.meters import signal as meters
from handtorch.profile.energy.attribute import attribute
from handtorch.profile.energy.groups import rolled_up
from handtorch.profile.energy.model import Attribution, Series
from handtorch.profile.energy.rails import tree
from handtorch.profile.energy.spans import Operations, operations
from handtorch.profile.group import Group, groups
from handtorch.profile.predict import predictability
from handtorch.profile.summary import STUDY
from handtorch.record import Energy, Missing, Result, Run, Sample, Signal
from handtorch.record.row import Provenance, Row
from handtorch.record.sensed import Level

NEXT_POWER = "error of the next step's power"
_NEVER_IDLE = "the power while nothing runs is not known"
_OF_A_GROUP = "only of operations"


def measured_rows(run: Run) -> Iterator[Row]:
    """For every subject and place, and every signal of the run that is power or energy."""
    signals = [s for s in run.signals if is_energy(s)]
    if not signals:
        return
    read: dict[tuple[str, str], list[Sample]] = {}
    for sample in run.samples:
        read.setdefault((sample.meter, sample.quantity), []).append(sample)
    for group in groups(run):
        ops = operations(group)
        found = []
        for signal in signals:
            samples = read.get((signal.meter, signal.quantity), [])
            found.append(attribute(ops.spans, series(signal, samples)))
            word = samples[0].provenance if samples else "measured"
            yield from _rows(group, ops, found[-1], word)
            yield from _foretold(group, found[-1], word)
        yield from _warnings(found)


def is_energy(signal: Signal) -> bool:
    unit = signal.quantity.rsplit("_", 1)[-1]
    return unit == ("j" if signal.kind == "counter" else "w") and signal.kind != "gauge"


def series(signal: Signal, samples: Sequence[Sample]) -> Series:
    """Readings in order of time."""
    ordered = sorted(samples, key=lambda s: s.time_ns)
    of = meters.Signal(signal.meter, signal.quantity, signal.kind, signal.part, signal.every_ns,
                       signal.span_ns, signal.parent, signal.step, signal.wraps_at, signal.basis,
                       signal.source)
    return Series(of, np.array([s.time_ns for s in ordered], np.int64),
                  np.array([s.error_ns for s in ordered], np.int64),
                  np.array([math.nan if s.value is None else s.value for s in ordered], np.float64))


@dataclass(frozen=True)
class _Maker:
    """The columns that all rows of one signal have in common."""

    group: Group
    found: Attribution
    provenance: Provenance

    def row(self, level: Level, name: str, seconds: float, total_j: float | None, why: str, *,
            instances: int = 0, readings: int = 0, low_j: float | None = None,
            high_j: float | None = None, dynamic_j: float | None = None,
            no_dynamic: str = _OF_A_GROUP) -> Energy:
        step, of = self.group.steps[0], self.found.signal
        how = f"{self.found.estimator}; {self.found.policy}"
        if self.found.lag_ns:
            how += f"; readings were {self.found.lag_ns / 1e6:.2f} ms late"
        return Energy(place=step.place, subject=step.subject, meter=of.meter, quantity=of.quantity,
                      level=level, name=name, instances=instances, seconds=seconds,
                      readings=readings, total_j=total_j,
                      total_reason="" if total_j is not None else why, low_j=low_j, high_j=high_j,
                      dynamic_j=dynamic_j, dynamic_reason="" if dynamic_j is not None
                      else why or no_dynamic, how=how, provenance=self.provenance)


def _rows(group: Group, ops: Operations, found: Attribution, provenance: Provenance
          ) -> Iterator[Energy]:
    """Of the steps that were measured; `instances` of the rail are so many."""
    make = _Maker(group, found, provenance)
    read = [(s.end_ns - s.start_ns) / 1e9
            for s, joules in zip(group.steps, found.steps_j, strict=True) if joules is not None]
    wall_s, busy_s = math.fsum(read), math.fsum(op.seconds for op in found.ops)
    yield make.row("rail", "", wall_s, found.rail_j, found.reason, instances=len(read),
                   dynamic_j=None if found.rail_j is None or found.idle_w is None
                   else found.rail_j - found.idle_w * wall_s, no_dynamic=_NEVER_IDLE)
    if found.rail_j is None:
        return
    yield make.row("idle", "", max(0.0, wall_s - busy_s), found.idle_j, found.reason)
    yield make.row("unattributed", "", 0.0, found.unattributed_j, found.reason)
    for op in found.ops:
        yield make.row("op", op.name, op.seconds, op.total_j, op.reason, instances=op.instances,
                       readings=op.readings, low_j=op.low_j, high_j=op.high_j,
                       dynamic_j=op.dynamic_j, no_dynamic=_NEVER_IDLE)
    yield from _sums(make, "layer", ops.layer)
    yield from _sums(make, "phase", ops.phase)
    for step, joules in zip(group.steps, found.steps_j, strict=True):
        yield make.row("step", str(step.number), (step.end_ns - step.start_ns) / 1e9, joules,
                       "it has no readings", instances=1)


def _sums(make: _Maker, level: Level, of: Mapping[str, str]) -> Iterator[Energy]:
    """Operations that are not known alone may be known together."""
    for total in rolled_up(make.found, of.__getitem__):
        ops = [op for op in make.found.ops if of[op.name] == total.name]
        above = [op.dynamic_j for op in ops if op.dynamic_j is not None]
        yield make.row(level, total.name, math.fsum(op.seconds for op in ops), total.total_j,
                       total.reason, instances=sum(op.instances for op in ops),
                       readings=sum(op.readings for op in ops), low_j=total.low_j,
                       high_j=total.high_j,
                       dynamic_j=math.fsum(above) if len(above) == len(ops) else None,
                       no_dynamic="not known of all its operations")


def _foretold(group: Group, found: Attribution, provenance: Provenance) -> Iterator[Result]:
    """How well the power of a step is foretold by the steps before it."""
    watts = [1e9 * joules / max(s.end_ns - s.start_ns, 1)
             for s, joules in zip(group.steps, found.steps_j, strict=True) if joules is not None]
    told = predictability(watts)
    if told is not None and told.errors:
        step = group.steps[0]
        yield Result(study=STUDY, name=f"{NEXT_POWER}, {found.signal.quantity}",
                     subject=step.subject, place=step.place, unit="%", better="lower", repeats=1,
                     value=100 * told.errors[told.estimator], provenance=provenance)


def _warnings(found: Sequence[Attribution]) -> Iterator[Missing]:
    """What was dropped, and parts that took more than the whole."""
    for one in found:
        source = f"{one.signal.meter} {one.signal.quantity}"
        yield from (Missing(source=source, why=note) for note in one.notes)
    for meter in dict.fromkeys(one.signal.meter for one in found):
        rails = tree([one for one in found if one.signal.meter == meter])
        yield from (Missing(source=meter, why=warning) for warning in rails.warnings)
