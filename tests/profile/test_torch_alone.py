"""Torch's steps in a process of its own, and what of them goes into the run of a device."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from handtorch.bench.process import SideProcess
from handtorch.knobs import environment_for_child
from handtorch.profile import torch_alone
from handtorch.profile.torch_alone import TorchAlone, rows_beside
from handtorch.profile.torch_side import TorchProfile
from handtorch.record import Run, Sample, Signal, read_run
from handtorch.zoo.registry import MODELS
from tests.profile.energy.runs import run as device_run

MAKE: dict[str, Any] = {"model": "Model1", "form": "", "batch": 4, "warm_up": 1}


def record(file: Path, **more: Any) -> dict[str, Any]:
    return {"name": "Model1 b4", "steps": 2, "first_id": 7, "sensors": False, "file": str(file),
            **more}


def here() -> Run:
    entry = MODELS["Model1"]
    model = entry.make()
    call, batch = entry.step(model, entry.optimizers(model)), entry.batch(4)
    call(*batch)                # the optimizer's first step is another
    with TorchProfile(call, "Model1 b4") as taken:
        taken(*batch)
        taken(*batch)
    return taken.run


def test_another_process_records_the_operations_that_this_one_would(tmp_path: Path) -> None:
    file = tmp_path / "torch.htr"
    with SideProcess("torch", [sys.executable, "-m", torch_alone.__name__],
                     environment_for_child(), tmp_path / "log") as child:
        assert child.ask("make", **MAKE)["step_s"] > 0
        assert child.ask("record", **record(file)) == {"steps": 2}
    alone, want = read_run(file), here()
    assert [(s.id, s.number, s.subject) for s in alone.steps] == [
        (7, 0, "Model1 b4"), (8, 1, "Model1 b4")]
    assert {la.phase for la in alone.launches} == {"forward", "backward", "optimizer"}
    said = [[(la.step - run.steps[0].id, la.kernel, la.layer, la.phase, la.flops, la.moved_bytes)
             for la in run.launches] for run in (alone, want)]
    assert said[0] == said[1]


def test_no_driver_is_loaded_beside_torch() -> None:
    program = (f"import sys, {torch_alone.__name__}, handtorch.zoo.registry\n"
               "print('torch' in sys.modules, 'pyopencl' in sys.modules)")
    done = subprocess.run([sys.executable, "-c", program], text=True, capture_output=True,
                          check=True, env=environment_for_child())
    assert done.stdout == "True False\n"


@pytest.mark.parametrize(("wrong", "said"), [
    ({"form": "round"}, "Model1 in form 'round': it has "),
    ({"batch": 10**12}, "there was not enough memory for it"),
])
def test_a_refusal_is_an_answer(monkeypatch: pytest.MonkeyPatch, wrong: dict[str, Any],
                                said: str) -> None:
    def none_left(*_: Any) -> None:
        raise MemoryError

    if "batch" in wrong:        # torch has another error for it on some machines
        monkeypatch.setitem(MODELS, "Model1", replace(MODELS["Model1"], data=none_left))
    told = TorchAlone().asked({"do": "make", **MAKE, **wrong})
    assert told["error"].startswith(said)


def signal(meter: str, quantity: str) -> Signal:
    return Signal(meter=meter, quantity=quantity, kind="counter", part="cpu", every_ns=1)


def sample(meter: str, quantity: str, value: float) -> Sample:
    return Sample(time_ns=1, clock="host", meter=meter, quantity=quantity, value=value,
                  provenance="measured")


def test_readings_of_the_machine_go_on_and_those_of_the_process_are_its_own() -> None:
    """The sampler of torch's process may have found a sensor that ours has not."""
    both = ("procfs", "cpu0_busy_s"), ("threads", "process_busy_s")
    run = replace(device_run(), signals=tuple(signal(*s) for s in both))
    alone = replace(device_run(), signals=(*run.signals, signal("hwmon", "fan_w")),
                    samples=(sample(*both[0], 50.0), sample(*both[1], 2.0),
                             sample("hwmon", "fan_w", 1.0)))
    found = list(rows_beside(alone, run))
    assert [r for r in found if isinstance(r, Signal)] == [
        signal("threads of torch", "process_busy_s")]
    assert [(r.meter, r.quantity, r.value) for r in found if isinstance(r, Sample)] == [
        ("procfs", "cpu0_busy_s", 50.0), ("threads of torch", "process_busy_s", 2.0)]
