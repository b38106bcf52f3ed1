"""A small profiled run: two steps of one model, overlapping launches, gaps, memory, a meter."""

from __future__ import annotations

from handtorch.record import Clock, Device, Gap, Launch, Memory, Place, Run, RunInfo, Sample, Step

T0 = 5_000_000_000_000
CLOCK = "CLOCK_MONOTONIC"


def launch(step: int, number: int, kernel: str, start: int, end: int, *, clock: str = CLOCK,
           lane: str = "queue", phase: str = "forward", layer: str = "fc1") -> Launch:
    """Of step 1 a millisecond later than of step 0."""
    return Launch(step=step, number=number, kernel=kernel, op="matmul", layer=layer, phase=phase,
                  source_line="train.py:41  p = \"é\"", clock=clock, queued_ns=T0, submit_ns=T0,
                  start_ns=T0 + 1_000_000 * step + start, end_ns=T0 + 1_000_000 * step + end,
                  flops=2000, moved_bytes=0, provenance="measured", lane=lane, node=str(number))


def profiled_run() -> Run:
    steps, launches, gaps = [], [], []
    for i in range(2):
        at = T0 + 1_000_000 * i
        steps.append(Step(id=i, place="gpu", subject="mlp b32", number=i, kind="training",
                          clock=CLOCK, start_ns=at, end_ns=at + 1_000_000, provenance="measured"))
        launches += [launch(i, 0, "gemm", 1_000, 400_000),
                     launch(i, 1, "gemm", 400_000, 700_000, phase="backward"),
                     launch(i, 2, "sgd", 600_001, 900_000, phase="optimizer"),
                     launch(i, 3, "wait", 500_000, 1_000_000, lane="host", phase="host", layer="")]
        gaps += [Gap(step=i, number=0, cause="input", clock=CLOCK, start_ns=at,
                     end_ns=at + 1_000, provenance="measured"),
                 Gap(step=i, number=1, cause="wake", clock=CLOCK, start_ns=at + 900_000,
                     end_ns=at + 1_000_000, provenance="measured")]
    lost = launch(1, 4, "lost", 1, 2, clock="gpu clock")
    memory = [Memory(place="gpu", subject="mlp b32", moment="launch", role=role, bytes=size,
                     launch=number, provenance="measured")
              for role, number, size in (("gradients", 0, 0), ("parameters", 0, 4096),
                                         ("gradients", 1, 1 << 40))]
    return Run(
        info=RunInfo(id="1", command="handtorch profile \u2028 mlp", duration_ns=1,
                     started_utc="2026-01-02T03:04:05.678Z", status="complete"),
        devices=(Device(id=0, name="Adreno", vendor="Q", platform="P", driver="1", kind="gpu",
                        compute_units=2, global_bytes=1, local_bytes=1, largest_allocation_bytes=1,
                        self_test="passed"),),
        places=(Place(name="gpu", kind="device", device=0, cores=None, cores_reason="a GPU"),),
        clocks=(Clock(name=CLOCK, offset_ns=0, error_ns=0, provenance="measured"),
                Clock(name="gpu clock", offset_ns=None, error_ns=None,
                      offset_reason="no timer", provenance="measured")),
        steps=tuple(steps), launches=(*launches, lost), gaps=tuple(gaps), memory=tuple(memory),
        samples=tuple(Sample(time_ns=T0 + 10 * i, clock=CLOCK, meter="process",
                             quantity="process_cpu_s", value=0.25 * i, provenance="measured")
                      for i in range(3)))
