"""Memory safety on three phones: their limits, and the launches that lowering chooses for them.

    python tests/kernels/test_oclgrind_phones.py     runs everything and says how much that was
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from dataclasses import replace
from functools import cache
from itertools import islice, product
from pathlib import Path

import pytest

from handtorch.graph.device_spec import DeviceSpec
from handtorch.graph.node import Value
from handtorch.graph.step import Step
from handtorch.kernels.bmm import bmm_steps
from handtorch.kernels.case import Case
from handtorch.kernels.catalog import all_cases
from handtorch.kernels.conv_cases import scratch
from handtorch.kernels.conv_launches import Launches
from handtorch.kernels.conv_shapes import Conv
from handtorch.kernels.gemm_specs import TILED
from handtorch.kernels.gemm_tiles import Product, table_variant, tuning_for
from tests.kernels.oclgrind_run import CHECKS, Result, faults, run
from tests.kernels.oclgrind_sweep import FAULTS, ONE_MORE
from tests.kernels.phone_cases import FAMILIES, phone_cases
from tests.kernels.phones import PHONES, over_limits

MOST_S = 1500                       # of one sweep; a minute or two here
QUICK = 3                           # cases of a family
each_phone = pytest.mark.parametrize("phone", PHONES)


def names_for(phone: str) -> list[str]:
    """All of a phone's cases. Those for every device are launched alike everywhere, and
    `test_oclgrind.py` has them within limits that are less than any phone's."""
    return [c.name for c in chosen(phone)]


def quick_names(phone: str) -> list[str]:
    """A few of each family."""
    return [c.name for family in FAMILIES.values()
            for c in islice(family(PHONES[phone]), QUICK)]


@each_phone
def test_a_few_of_each_family(oclgrind: str, tmp_path: Path, phone: str) -> None:
    """All of them, and the uninitialised values, are in the slow tests."""
    results = run(oclgrind, tmp_path, "access", quick_names(phone), phone)
    assert not faults(results), faults(results)


@pytest.mark.slow
@each_phone
@pytest.mark.parametrize("check", CHECKS)
def test_oclgrind_finds_nothing(oclgrind: str, tmp_path: Path, phone: str, check: str) -> None:
    names = names_for(phone)
    results = run(oclgrind, tmp_path, check, names, phone, MOST_S)
    assert results.keys() == set(names) and len(names) > 400
    assert not faults(results), faults(results)


@cache
def chosen(phone: str) -> tuple[Case, ...]:
    return tuple(phone_cases(PHONES[phone]))


@each_phone
def test_launches_chosen_for_a_phone_keep_to_its_limits(phone: str) -> None:
    cases, spec = [*chosen(phone), *all_cases()], PHONES[phone]
    assert len({c.name for c in cases}) == len(cases)
    over = [over_limits(s, spec) for c in cases for s in c.steps]
    assert not any(over), "\n".join(filter(None, over))


@each_phone
@pytest.mark.parametrize("kernel", ["gemm_register", "bmm", "conv_tile", "conv_weight"])
def test_the_tiles_are_the_phones_and_none_is_forgotten(phone: str, kernel: str) -> None:
    """No tile but from the phone's table; every tile that some shape gets has a case."""
    spec = PHONES[phone]
    tuning = tuning_for(spec)
    assert tuning.match and tuning.kinds == ("gpu",)
    table = {tuple(dict(t.defines)[k] for k in TILE) for t in tuning.tiles}
    tiles = {size_of(s) for c in chosen(phone) for s in c.steps if s.kernel == kernel
             and not c.name.startswith("tuned ") and not dict(s.defines).get("DOT")}
    assert wanted(kernel, spec) <= tiles <= table
    assert kernel != "gemm_register" or tiles == table


TILE = ("R", "NV", "V", "WGX", "WGY")


def size_of(step: Step) -> tuple[int | str, ...]:
    return tuple(dict(step.defines)[k] for k in TILE)


def wanted(kernel: str, spec: DeviceSpec) -> set[tuple[int | str, ...]]:
    """The tiles that shapes from 1 to a million get."""
    sizes = [1, 3, 10, 33, 100, 330, 1000, 4000]
    found = set()
    for rows, columns in product((*sizes, 30_000, 1_000_000), sizes):
        does = Launches(Conv(1, 1, rows, columns, (1, 1), (1, 1), (1, 1), (1, 1), (0, 0), (1, 1)),
                        spec, scratch())
        values = [Value(i, s) for i, s in enumerate(((1, 1, 1, rows), (1, 1, rows, columns),
                                                     (1, 1, 1, columns)))]
        if kernel == "conv_weight" and rows <= 4000:
            found.add(size_of(does.grad_weight(values[2], values[0], values[1])[0]))
        if kernel == "conv_tile":
            wide = replace(does, conv=replace(does.conv, n=rows, inner=1))
            x, w, y = (Value(i, s) for i, s in enumerate((
                (rows, 1, 1, 1), (1, 1, 1, columns), (rows, 1, 1, columns))))
            found.add(size_of(wide.forward(x, w, y)[-1]))
        if kernel == "bmm":
            a, b, c = (Value(i, (1, *s)) for i, s in enumerate((
                (rows, 1), (1, columns), (rows, columns))))
            found.add(size_of(bmm_steps(a, b, c, ta=False, tb=False, spec=spec,
                                        new_value=lambda shape: Value(3, shape))[-1]))
        if kernel == "gemm_register":
            variant = dict(table_variant(Product(rows, columns, 1), spec).defines)
            found.add(tuple(variant[k] for k in TILE))
    return found


def test_over_limits_tells_what_and_by_how_much() -> None:
    spec = replace(PHONES["adreno650"], max_work_group=4, max_work_items=(2, 1, 4), local_bytes=100,
                   max_parameter_bytes=20, largest_allocation_bytes=60)
    value = Value(0, (4, 4))
    step = TILED.step([value, Value(1, (4, 4)), Value(2, (4, 4))], {"M": 4, "N": 4, "K": 4},
                      {"TS": 8})
    assert over_limits(step, PHONES["adreno650"]) == ""
    assert over_limits(replace(step, global_size=(8, 9)), spec) == (
        "gemm_tiled: 64 items, not 4; 8 items on axis 0, not 2; 8 items on axis 1, not 1; "
        "512 B of local memory, not 100; 48 B of arguments, not 20; "
        "64 B in one allocation, not 60; (8, 9) items in groups of (8, 8)")


SHEETS = {"adreno650": "adreno650_clinfo.txt",
          "adreno730": "adreno730_snapdragon_8plus_gen1_clgetinfo.txt",
          "mali-g610": "mali_g610_rk3588s_and_pocl_cortex_a55_clinfo.txt"}


@each_phone
def test_the_facts_are_those_of_the_published_clinfo(shared: Path, phone: str) -> None:
    told = DeviceSpec.from_clinfo((shared / "data/clinfo" / SHEETS[phone]).read_text())
    left_out = ("platform_version", "driver", "extensions", "assumed")
    facts, ours = told.to_dict(), PHONES[phone].to_dict()
    assert {k: ours[k] for k in ours if k not in left_out} == {
        k: facts[k] for k in facts if k not in left_out}


REFUSED = ("too many items", "too much local memory")
FOUND = {
    "reads behind": "Invalid read of size 4 at global memory address",
    "writes behind": "Invalid write of size 4 at global memory address",
    "reads before": "Invalid read of size 4 at global memory address",
    "global race": "Write-write data race at global memory address",
    "local race": "Read-write data race at local memory address",
    "uninitialised local": "Uninitialized value written to global memory address",
    "uninitialised private": "Uninitialized value written to global memory address",
    "too many items": "kernel planted: a work-group of 2048 items, Oclgrind Simulator allows 1024",
    "too much local memory": "clEnqueueNDRangeKernel failed: OUT_OF_RESOURCES",
    "nothing": "",
}
Seen = dict[str, dict[str, Result]]


@pytest.fixture(scope="module", params=PHONES)
def seen(request: pytest.FixtureRequest, oclgrind: str,
         tmp_path_factory: pytest.TempPathFactory) -> Seen:
    folder = tmp_path_factory.mktemp("planted")
    names = {"access": [*FAULTS, *(f"one more {name}" for name in ONE_MORE)],
             "uninitialised": [*FAULTS]}
    return {check: run(oclgrind, folder / check, check, [f"planted:{n}" for n in names[check]],
                       request.param) for check in CHECKS}


@pytest.mark.parametrize("name", FOUND)
def test_planted_faults_are_found(name: str, seen: Seen) -> None:
    """The harness has teeth: though the numbers are right, each fault is reported by kernel."""
    check = "uninitialised" if name.startswith("uninitialised") else "access"
    result, expected = seen[check][f"planted:{name}"], FOUND[name]
    assert (result.error <= 1) == (name not in REFUSED) and not result.crashed
    assert result.report.startswith(expected) and bool(result.report) == bool(expected)
    assert not expected or name in REFUSED or "Kernel: planted_" in result.report


@pytest.mark.parametrize("kernel", ONE_MORE)
def test_a_wrong_size_is_found_in_the_phones_own_tiles(kernel: str, seen: Seen) -> None:
    report = seen["access"][f"planted:one more {kernel}"].report
    assert report.startswith("Invalid ") and f"Kernel: {kernel}_" in report


def test_a_crash_is_laid_to_its_case(seen: Seen) -> None:
    for results in seen.values():
        (crashed,) = (name for name, result in results.items() if result.crashed)
        assert crashed == "planted:end of the process"
        assert results[crashed].report.startswith("exit code -6")
        assert f"{crashed}: exit code -6" in faults(results)


def main() -> int:
    """A line for each sweep; exit code 1 if anything was found."""
    program, wrong = shutil.which("oclgrind"), 0
    assert program, "oclgrind is not installed"
    for phone in PHONES:
        cases = chosen(phone)
        for check in CHECKS:
            names, start_ns = set(names_for(phone)), time.monotonic_ns()
            with tempfile.TemporaryDirectory() as folder:
                results = run(program, Path(folder) / "run", check, sorted(names), phone, MOST_S)
            steps = [s for c in cases if c.name in names for s in c.steps]
            print(f"{phone} {check}: {len({s.kernel for s in steps})} kernels in "
                  f"{len({(s.kernel, s.defines) for s in steps})} instances, {len(results)} cases, "
                  f"{len(steps)} launches, {(time.monotonic_ns() - start_ns) / 1e9:.0f} s; "
                  f"found: {faults(results) or 'nothing'}", flush=True)
            wrong += bool(faults(results))
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
