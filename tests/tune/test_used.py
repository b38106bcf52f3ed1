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
from handtorch.graph.device_spec import GENERIC
from handtorch.kernels.gemm_tiles import Product, Variant, as_variant, table_variant
from handtorch.pipeline import TunedWarning, tuned_file, with_tuned
from handtorch.runtime.opencl.discover import FoundDevice
from handtorch.tune.store import Results, Trial

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
