"""Memory safety: every case of every kernel under Oclgrind, with the least limits of any phone.

Each value lies in a buffer of its own, so that an overrun cannot hide in a neighbour. What single
phones get is in `test_oclgrind_phones.py`."""

from __future__ import annotations

from pathlib import Path

import pytest

from handtorch.kernels.catalog import KERNELS, all_cases
from tests.kernels.few import a_few
from tests.kernels.oclgrind_run import CHECKS, faults, run
from tests.kernels.phones import LEAST, over_limits


def test_every_kernel_has_a_case_and_every_case_a_name() -> None:
    cases = list(all_cases())
    assert {s.kernel for c in cases for s in c.steps} == set(KERNELS)
    assert len({c.name for c in cases}) == len(cases)


def test_no_case_exceeds_a_phone() -> None:
    assert (LEAST.max_work_group, LEAST.local_bytes) == (256, 32768)
    over = [over_limits(s, LEAST) for c in all_cases() for s in c.steps]
    assert not any(over), "\n".join(filter(None, over))


@pytest.mark.parametrize("check", CHECKS)
def test_a_few_of_every_kernel(oclgrind: str, tmp_path: Path, check: str) -> None:
    """All of them are in the slow tests."""
    results = run(oclgrind, tmp_path, check, [c.name for c in a_few()])
    assert not faults(results), faults(results)


@pytest.mark.slow
def test_no_stray_access_no_race_and_right_numbers(oclgrind: str, tmp_path: Path) -> None:
    names = [c.name for c in all_cases()]
    results = run(oclgrind, tmp_path, "access", names)
    assert results.keys() == set(names)
    assert not faults(results), faults(results)


@pytest.mark.slow
def test_nothing_uninitialised_is_used(oclgrind: str, tmp_path: Path) -> None:
    cases = list(all_cases())
    results = run(oclgrind, tmp_path, "uninitialised", [c.name for c in cases])
    assert len(results) > 0.9 * len(cases)
    assert not faults(results), faults(results)
