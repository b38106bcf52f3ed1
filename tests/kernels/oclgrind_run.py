"""Oclgrind as a tool of tests: cases in, what it found out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from handtorch.graph.device_spec import DeviceSpec
from tests.kernels.phones import LEAST, PHONES

ROOT = Path(__file__).resolve().parents[2]
# Oclgrind 21.10 follows uninitialised values wrongly through the optimiser's shuffles: -O0. Even
# so it takes lanes 8 to 15 of a swizzle for uninitialised (unroll.h avoids them).
CHECKS = {
    "access": {"OCLGRIND_DATA_RACES": "1", "OCLGRIND_UNIFORM_WRITES": "1"},
    "uninitialised": {"OCLGRIND_UNINITIALIZED": "1", "OCLGRIND_BUILD_OPTIONS": "-O0"},
}
DROPPED = ("OCL_ICD_VENDORS", "POCL_CACHE_DIR", "OPENCL_VENDOR_PATH")
ANY = "any"                                     # in place of a phone's name
MOST_SETTING = (1 << 31) - 1                    # Oclgrind reads its settings as int


@dataclass(frozen=True)
class Result:
    error: float
    report: str
    crashed: bool = False


def icd_library(program: str) -> Path:
    """The runtime library that belongs to the `oclgrind` program."""
    prefix = Path(program).resolve().parents[1]
    found = sorted(prefix.glob("lib*/**/liboclgrind-rt-icd.so"))
    assert found, f"no liboclgrind-rt-icd.so below {prefix}"
    return found[0]


def limits(spec: DeviceSpec) -> dict[str, int]:
    """What Oclgrind can be told of a device, by the name of its setting."""
    return {"OCLGRIND_MAX_WGSIZE": spec.max_work_group,
            "OCLGRIND_LOCAL_MEM_SIZE": spec.local_bytes,
            "OCLGRIND_CONSTANT_MEM_SIZE": min(spec.constant_bytes, MOST_SETTING)}


def run(program: str, folder: Path, check: str, names: Sequence[str], phone: str = ANY,
        timeout_s: int = 300) -> dict[str, Result]:
    """The cases' results by name; a case that ends the process counts and the rest goes on.

    `phone` decides the limits, and for which device launches are chosen."""
    vendors = folder / "icd"
    vendors.mkdir(parents=True)
    (vendors / "oclgrind.icd").write_text(f"{icd_library(program)}\n")
    # MAX_ERRORS: it falls silent after 1000 messages, and the cases after these would seem right.
    log, told = folder / "log", limits(PHONES.get(phone, LEAST))
    env = {k: v for k, v in os.environ.items() if k not in DROPPED} | CHECKS[check] | {
        **{k: str(v) for k, v in told.items()}, "OCLGRIND_MAX_ERRORS": str(MOST_SETTING),
        "OCL_ICD_VENDORS": str(vendors), "HANDTORCH_CACHE": str(folder / "cache"),
        "OCLGRIND_LOG": str(log), "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    results: dict[str, Result] = {}
    while left := [n for n in names if n not in results]:
        sweep = [sys.executable, str(ROOT / "tests/kernels/oclgrind_sweep.py"), str(log), phone,
                 *left]
        done = subprocess.run(sweep, env=env, capture_output=True, text=True, timeout=timeout_s)
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        assert lines, done.stderr
        assert lines[0]["limits"] == list(told.values()), lines[0]
        results |= {r["case"]: Result(r["error"], r["report"]) for r in lines if "case" in r}
        if done.returncode != 0:
            last = lines[-1].get("starts", "")
            assert last, done.stderr
            results[last] = Result(0, f"exit code {done.returncode}: {done.stderr[-500:]}", True)
        else:
            assert results.keys() >= set(left), set(left) - results.keys()
    return results


def faults(results: dict[str, Result]) -> str:
    return "\n\n".join(f"{name}: {r.report or f'off by {r.error:.3g} tolerances'}"
                       for name, r in results.items() if r.report or r.crashed or r.error > 1)
