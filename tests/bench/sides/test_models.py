"""Every side that runs models gives torch's numbers, and says so where it is not there.

One file for all of them: they do the same, each in its own way, and are checked alike."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from handtorch.bench.case import EXPECTED, Asked, Case, read_calls
from handtorch.bench.outcome import checked
from handtorch.bench.prepare import prepare
from handtorch.bench.side import CannotRun, Make
from handtorch.bench.sides import SIDES
from handtorch.runtime.opencl.discover import FoundDevice

pytestmark = pytest.mark.spread


@pytest.fixture(scope="module", params=["train", "infer"])
def prepared(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
             ) -> Iterator[Asked]:
    """The narrow SqueezeNet, with its folder filled."""
    folder = tmp_path_factory.mktemp("case")
    asked = Asked(Case(request.param, "SqueezeNet1_1", 2, small=True), folder, "", 1)
    prepare(asked)
    yield asked


def maker(asked: Asked, name: str) -> Make:
    """The side's `make`; what is to be ready before it is."""
    kind = SIDES[asked.case.task].get(name)
    if kind is None:
        pytest.skip(f"{name} does not {asked.case.task}")
    for module in kind.needs:
        pytest.importorskip(module)
    module = importlib.import_module(kind.module)
    if hasattr(module, "ready"):
        module.ready(asked)
    made: Make = module.make
    return made


@pytest.mark.parametrize("name", ["handtorch", "handtorch-ht", "torch", "torch-1", "onnxruntime",
                                  "tinygrad", "mnn"])
def test_first_results_are_torchs(prepared: Asked, name: str, opencl_device: FoundDevice) -> None:
    spec, kind = opencl_device.spec, SIDES[prepared.case.task].get(name)
    asked = Asked(prepared.case, prepared.folder, opencl_device.label, 1,
                  {"name": spec.name, "platform": spec.platform},
                  {} if kind is None else kind.options)
    subject = maker(asked, name)(asked)
    expected = read_calls(prepared.folder / EXPECTED)
    found = [tuple(np.asarray(x) for x in subject.once(i)) for i in range(3)]
    assert checked(asked.case, found, expected)[1] == ""
    assert " " in subject.version
    subject.run(3)                                      # goes on, and comes to an end
    (again,) = [tuple(np.asarray(x) for x in subject.once(0))]
    if asked.case.task == "infer":
        assert checked(asked.case, [again], expected[:1])[1] == ""
    else:
        assert again != found[0]                        # it has been trained meanwhile


@pytest.mark.slow
def test_inductor_too(prepared: Asked, opencl_device: FoundDevice) -> None:
    test_first_results_are_torchs(prepared, "inductor", opencl_device)


@pytest.mark.parametrize("name", ["tinygrad", "mnn"])
def test_what_is_no_list_of_layers_is_not_run(tmp_path: Path, name: str,
                                              opencl_device: FoundDevice) -> None:
    spec = opencl_device.spec
    asked = Asked(Case("infer", "HarLSTM", 1), tmp_path, opencl_device.label, 1,
                  {"name": spec.name, "platform": spec.platform})
    make = maker(asked, name)
    prepare(asked)
    with pytest.raises(CannotRun, match="it has a layer LSTM"):
        make(asked)
