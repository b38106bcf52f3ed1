"""What was tuned reaches the launches of a program: from the user's cache, or as shipped."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import handtorch as ht
from handtorch import pipeline
from handtorch.capture.step import capture_user_step
from handtorch.graph.device_spec import GENERIC
from handtorch.graph.node import Graph
from handtorch.kernels.gemm_tiles import Product, table_variant
from handtorch.kernels.results import as_problem
from handtorch.kernels.variant import Variant, as_variant, built_by
from handtorch.pipeline import TunedWarning, finished, prepared, tuned_file, with_tuned
from handtorch.runtime.opencl.discover import FoundDevice
from handtorch.tune.contained import problems_in
from handtorch.tune.store import Results, Trial

pytestmark = pytest.mark.spread

FORWARD = Product(16, 32, 24, tb=True)
UNUSUAL = as_variant("packed KU2 NV3 R5 V4 WGX2 WGY1")
X, Y = torch.randn(16, 24, generator=torch.Generator().manual_seed(1)), torch.arange(16)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HANDTORCH_CACHE", str(tmp_path / "cache"))


def keep(device: FoundDevice, product: Product = FORWARD, variant: Variant = UNUSUAL) -> Results:
    results = Results(tuned_file(device.spec), device.spec)
    results.choose(product, variant)
    results.save()
    return results


def trained(device: FoundDevice) -> tuple[ht.TrainStep, list[float], Any]:
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(24, 32))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    step = ht.train_step(model, nn.CrossEntropyLoss(), optimizer, example=(X, Y),
                         device=device.label)
    losses = [float(step(X, Y)) for _ in range(3)]
    step.sync_to(model)
    return step, losses, model[0].weight.detach().numpy()


def macros(step: ht.TrainStep) -> list[dict[str, Any]]:
    return [dict(s.defines) for s in step.program.steps if s.kernel == "gemm_register"]


def test_a_training_step_uses_what_was_tuned_and_gives_the_same_numbers(
        opencl_device: FoundDevice) -> None:
    assert table_variant(FORWARD, opencl_device.spec) != UNUSUAL
    plain, losses, weight = trained(opencl_device)
    assert not any(m["R"] == 5 for m in macros(plain))
    keep(opencl_device)
    step, tuned_losses, tuned_weight = trained(opencl_device)
    (found,) = [m for m in macros(step) if m["R"] == 5]
    assert {k: found[k] for k, _ in UNUSUAL.defines} == dict(UNUSUAL.defines)
    assert [s.kernel for s in step.program.steps].count("pack_b") == 1
    assert step.program.hash != plain.program.hash
    again, *_ = trained(opencl_device)
    assert again.program.hash == step.program.hash
    np.testing.assert_allclose(tuned_losses, losses, rtol=1e-5)
    np.testing.assert_allclose(tuned_weight, weight, atol=1e-6)


def small_net() -> Graph:
    """Three passes of a convolution (no gradient of the first one's input), a batch of products."""
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Conv2d(3, 8, 3, padding=1)
            self.second = nn.Conv2d(8, 16, 3, padding=1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.second(self.first(x)).flatten(2)
            return (y @ y.transpose(1, 2)).flatten(1)
    torch.manual_seed(0)
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss
    batch = torch.randn(4, 3, 6, 6), torch.arange(4)
    return prepared(capture_user_step(step, [model], [optimizer], batch).graph)


def test_results_change_a_program_through_the_spec_alone(opencl_device: FoundDevice) -> None:
    """Of every family; with the same results in the spec the file is not asked."""
    graph, spec = small_net(), opencl_device.spec
    unusual = {"conv 4x6x6x8 16 3x3 p1x1": "conv_packed IMAGES_FIRST1 NV1 R5 V8 WGX2 WGY1",
               "conv_grad_input 4x6x6x8 16 3x3 p1x1": "conv_dot IMAGES_FIRST0 NV2 R3 V8 WGX1 WGY1",
               "conv_grad_weight 4x6x6x8 16 3x3 p1x1":
                   "conv_weight CHUNK7 ITEMS99 NV1 R3 SOME0 V4 WGX1 WGY1",
               "bmm 4x16x16x36 nt": "bmm_turned NV1 R7 V4 WGX1 WGY1"}
    contained = set(map(str, problems_in([graph])))
    assert unusual.keys() <= contained
    plain = finished(graph, spec)
    results = Results(tuned_file(spec), spec)
    for problem, variant in unusual.items():
        results.choose(as_problem(problem), as_variant(variant))
    results.save()
    from_file = finished(graph, spec)
    results.path.unlink()
    assert finished(graph, spec).hash == plain.hash != from_file.hash
    assert finished(graph, results.spec).hash == from_file.hash
    built = {b for step in from_file.steps for b in built_by(step)}
    assert {as_variant(v).built for v in unusual.values()} <= built
    assert not {as_variant(v).built for v in unusual.values()} & {
        b for step in plain.steps for b in built_by(step)}
    failed = replace(results.spec, avoid=tuple(as_variant(v).built for v in unusual.values()))
    assert finished(graph, failed).hash == plain.hash


def test_what_failed_is_not_used_though_nothing_was_tuned(opencl_device: FoundDevice) -> None:
    first = table_variant(FORWARD, opencl_device.spec)
    results = Results(tuned_file(opencl_device.spec), opencl_device.spec)
    results.add(Product(5, 5, 5), first, Trial("crashed", "its process ended with SIGSEGV"))
    results.save()
    spec = with_tuned(opencl_device.spec)
    assert spec.avoid == (str(first),) and table_variant(FORWARD, spec) != first


def test_another_driver_has_results_of_its_own(opencl_device: FoundDevice) -> None:
    keep(opencl_device)
    assert with_tuned(opencl_device.spec).tuned == ((str(FORWARD), str(UNUSUAL)),)
    newer = replace(opencl_device.spec, driver="newer")
    assert with_tuned(newer) is newer


def test_a_spec_with_results_stays_as_it_is(opencl_device: FoundDevice) -> None:
    keep(opencl_device)
    own = replace(opencl_device.spec, tuned=(("1x1x1 nn", "x"),))
    assert with_tuned(own) is own


def test_results_that_ship_with_the_package_are_used_where_there_are_no_own(
        opencl_device: FoundDevice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = keep(opencl_device).path
    shipped = tmp_path / "shipped"
    shipped.mkdir()
    kept.rename(shipped / kept.name)
    assert with_tuned(opencl_device.spec).tuned == ()
    monkeypatch.setattr(pipeline, "shipped", lambda: shipped)
    assert with_tuned(opencl_device.spec).tuned == ((str(FORWARD), str(UNUSUAL)),)
    other = as_variant("dot R1 V4 WGX1 WGY1")
    keep(opencl_device, variant=other)
    assert with_tuned(opencl_device.spec).tuned == ((str(FORWARD), str(other)),)


def test_a_damaged_file_is_told_of_and_not_used(opencl_device: FoundDevice) -> None:
    path = keep(opencl_device).path
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.warns(TunedWarning) as caught:
        assert with_tuned(opencl_device.spec) == opencl_device.spec
    assert [str(w.message) for w in caught] == [
        f"not used: {path}: it is cut short or no JSON at all\n"
        "  try: export it again, or `handtorch tune --fresh` here"]


def test_a_file_that_cannot_be_read_is_told_of() -> None:
    path = tuned_file(GENERIC)
    path.mkdir(parents=True)
    with pytest.warns(TunedWarning) as caught:
        assert with_tuned(GENERIC) == GENERIC
    assert [str(w.message) for w in caught] == [f"tuned results {path}: Is a directory"]


def test_no_file_and_no_folder_are_nothing_to_tell(tmp_path: Path,
                                                   monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HANDTORCH_CACHE", str(tmp_path / "file"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert with_tuned(GENERIC) is GENERIC
