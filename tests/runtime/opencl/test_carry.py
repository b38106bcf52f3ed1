"""A step's compiled programs go into its file and come out on the same device, if vouched for."""

from __future__ import annotations

import shutil
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import handtorch as ht
from handtorch.api.load import load_inference
from handtorch.runtime.choose import open_executor
from handtorch.runtime.opencl.discover import FoundDevice
from handtorch.runtime.opencl.executor import OpenCLExecutor
from handtorch.store.ht_file import read_ht, write_ht
from handtorch.store.programs import ProgramsLeft

Saved = tuple[OpenCLExecutor, Path, list[float]]
X, Y = torch.randn(6, 5, generator=torch.Generator().manual_seed(0)), torch.tensor([0, 1, 2] * 2)


@pytest.fixture(scope="module")
def first(opencl_device: FoundDevice, tmp_path_factory: pytest.TempPathFactory) -> Saved:
    """A step saved after three steps, with its programs, and the losses of the next three."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.Tanh(), torch.nn.Linear(7, 3))
    step = ht.train_step(model, torch.nn.CrossEntropyLoss(),
                         torch.optim.SGD(model.parameters(), lr=0.1), example=(X, Y),
                         device=opencl_device.label)
    trained(step)
    path = tmp_path_factory.mktemp("carry") / "a.ht"
    step.save(path, programs=True)
    executor = step.session.executor
    assert isinstance(executor, OpenCLExecutor)
    return executor, path, trained(step)


@pytest.fixture
def saved(first: Saved, tmp_path: Path) -> Saved:
    """A copy for one test to change."""
    executor, path, want = first
    return executor, Path(shutil.copy(path, tmp_path / "a.ht")), want


def trained(step: Any) -> list[float]:
    return [float(step(X, Y)) for _ in range(3)]


def builds(executor: OpenCLExecutor, path: Path, **more: Any) -> tuple[dict[str, int], Any]:
    """Where the programs of a loaded step came from."""
    before = executor.builds.copy()
    step = ht.load(path, executor.found.label, **more)
    return dict(executor.builds - before), step


def test_a_file_brings_its_programs(saved: Saved) -> None:
    executor, path, want = saved
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        where, step = builds(executor, path)
    assert where == {"file": 1}
    assert trained(step) == want, "bit for bit"
    before = executor.builds.copy()
    scores = step.inference()(X)
    np.testing.assert_array_equal(load_inference(path, executor.found.label)(X).shape, scores.shape)
    assert dict(executor.builds - before) == {"file": 2}, "inference has its own"
    # They are kept where asked for, the same bits; and left out where not.
    step.save(path, programs=True)
    assert {b.source for b in read_ht(path).programs} == {
        b.source for b in step._carried} and len(step._carried) == 2
    step.save(path)
    assert read_ht(path).programs == ()
    assert "file" not in builds(executor, path)[0]


def test_programs_of_a_stranger_are_compiled_anew(
        saved: Saved, tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch) -> None:
    executor, path, want = saved
    (tmp_path / "another.key").write_bytes(bytes(32))
    (tmp_path / "another.key").chmod(0o600)
    monkeypatch.setenv("HANDTORCH_KEY", str(tmp_path / "another.key"))
    with pytest.warns(ProgramsLeft, match=r"2 compiled program\(s\) in the file are for this"):
        where, step = builds(executor, path)
    assert "file" not in where and sum(where.values()) == 1
    assert trained(step) == want
    where, step = builds(executor, path, trust_programs=True)
    assert where == {"file": 1}
    assert trained(step) == want


def test_programs_of_another_driver_or_text_are_carried_on_and_not_used(
        saved: Saved) -> None:
    executor, path, want = saved
    held = read_ht(path)
    old = tuple(replace(b, made_for={**b.made_for, "driver": "older"}) for b in held.programs)
    write_ht(path, replace(held, programs=old))
    where, step = builds(executor, path, trust_programs=True)
    assert "file" not in where
    assert trained(step) == want
    step.save(path, programs=True)                       # now it has those of two drivers
    assert read_ht(path).programs[:2] == old and len(read_ht(path).programs) == 4
    assert builds(executor, path)[0] == {"file": 1}
    other = tuple(replace(b, made_for={**b.made_for, "source_sha256": "0" * 64})
                  for b in held.programs)
    write_ht(path, replace(held, programs=other))
    assert "file" not in builds(executor, path, trust_programs=True)[0]


def test_a_trusted_binary_that_the_driver_refuses_is_compiled_anew(
        saved: Saved) -> None:
    executor, path, want = saved
    held = read_ht(path)
    write_ht(path, replace(held, programs=tuple(replace(b, binary=bytes(64))
                                                for b in held.programs)))
    where, step = builds(executor, path, trust_programs=True)
    assert "file" not in where and sum(where.values()) == 1
    assert trained(step) == want


def test_what_is_no_device_carries_programs_and_makes_none(
        saved: Saved) -> None:
    _, path, want = saved
    step = ht.load(path, "ref")
    assert not isinstance(open_executor("ref"), OpenCLExecutor)
    assert isinstance(step, ht.TrainStep)
    np.testing.assert_allclose(trained(step), want, rtol=1e-5)
    programs = read_ht(path).programs
    step.save(path, programs=True)
    assert read_ht(path).programs == programs
