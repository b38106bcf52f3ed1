"""The table of studies, and what a run says about where it ran."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from handtorch.errors import BadInput
from handtorch.graph.device_spec import GENERIC
from handtorch.record import Run, RunWriter, read_run
from handtorch.runtime.opencl.discover import FoundDevice
from handtorch.studies import STUDIES
from handtorch.studies import study as room


def recorded(path: Path, device: FoundDevice) -> Run:
    with RunWriter.create(path, "test") as record:
        room.record_setting(record, device)
    return read_run(path)


def test_every_study_of_the_table_asks_a_question_and_can_run() -> None:
    for name in STUDIES:
        found = room.study(name)
        assert found.QUESTION.endswith("?")
        assert callable(found.run)


def test_an_unknown_study_is_refused_with_the_list() -> None:
    with pytest.raises(BadInput) as refused:
        room.study("tea")
    listed = ", ".join(STUDIES)
    assert str(refused.value) == (f"no study 'tea': there is {listed}\n"
                                  "  try: `handtorch study --list`")


def test_a_gpu_shares_no_cores_with_the_host(tmp_path: Path) -> None:
    run = recorded(tmp_path / "a.htr", FoundDevice(GENERIC, "phone", 0, False, None))
    (device,), (first, host), (compared,) = run.devices, run.places, run.comparisons
    assert (device.name, device.kind, device.self_test) == ("generic", "gpu", "not run")
    assert (first.name, first.cores, first.cores_reason) == ("phone", None, "not a CPU")
    assert (host.name, host.kind) == (room.HOST, "host cpu")
    assert compared.same_silicon is False
    assert run.machine is not None
    assert run.machine.usable_cores == len((host.cores or "").split(","))


def test_a_cpu_device_is_the_same_silicon_as_the_host(tmp_path: Path) -> None:
    cpu = FoundDevice(replace(GENERIC, kind="cpu"), "pocl", 0, False, None)
    run = recorded(tmp_path / "a.htr", cpu)
    assert run.comparisons[0].same_silicon is True
    assert run.comparisons[0].same_silicon_reason == "the OpenCL device is this machine's CPU"
    assert run.places[0].cores == run.places[1].cores
    part = recorded(tmp_path / "b.htr", replace(cpu, sub="0-of-2"))
    assert part.places[0].name == "pocl/0-of-2"
    assert part.places[0].cores_reason == "the runtime does not say which cores a part has"
