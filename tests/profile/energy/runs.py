"""A small run made by hand: three steps of 10 ms with two operations each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

from handtorch.record import Clock, Device, Launch, Place, Run, RunInfo, Sample, Step

MS = 1_000_000
PLACE, SUBJECT = "here", "net b8"


def launch(step: int, number: int, op: str, start_ms: int, end_ms: int, **more: Any) -> Launch:
    at = 10 * step
    given = {"layer": "fc", "phase": "forward", "flops": 0, "moved_bytes": 1000,
             "node": str(number), "queued_ns": 0, "submit_ns": 0} | more
    return Launch(step=step, number=number, kernel=op, op=op, clock="host", provenance="measured",
                  start_ns=(at + start_ms) * MS, end_ns=(at + end_ms) * MS, **given)


def run(kind: Literal["gpu", "cpu"] = "gpu", cores: float | None = 1.5) -> Run:
    """In each step 4 ms of `addmm` forward, 2 ms of `relu` backward, and 4 ms of nothing; the
    process used `cores` cores."""
    device = Device(id=1, name="d", vendor="v", platform="p", driver="1", kind=kind,
                    compute_units=2, global_bytes=1, local_bytes=1, largest_allocation_bytes=1,
                    self_test="passed", facts="{}")
    steps = tuple(Step(id=i, place=PLACE, subject=SUBJECT, number=i + 3, kind="training",
                       clock="host", start_ns=10 * MS * i, end_ns=10 * MS * (i + 1),
                       provenance="measured") for i in range(3))
    launches = [la for i in range(3) for la in (
        launch(i, 0, "addmm", 1, 5), launch(i, 1, "relu", 5, 7, layer="", phase="backward"),
        launch(i, 2, "enqueue", 0, 9, lane="host", queued_ns=None, submit_ns=None,
               times_reason="no queue", flops=None, moved_bytes=None, work_reason="no rule"))]
    samples = () if cores is None else tuple(
        Sample(time_ns=s.end_ns, clock="host", meter="process", quantity="process_cpu_s",
               value=cores * s.end_ns / 1e9, provenance="measured") for s in steps)
    place = Place(name=PLACE, kind="device", device=1, cores=None, cores_reason="all")
    return Run(info=RunInfo(id="1", command="x", started_utc="2026-01-01T00:00:00+00:00",
                            duration_ns=1, status="complete"),
               devices=(device,), places=(place,), steps=steps, launches=tuple(launches),
               samples=samples,
               clocks=(Clock(name="host", offset_ns=0, error_ns=0, provenance="measured"),))


def on_host_cpu(given: Run) -> Run:
    """The same without an OpenCL device, as torch runs it."""
    place = Place(name=PLACE, kind="host cpu", cores=None, cores_reason="all")
    return replace(given, devices=(), places=(place,))
