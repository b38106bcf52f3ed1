"""The study `backprop`: a tiny real run on every device, and its refusal to time wrong numbers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from handtorch.api.make import train_step
from handtorch.baseline import fair
from handtorch.baseline.fair import Plan
from handtorch.errors import KernelError
from handtorch.record import RunWriter, read_run
from handtorch.report import render
from handtorch.studies import backprop
from handtorch.studies.backprop_accounting import split
from handtorch.studies.backprop_findings import BATCH, MOVED, NAIVE, OURS, RESIDENT, SIDES, TUNED
from handtorch.studies.backprop_pictures import small_digits, started
from handtorch.studies.study import HOST, Setting, record_setting
from handtorch.zoo.registry import MODELS

pytestmark = pytest.mark.spread


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backprop, "NUMBERS", (1, 2))
    monkeypatch.setattr(backprop, "QUICK", Plan(rounds=2, block_s=0.001))
    monkeypatch.setattr(backprop, "QUICK_OBSERVED", 2)
    monkeypatch.setattr(fair, "WARM_UP_S", 0.005)
    monkeypatch.setattr(backprop, "load_pictures",
                        lambda quick: replace(small_digits("a test"), epochs=2))


def test_a_run_records_every_side_of_every_model(tiny: None, opencl_device: Any, tmp_path: Path
                                                 ) -> None:
    path = tmp_path / "run.htr"
    with RunWriter.create(path, "test") as record:
        record_setting(record, opencl_device)
        text = backprop.run(Setting(opencl_device, record, True, lambda _: None))
    run = read_run(path)
    whole = {(r.subject, r.x_value): r for r in run.results if r.name == "whole step"}
    assert set(whole) == {(side, n) for side in SIDES for n in (1, 2)}
    assert all((r.place == HOST) == (side == "torch CPU") for (side, _), r in whole.items())
    for name in ("kernels", "copies", "host wait", MOVED):
        rows = [r for r in run.results if r.name == name and r.subject in OURS]
        assert len(rows) == 2 * len(OURS)
        assert all(r.value is not None and r.value >= 0 for r in rows)
    kb = {r.subject: r.value for r in run.results if r.name.startswith("bytes") and r.x_value == 2}
    assert kb[NAIVE] == kb[TUNED] == 111.204
    assert kb[RESIDENT] == (32 * 16 * 4 + 32 * 4 + 4) / 1e3
    found, learned = run.verdicts
    assert found.question == backprop.QUESTION
    assert (found.holds is None) == (opencl_device.spec.kind == "cpu" or "other programs" in
                                     found.holds_reason)
    assert learned.question == backprop.LEARNS
    assert all(said in text for v in run.verdicts for said in (v.question, v.answer))
    page = render(run)
    assert "whole step by Model" in page
    assert "accuracy of Model4 on digits by epoch" in page


class Fake:
    """Gives the same loss for ever."""

    def __init__(self, loss: float) -> None:
        self.loss = loss

    def __call__(self, *_: Any) -> Any:
        return (np.float32(self.loss),)


class FakeStep(Fake):
    def __call__(self, *_: Any) -> Any:
        return self.loss


@pytest.mark.parametrize(("naive", "resident", "said"), [
    (1.0, 1.0, ()), (1.00005, 0.99995, ()),
    (1.25, 1.0, ("op by op, naive kernels", "0.25")),
    (1.0, 0.75, ("resident step", "0.25")),
    (float("nan"), 1.0, ("op by op, naive kernels", "nan")),
])
def test_a_side_with_other_losses_is_not_timed(monkeypatch: pytest.MonkeyPatch, naive: float,
                                               resident: float, said: tuple[str, ...]) -> None:
    monkeypatch.setattr(backprop, "train", lambda *_: [1.0] * 5)
    sides: Any = {NAIVE: Fake(naive), TUNED: Fake(1.0)}
    step: Any = FakeStep(resident)
    batch = np.zeros(1), np.zeros(1)
    case = backprop.Case(3, batch, (None, None, None), sides, step)
    if not said:
        backprop.check_agreement(case)
        return
    with pytest.raises(KernelError) as refused:
        backprop.check_agreement(case)
    side, worst = said
    assert str(refused.value) == (f"backprop: Model3, {side}: a loss of the first 5 steps differs "
                                  f"from torch's by {worst}, allowed is 0.0001\n"
                                  "  try: `handtorch devices` runs the device's self-test")


def test_resident_steps_are_seen_together(opencl_device: Any) -> None:
    entry, model = MODELS["Model1"], started("Model1")
    x, y = (t.numpy() for t in entry.batch(32))
    step = train_step(model, entry.loss, entry.optimizers(model)[0], example=(x, y),
                      device=opencl_device.label)
    seen = backprop.observe_resident(step, x, y)
    assert seen.steps == backprop.BURST == step.resident.counters.steps
    assert len(seen.kernels) == backprop.BURST * len(step.program.steps)
    assert seen.fault() == ""
    assert seen.host_copy_ns > 0
    assert split(seen).wall_ns == pytest.approx(seen.wall_ns / backprop.BURST)
    step.close()


def test_the_plan_is_the_papers() -> None:
    assert backprop.NUMBERS == (1, 2, 3, 4)
    assert BATCH == 32
