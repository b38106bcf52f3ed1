"""Memory safety: every case of every kernel under Oclgrind, with the limits of a phone.

Each value lies in a buffer of its own, so that an overrun cannot hide in a neighbour."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from math import prod
from pathlib import Path

import pytest

from handtorch.graph.step import Step
from handtorch.kernels.catalog import KERNELS, all_cases
from tests.kernels.oclgrind_sweep import FAULTS

ROOT = Path(__file__).resolve().parents[2]
PHONE = {"OCLGRIND_MAX_WGSIZE": "256", "OCLGRIND_LOCAL_MEM_SIZE": "32768"}
# Oclgrind 21.10 follows uninitialised values wrongly through the optimiser's shuffles: -O0. Even
# so it takes lanes 8 to 15 of a swizzle for uninitialised (unroll.h avoids them).
CHECKS = {
    "access": {"OCLGRIND_DATA_RACES": "1", "OCLGRIND_UNIFORM_WRITES": "1"},
    "uninitialised": {"OCLGRIND_UNINITIALIZED": "1", "OCLGRIND_BUILD_OPTIONS": "-O0"},
}
DROPPED = ("OCL_ICD_VENDORS", "POCL_CACHE_DIR", "OPENCL_VENDOR_PATH")


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


def run(program: str, folder: Path, check: str, *names: str) -> dict[str, Result]:
    """The cases' results by name; a case that ends the process counts and the rest goes on."""
    vendors = folder / "icd"
    vendors.mkdir(parents=True)
    (vendors / "oclgrind.icd").write_text(f"{icd_library(program)}\n")
    log = folder / "log"
    env = {k: v for k, v in os.environ.items() if k not in DROPPED} | PHONE | CHECKS[check] | {
        "OCL_ICD_VENDORS": str(vendors), "HANDTORCH_CACHE": str(folder / "cache"),
        "OCLGRIND_LOG": str(log), "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    wanted = list(names) or [c.name for c in all_cases()]
    results: dict[str, Result] = {}
    while left := [n for n in wanted if n not in results]:
        sweep = [sys.executable, str(ROOT / "tests/kernels/oclgrind_sweep.py"), str(log), *left]
        done = subprocess.run(sweep, env=env, capture_output=True, text=True, timeout=300)
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        assert lines and lines[0]["limits"] == {"work_group": 256, "local_bytes": 32768}, done
        results |= {r["case"]: Result(r["error"], r["report"]) for r in lines if "case" in r}
        if done.returncode != 0:
            last = lines[-1].get("starts", "")
            assert last, done.stderr
            results[last] = Result(0, f"exit code {done.returncode}: {done.stderr[-500:]}", True)
    return results


def swizzles_16(step: Step) -> bool:
    """gemm_dot folds 16 lanes by halves, which Oclgrind takes for uninitialised."""
    return step.kernel == "gemm_dot" and dict(step.defines)["V"] == 16


def followed() -> list[str]:
    """The cases whose uninitialised values Oclgrind can follow."""
    return [c.name for c in all_cases() if not any(map(swizzles_16, c.steps))]


def faults(results: dict[str, Result]) -> str:
    return "\n\n".join(f"{name}: {r.report or f'off by {r.error:.3g} tolerances'}"
                       for name, r in results.items() if r.report or r.crashed or r.error > 1)


def test_every_kernel_has_a_case_and_every_case_a_name() -> None:
    cases = list(all_cases())
    assert {s.kernel for c in cases for s in c.steps} == set(KERNELS)
    assert len({c.name for c in cases}) == len(cases)


def test_no_case_exceeds_a_phone() -> None:
    for step in (s for c in all_cases() for s in c.steps):
        assert prod(step.local_size) <= 256, step
        assert KERNELS[step.kernel].local_bytes(dict(step.defines)) <= 32768, step


def test_no_stray_access_no_race_and_right_numbers(oclgrind: str, tmp_path: Path) -> None:
    results = run(oclgrind, tmp_path, "access")
    assert results.keys() == {c.name for c in all_cases()}
    assert not faults(results), faults(results)


def test_nothing_uninitialised_is_used(oclgrind: str, tmp_path: Path) -> None:
    results = run(oclgrind, tmp_path, "uninitialised", *followed())
    assert len(results) > 0.9 * len(list(all_cases()))
    assert not faults(results), faults(results)


FOUND = {
    "reads behind": "Invalid read of size 4 at global memory address",
    "writes behind": "Invalid write of size 4 at global memory address",
    "reads before": "Invalid read of size 4 at global memory address",
    "global race": "Write-write data race at global memory address",
    "local race": "Read-write data race at local memory address",
    "uninitialised local": "Uninitialized value written to global memory address",
    "uninitialised private": "Uninitialized value written to global memory address",
    "nothing": "",
}


@pytest.fixture(scope="module")
def seen(oclgrind: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Result]]:
    names = [f"planted:{name}" for name in FAULTS]
    folder = tmp_path_factory.mktemp("planted")
    return {check: run(oclgrind, folder / check, check, *names) for check in CHECKS}


@pytest.mark.parametrize("name", FOUND)
def test_planted_faults_are_found(name: str, seen: dict[str, dict[str, Result]]) -> None:
    """The harness has teeth: though the numbers are right, each fault is reported by kernel."""
    check = "uninitialised" if name.startswith("uninitialised") else "access"
    result, expected = seen[check][f"planted:{name}"], FOUND[name]
    assert result.error <= 1 and not result.crashed
    assert result.report.startswith(expected) and bool(result.report) == bool(expected)
    assert not expected or "Kernel: planted_" in result.report


def test_a_crash_is_laid_to_its_case(seen: dict[str, dict[str, Result]]) -> None:
    for results in seen.values():
        (crashed,) = (name for name, result in results.items() if result.crashed)
        assert crashed == "planted:end of the process"
        assert results[crashed].report.startswith("exit code -6")
        assert f"{crashed}: exit code -6" in faults(results)
