"""A whole bench into a run file: its cases one after the other, each on all of its sides."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import cast

from handtorch.baseline.fair import Plan
from handtorch.bench.cases import Wanted, cases_of, check_sides, sides_of
from handtorch.bench.compare import Compared, Setting, compare
from handtorch.bench.pythons import pythons_for
from handtorch.bench.rows import rows_of, software_of, verdicts_of
from handtorch.bench.sides import SideKind
from handtorch.errors import BadInput
from handtorch.record import Place, RunWriter, Verdict
from handtorch.runtime.opencl.discover import FoundDevice
from handtorch.runtime.opencl.setting import HOST, SelfTestState, setting_rows
from handtorch.selftest import verdict

ROUNDS, QUICK_ROUNDS = 9, 3
BLOCK_S, QUICK_BLOCK_S, MOST_S = 0.5, 0.1, 20.0


@dataclass(frozen=True)
class Request:
    """What was asked for. Without `sides` all that a case has; `peers` is a Python that has them;
    `warm` uses the caches there are instead of empty ones."""

    wanted: Wanted
    sides: tuple[str, ...] = ()
    peers: str | None = None
    rounds: int | None = None
    warm: bool = False


def run(request: Request, device: FoundDevice, record: RunWriter,
        progress: Callable[[str], None]) -> list[Verdict]:
    """All rows are in the record afterwards, those of a case as soon as it is done."""
    wanted, study = request.wanted, f"bench {request.wanted.bench}"
    check_sides(request.sides)
    cases = cases_of(wanted)
    kinds = {case: sides_of(wanted, case, request.sides) for case in cases}
    if not any(kinds.values()):
        raise BadInput(f"--sides {','.join(request.sides)}",
                       why=f"none of them does `bench {wanted.bench}`", fix="another side")
    every = {kind.name: kind for found in kinds.values() for kind in found}
    at = _setting(request, device, list(every.values()), progress)
    _record_setting(record, device, list(every.values()))
    found: list[Compared] = []
    for case in cases:
        found.append(compare(case, kinds[case], at))
        record.add(*rows_of(study, found[-1], at.plan is not None))
        record.flush()
    made = list(verdicts_of(study, found, at.plan is not None))
    record.add(*software_of(found, {kind.name: kind.says for kind in every.values()}), *made)
    return made


def _setting(request: Request, device: FoundDevice, kinds: Sequence[SideKind],
             progress: Callable[[str], None]) -> Setting:
    quick = request.wanted.quick
    rounds = request.rounds
    if rounds is None:
        rounds = QUICK_ROUNDS if quick else ROUNDS
    if rounds < 1:
        raise BadInput(f"--rounds {rounds}", why="every side has one turn or more")
    python, absent = pythons_for(kinds, request.peers)
    plan = None if request.wanted.bench == "memory" else Plan(
        rounds=rounds, block_s=QUICK_BLOCK_S if quick else BLOCK_S, most_s=MOST_S)
    return Setting(device.label, {"name": device.spec.name, "platform": device.spec.platform},
                   len(os.sched_getaffinity(0)), python, absent, plan, not request.warm, progress)


def _record_setting(record: RunWriter, device: FoundDevice, kinds: Sequence[SideKind]) -> None:
    """Machine, software and device; and every side as a place, where its figures are from."""
    rows = setting_rows(device, cast(SelfTestState, verdict(device, run=False).state))
    places = {row.name: row for row in rows if isinstance(row, Place)}
    record.add(*rows)
    for kind in kinds:
        of = places[device.label if kind.on_device else HOST]
        record.add(replace(of, name=kind.name))
