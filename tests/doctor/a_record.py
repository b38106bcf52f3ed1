"""A record as the doctor writes it, small, for tests to change."""

from __future__ import annotations

from typing import Any


def figure(median: float | None, spread: float | None = 0.0, better: str = "higher",
           unit: str = "FLOP/s") -> dict[str, Any]:
    return {"median": median, "spread": spread, "repeats": 7, "unit": unit, "better": better,
            "reason": "" if median is not None else "too slow"}


def device(**change: Any) -> dict[str, Any]:
    return {"label": "pocl", "default": True, "embedded": False, "name": "pthread", "vendor": "v",
            "platform": "PoCL", "platform_version": "3.1", "device_version": "OpenCL 3.0",
            "opencl_c": "1.2", "driver": "3.1", "kind": "cpu",
            "limits": {"compute_units": 2, "global_bytes": 1 << 30, "fp16": False},
            "extensions": ["cl_khr_fp64"],
            "self_test": {"state": "passed", "cases": 12, "detail": []},
            "tuning": {"source": "none", "shapes": 0, "avoided": [], "avoided_count": 0},
            "benchmark": {"SGEMM 512": figure(120e9, 4e9),
                          "launch": figure(2000.0, 100.0, "lower", "ns")},
            "benchmark_reason": "", **change}


def record(*devices: dict[str, Any], **change: Any) -> dict[str, Any]:
    return {"format": "handtorch doctor", "version": 1, "made_utc": "2026-11-18",
            "machine": {"cpu_model": "AMD EPYC", "cores": 2}, "packages": {"torch": None},
            "devices": list(devices) or [device()], "sensors_simulated": False,
            "sensors": [{"meter": "procfs", "quantity": "cpu0_busy_s"}], "sensors_absent": [],
            **change}
