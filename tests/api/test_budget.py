"""A step within a budget: the same results bit for bit, the bytes kept to, and what it says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import handtorch as ht
from handtorch.api.budget import Fitting, as_bytes, device_bytes
from handtorch.capture.step import capture_train_step
from handtorch.errors import BadInput, OutOfMemory
from handtorch.graph.device_spec import GENERIC
from handtorch.passes import trade

pytestmark = pytest.mark.spread


class Net(nn.Module):
    """A little of everything that is worth making again: batch-norm, a residual, dropout, cat."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1)
        self.norms = nn.ModuleList(nn.BatchNorm2d(8) for _ in range(4))
        self.convs = nn.ModuleList(nn.Conv2d(8, 8, 3, padding=1) for _ in range(4))
        self.drop = nn.Dropout(0.3)
        self.pool = nn.MaxPool2d(2)
        self.last = nn.Linear(24, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        for norm, conv in zip(self.norms, self.convs, strict=True):
            x = x + conv(self.drop(torch.relu(norm(x))))
        x = torch.cat([x, torch.relu(x), torch.sigmoid(x)], 1)
        scores: torch.Tensor = self.last(self.pool(x).mean((2, 3)))
        return scores


def batch(rows: int = 8) -> tuple[torch.Tensor, torch.Tensor]:
    rng = torch.Generator().manual_seed(1)
    return (torch.randn(rows, 3, 16, 16, generator=rng),
            torch.randint(5, (rows,), generator=rng))


def made(device: str, memory: Any = None) -> ht.TrainStep:
    torch.manual_seed(0)
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    return ht.train_step(model, nn.functional.cross_entropy, optimizer, example=batch(),
                         device=device, memory=memory, seed=3)


def after_three(step: ht.TrainStep) -> dict[str, Any]:
    x, y = batch()
    losses = [step(x, y).numpy().copy() for _ in range(3)]
    states = {s.name: step.resident.read_state(s.name) for s in step.program.graph.states}
    return {**states, **{f"loss {i}": loss for i, loss in enumerate(losses)}}


def half(step: ht.TrainStep) -> int:
    plan = step.program.plan
    passing = plan.peak_bytes - plan.lasting_bytes
    return int(device_bytes(plan) - passing + passing // 2)


def same_as_whole(device: str) -> None:
    whole = made(device)
    memory = half(whole)
    fitted = made(device, memory)
    assert device_bytes(fitted.program.plan) <= memory < device_bytes(whole.program.plan)
    assert any(n.phase == "recompute" for n in fitted.program.graph.nodes)
    ours, theirs = after_three(fitted), after_three(whole)
    for name, expected in theirs.items():
        np.testing.assert_array_equal(ours[name], expected, err_msg=name)


def test_half_the_passing_memory_gives_the_same_bits_on_ref() -> None:
    same_as_whole("ref")


def test_half_the_passing_memory_gives_the_same_bits(opencl_device: Any) -> None:
    same_as_whole(opencl_device.label)


def less_gives_the_same(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In so small a step nothing is worth its launch: here it is asked for at any price."""
    monkeypatch.setenv("HANDTORCH_SPARE", "0")
    whole = made(device)
    monkeypatch.setattr(trade, "_WORTH", 0.0)
    monkeypatch.setenv("HANDTORCH_SPARE", "99")
    less = made(device)
    again = sum(less.program.node_of(s).phase == "recompute" for s in less.program.steps)
    assert again and less.program.plan.peak_bytes < whole.program.plan.peak_bytes
    assert f", {again} of which make again what is not kept" in repr(less).splitlines()[0]
    ours, theirs = after_three(less), after_three(whole)
    for name, expected in theirs.items():
        np.testing.assert_array_equal(ours[name], expected, err_msg=name)


def test_what_is_spared_gives_the_same_bits_on_ref(monkeypatch: pytest.MonkeyPatch) -> None:
    less_gives_the_same("ref", monkeypatch)


def test_what_is_spared_gives_the_same_bits(opencl_device: Any, monkeypatch: pytest.MonkeyPatch
                                            ) -> None:
    less_gives_the_same(opencl_device.label, monkeypatch)


def test_a_budget_that_is_large_enough_trades_nothing() -> None:
    step = made("ref", "1GiB")
    assert step.program.hash == made("ref").program.hash
    held = device_bytes(step.program.plan)
    assert repr(step).splitlines()[-1] == (
        f"budget 1,073,741,824 bytes: the step holds {held:,}, arena and staging; nothing was "
        "traded")


def test_print_tells_what_was_traded() -> None:
    whole = made("ref")
    memory = half(whole)
    step = made("ref", memory)
    assert step.fitted is not None and step.fitted.slow_down > 1
    lines = repr(step).splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("budget"))
    assert lines[at:at + 2] == [
        f"budget {memory:,} bytes: the step holds {step.fitted.held_bytes:,}, arena and staging; "
        f"without a budget {device_bytes(whole.program.plan):,}",
        f"predicted slow-down {step.fitted.slow_down:.2f} (times estimated), made again instead "
        "of kept:"]
    assert len(lines) > at + 2 and all(" x " in line for line in lines[at + 2:])


def test_on_a_device_times_are_measured(opencl_device: Any) -> None:
    step = made(opencl_device.label, half(made("ref")))
    assert "(times measured)" in repr(step)


def test_what_cannot_fit_is_refused_with_figures_and_the_largest_batch() -> None:
    """The batch it names fits, and one more row does not."""
    with pytest.raises(OutOfMemory) as refused:
        made("ref", 250_000)
    message = str(refused.value)
    assert message.startswith("a step within 250,000 bytes: it holds ")
    assert "micro-batches are refused: " in message
    fits = int(message.split("try: a batch of ")[1].split()[0])
    assert f"a batch of {fits} rows instead of 8, the largest that fits" in message
    assert of_rows(fits, 250_000).fitted is not None
    with pytest.raises(OutOfMemory):
        of_rows(fits + 1, 250_000)


def of_rows(rows: int, memory: int) -> ht.TrainStep:
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    return ht.train_step(model, nn.functional.cross_entropy, optimizer, example=batch(rows),
                         device="ref", memory=memory)


def test_micro_batches_are_the_last_resort() -> None:
    """Nothing to make again in a net of one layer; its batch can be cut."""
    model = nn.Linear(512, 4)
    x, y = torch.randn(64, 512), torch.randn(64, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    whole = ht.train_step(model, nn.functional.mse_loss, optimizer, example=(x, y), device="ref")
    memory = device_bytes(whole.program.plan) * 2 // 3
    step = ht.train_step(model, nn.functional.mse_loss, optimizer, example=(x, y), device="ref",
                         memory=memory)
    assert repr(step).startswith("2 micro-batches of 32 rows")
    assert device_bytes(step.program.plan) <= memory
    assert float(step(x, y)) == pytest.approx(float(whole(x, y)), rel=1e-6)


@pytest.mark.parametrize(("given", "expected"), [
    (4096, 4096), ("4096", 4096), ("2GiB", 2 << 30), ("1.5 GB", 1_500_000_000),
    ("512mib", 512 << 20), ("64 KiB", 65536)])
def test_sizes_with_units(given: Any, expected: int) -> None:
    assert as_bytes(given) == expected


@pytest.mark.parametrize("given", ["50%", "2 gigs", "-1GiB", 0, -5, True, 1.5, "", None])
def test_what_is_no_size_is_refused(given: Any) -> None:
    with pytest.raises(BadInput) as refused:
        as_bytes(given)
    assert str(refused.value) == (
        f"memory={given!r}: a budget is a number of bytes\n"
        "  try: memory='2GiB', '512MiB', '1.5GB', or an int")


def test_the_least_is_taken_where_the_search_finds_nothing(
        monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes down another way: a budget of what it holds is one that fits."""
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    fitting = Fitting(capture_train_step(model, nn.functional.cross_entropy, optimizer,
                                         batch()).graph, GENERIC)
    least = fitting.least()
    memory = (least.held_bytes + device_bytes(fitting.whole.plan)) // 2
    found = fitting.within(memory)
    assert found is not None and found.program is not least.program
    with monkeypatch.context() as patch:
        patch.setattr(fitting, "_searched", lambda memory_bytes: None)
        for asked in (least.held_bytes, memory):
            alone = fitting.within(asked)
            assert alone is not None and alone.program is least.program
            assert alone.memory_bytes == asked and fitting.fits(asked)
        assert fitting.within(least.held_bytes - 1) is None
