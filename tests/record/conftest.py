"""One row of every table, all different from their defaults where the rules allow it."""

from __future__ import annotations

import pytest

from handtorch.record import (
    Clock,
    Comparison,
    Device,
    Energy,
    Gap,
    Launch,
    Machine,
    Memory,
    Missing,
    Place,
    Published,
    Result,
    Sample,
    Signal,
    Software,
    Step,
    Sync,
    Verdict,
)
from handtorch.record.row import Row


@pytest.fixture
def rows() -> dict[str, Row]:
    made: tuple[Row, ...] = (
        Machine(cpu_model=None, cpu_model_reason="the kernel does not say", architecture="aarch64",
                cores=8, usable_cores=4, memory_bytes=8 << 30, os="Linux 6.1", python="3.11.7"),
        Software(name="torch", version=None, version_reason="not installed"),
        Device(id=1, name="Adreno 640", vendor="QUALCOMM", platform="Snapdragon", driver="512.0",
               kind="gpu", compute_units=2, global_bytes=4 << 30, local_bytes=32768,
               largest_allocation_bytes=1 << 30, self_test="passed", facts='{"fp16": true}'),
        Place(name="gpu", kind="device", device=1, cores=None, cores_reason="not of the host"),
        Place(name="cpu", kind="host cpu", cores="4-7"),
        Comparison(first="gpu", second="cpu", same_silicon=False, same_silicon_reason="a GPU"),
        Clock(name="opencl 1", offset_ns=-5, error_ns=400, provenance="estimated"),
        Sync(clock="opencl 1", device_ns=40, monotonic_ns=35, error_ns=2, kind="timer",
             provenance="measured"),
        Step(id=7, place="gpu", subject="mlp b32", number=3, kind="train", clock="opencl 1",
             start_ns=100, end_ns=900, provenance="measured"),
        Launch(step=7, number=0, kernel="gemm", op="addmm", layer="fc1", phase="forward",
               source_line="train.py:41", clock="opencl 1", queued_ns=None, submit_ns=None,
               start_ns=120, end_ns=180, times_reason="no profiling queue", flops=2048,
               moved_bytes=512, provenance="measured", lane="queue 1", node="12",
               quality="bounded", error_ns=60),
        Gap(step=7, number=0, cause="launch", clock="opencl 1", start_ns=180, end_ns=900,
            provenance="measured"),
        Signal(meter="ina3221", quantity="gpu_power_w", kind="lowpass", part="gpu",
               parent="in_power_w", every_ns=10_000_000, span_ns=20_000_000, step=0.077,
               basis="documented", source="/sys/class/hwmon/hwmon2/curr1_input"),
        Sample(time_ns=130, clock="opencl 1", meter="ina3221", quantity="gpu_power_w", value=1.25,
               provenance="simulated", error_ns=9),
        Energy(place="gpu", subject="mlp b32", meter="ina3221", quantity="gpu_power_w", level="op",
               name="12 addmm", instances=20, seconds=0.4, readings=40, total_j=0.5, low_j=0.4,
               high_j=0.6, dynamic_j=None, dynamic_reason="it was never idle",
               how="least squares", provenance="measured"),
        Missing(source="sampler", why="it died", fix="", time_ns=140),
        Memory(place="gpu", subject="mlp b32", moment="launch", role="parameters", bytes=4096,
               provenance="estimated", launch=3),
        Result(study="sgemm", name="gflops", subject="naive", place="gpu", x_name="n", x_value=64,
               x_unit="rows", value=12.5, unit="GFLOPS", better="higher", repeats=500, spread=0.5,
               low=11.0, high=13.0, bounds="min to max", provenance="measured"),
        Result(study="sgemm", name="gflops", subject="torch", value=None, better="higher",
               value_reason="torch is not installed", unit="GFLOPS", repeats=0,
               provenance="measured"),
        Published(study="sgemm", name="gflops", subject="OnePlus 6", x_name="n", x_value=512,
                  value=40.0, unit="GFLOPS", source="Fig. 3"),
        Verdict(study="sgemm", question="Level with the CPU?", answer="It cannot be said.",
                holds=None, holds_reason="torch is not installed"),
    )
    names = [f"{row.TABLE}" for row in made]
    return {f"{n}{names[:i].count(n) or ''}": row
            for i, (n, row) in enumerate(zip(names, made, strict=True))}
