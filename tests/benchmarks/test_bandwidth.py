"""The bandwidth benchmark: every op is there, computes what torch does, and its bytes are right."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from benchmarks import bandwidth
from handtorch.graph.device_spec import GENERIC
from handtorch.runtime.opencl.bare import BareSteps
from handtorch.runtime.opencl.discover import FoundDevice
from handtorch.runtime.opencl.executor import OpenCLExecutor

pytestmark = pytest.mark.spread

OPS = ("norm", "loss", "update")


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bandwidth, "MB", 4096)
    monkeypatch.setattr(bandwidth, "CLASSES", (10, 100))
    monkeypatch.setattr(bandwidth, "CHANNELS", (64,))


def test_bytes_are_what_an_op_cannot_do_without() -> None:
    moved = {(j.op, j.shape): j.moved for j in bandwidth.jobs(GENERIC, OPS, [4])}
    x = 4 * 4096
    assert moved == {
        ("batch-norm forward", (64, 64)): 3 * x, ("batch-norm backward", (64, 64)): 5 * x,
        ("cross-entropy", (409, 10)): 409 * (2 * 40 + 4),
        ("cross-entropy", (40, 100)): 40 * (2 * 400 + 4),
        ("sgd momentum", (4096,)): 5 * x, ("adam", (4096,)): 7 * x, ("adamw", (4096,)): 7 * x}


def test_a_job_computes_its_op(opencl_device: FoundDevice) -> None:
    on = OpenCLExecutor(opencl_device)
    (job,) = bandwidth.cross_entropy(on.spec, 4, 10)
    bare = BareSteps(on, job.steps, job.given)
    bare.enqueue()
    bare.finish()
    x, target = (torch.from_numpy(np.asarray(job.given[i])) for i in sorted(job.given))
    loss = next(o.value for o in job.steps[-1].operands if o.access == "w")
    want = float(torch.nn.functional.cross_entropy(x, target.long()))
    assert float(bare.read(loss).reshape(())) == pytest.approx(want, rel=1e-5)
    bare.close()


def test_a_row_has_a_ratio(opencl_device: FoundDevice) -> None:
    on = OpenCLExecutor(opencl_device)
    job = next(bandwidth.jobs(on.spec, ["update"], [4]))
    row = bandwidth.measure(on, job, rounds=1)
    assert row.ratio == pytest.approx(row.ours / row.copy) and row.spread == 0
    assert row.launches == 1 and "sgd momentum" in row.line()
