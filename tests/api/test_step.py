"""The whole path: a PyTorch step captured, compiled, resident, against PyTorch itself."""

from __future__ import annotations

import copy
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import handtorch as ht
from handtorch.errors import BadInput, CannotCapture, UnsupportedOp
from handtorch.zoo.digits import digits_model, load_digits
from tests.capture.user_steps import said

pytestmark = pytest.mark.spread

X = torch.randn(8, 12, generator=torch.Generator().manual_seed(1))
Y = torch.tensor([0, 1, 2, 3, 4, 0, 1, -100])


def mlp() -> nn.Sequential:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(12, 7), nn.ReLU(), nn.Linear(7, 7, bias=False), nn.ReLU(),
                         nn.Linear(7, 5))


def eager(model: nn.Module, loss_fn: nn.Module, optimizer: torch.optim.Optimizer,
          steps: int) -> list[float]:
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = loss_fn(model(X), Y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


OPTIMIZERS: dict[str, dict[str, Any]] = {
    "plain": {"lr": 0.1},
    "momentum": {"lr": 0.1, "momentum": 0.9},
    "nesterov decay": {"lr": 0.05, "momentum": 0.8, "nesterov": True, "weight_decay": 0.02},
    "maximize": {"lr": 0.01, "maximize": True},
}


@pytest.mark.parametrize("loss_fn", [nn.CrossEntropyLoss(), nn.CrossEntropyLoss(reduction="sum")],
                         ids=["mean", "sum"])
@pytest.mark.parametrize("settings", OPTIMIZERS.values(), ids=OPTIMIZERS)
@pytest.mark.parametrize("device", ["ref", "opencl"])
def test_ten_steps_equal_torch(opencl_device: Any, device: str, settings: dict[str, Any],
                               loss_fn: nn.Module) -> None:
    """Losses and weights within float32 rounding: 1e-5 of the largest weight after ten steps."""
    theirs, ours = mlp(), mlp()
    optimizer = torch.optim.SGD(ours.parameters(), **settings)
    step = ht.train_step(ours, loss_fn, optimizer, example=(X, Y),
                         device=device if device == "ref" else opencl_device.label)
    losses = [float(step(X, Y)) for _ in range(10)]
    reference = torch.optim.SGD(theirs.parameters(), **settings)
    want = eager(theirs, loss_fn, reference, 10)
    np.testing.assert_allclose(losses, want, rtol=1e-5)
    step.sync_to(ours, optimizer)
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)
    for a, b in zip(optimizer.state.values(), reference.state.values(), strict=True):
        for key in a:
            torch.testing.assert_close(a[key], b[key], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("device", ["ref", "opencl"])
def test_a_batch_made_in_place_gives_the_same_losses(opencl_device: Any, device: str) -> None:
    losses = []
    for in_place in (False, True):
        model = mlp()
        step = ht.train_step(model, nn.CrossEntropyLoss(),
                             torch.optim.SGD(model.parameters(), lr=0.1), example=(X, Y),
                             device=device if device == "ref" else opencl_device.label)
        batch: tuple[Any, ...] = step.stage() if in_place else (X, Y)
        if in_place:
            batch[0][:], batch[1][:] = X.numpy(), Y.numpy()
        losses.append([float(step(*batch)), float(step(X, Y))])
    assert losses[0] == losses[1]


def test_capture_leaves_torch_objects_as_they_were() -> None:
    model = mlp()
    before = copy.deepcopy(model.state_dict())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    params = [id(p) for p in optimizer.param_groups[0]["params"]]
    ht.train_step(model, nn.CrossEntropyLoss(), optimizer, example=(X, Y), device="ref")(X, Y)
    assert [id(p) for p in model.parameters()] == params
    assert [id(p) for p in optimizer.param_groups[0]["params"]] == params
    assert "step" not in optimizer.__dict__ and not optimizer.state
    for key, value in model.state_dict().items():
        assert torch.equal(value, before[key]), key
    assert all(p.grad is None for p in model.parameters())


def test_a_scheduler_reaches_the_device(opencl_device: Any) -> None:
    theirs, ours = mlp(), mlp()
    losses = []
    for model, train in ((theirs, False), (ours, True)):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
        schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
        step = ht.train_step(model, nn.CrossEntropyLoss(), optimizer, example=(X, Y),
                             device=opencl_device.label) if train else None
        seen = []
        for _ in range(5):
            seen += [float(step(X, Y))] if step else eager(
                model, nn.CrossEntropyLoss(), optimizer, 1)
            schedule.step()
        losses.append(seen)
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-5)


def test_frozen_layers_are_not_updated_and_cost_no_launch() -> None:
    model = mlp()
    full = ht.train_step(model, nn.CrossEntropyLoss(), torch.optim.SGD(model.parameters(), 0.1),
                         example=(X, Y), device="null")
    model[0].requires_grad_(False)
    part = ht.train_step(model, nn.CrossEntropyLoss(), torch.optim.SGD(model.parameters(), 0.1),
                         example=(X, Y), device="null")
    assert len(part.program.steps) < len(full.program.steps)
    assert part.program.plan.peak_bytes <= full.program.plan.peak_bytes


def test_tied_weights_train_once() -> None:
    def tied() -> nn.Module:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(12, 12), nn.ReLU(), nn.Linear(12, 12), nn.Linear(12, 5))
        model[2].weight = model[0].weight
        return model
    ours, theirs = tied(), tied()
    step = ht.train_step(ours, nn.CrossEntropyLoss(), torch.optim.SGD(ours.parameters(), 0.1),
                         example=(X, Y), device="ref")
    losses = [float(step(X, Y)) for _ in range(4)]
    want = eager(theirs, nn.CrossEntropyLoss(), torch.optim.SGD(theirs.parameters(), 0.1), 4)
    np.testing.assert_allclose(losses, want, rtol=1e-5)


def test_digits_to_95_percent(opencl_device: Any) -> None:
    digits, model = load_digits(), digits_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    first = next(digits.batches(0))
    step = ht.train_step(model, nn.CrossEntropyLoss(), optimizer, example=first,
                         device=opencl_device.label)
    for epoch in range(10):
        for x, y in digits.batches(epoch):
            step(x, y)
    step.sync_to(model)
    infer = ht.inference(model, example=(digits.test_x,), device=opencl_device.label)
    accuracy = float((infer(digits.test_x).argmax(1) == digits.test_y).mean())
    print(f"digits on {opencl_device.short}: {accuracy:.1%}")
    assert accuracy >= 0.95
    with torch.no_grad():
        want = model(torch.from_numpy(digits.test_x)).numpy()
    np.testing.assert_allclose(infer(digits.test_x), want, rtol=1e-4, atol=1e-5)


def test_the_same_run_twice_is_bit_for_bit_the_same(opencl_device: Any) -> None:
    runs = []
    for _ in range(2):
        model = mlp()
        step = ht.train_step(model, nn.CrossEntropyLoss(),
                             torch.optim.SGD(model.parameters(), 0.1, momentum=0.9),
                             example=(X, Y), device=opencl_device.label)
        runs.append(([float(step(X, Y)) for _ in range(6)], step.program.hash))
    assert runs[0] == runs[1]


def test_print_tells_launches_bytes_and_memory() -> None:
    model = mlp()
    step = ht.train_step(model, nn.CrossEntropyLoss(), torch.optim.SGD(model.parameters(), 0.1),
                         example=(X, Y), device="null")
    lines = str(step).splitlines()
    assert lines[0] == f"{len(step.program.steps)} launches a step on generic"
    assert lines[1] == "420 bytes cross a step: x 384, y 32, loss 4"
    plan = step.program.plan
    assert lines[2].startswith(f"{plan.peak_bytes:,} bytes of arena at the peak, "
                               f"floor {plan.floor_bytes:,}")
    assert "0.weight" in str(step)


def test_null_counts_without_a_driver() -> None:
    model = mlp()
    step = ht.train_step(model, nn.CrossEntropyLoss(), torch.optim.SGD(model.parameters(), 0.1),
                         example=(X, Y), device="null")
    for _ in range(3):
        step(X, Y)
    counters = step.resident.counters
    assert (counters.steps, counters.bytes_in, counters.bytes_out) == (3, 3 * 416, 3 * 4)
    assert counters.launches == 3 * len(step.program.steps)


def test_every_launch_knows_its_line_layer_and_phase() -> None:
    model = mlp()
    step = ht.train_step(model, nn.CrossEntropyLoss(), torch.optim.SGD(model.parameters(), 0.1),
                         example=(X, Y), device="null")
    nodes = [step.program.node_of(s) for s in step.program.steps]
    assert {n.phase for n in nodes} == {"forward", "backward", "optimizer"}
    assert {n.layer for n in nodes if n.op == "matmul"} == {"0", "2", "4"}
    assert all(n.where is not None and n.where.file == "test_step.py" for n in nodes)


def inference_of(model: nn.Module, x: torch.Tensor = X) -> Any:
    return ht.inference(model, example=(x,), device="ref")


def test_inference_uses_eval_mode_and_puts_the_mode_back() -> None:
    model = nn.Sequential(nn.Linear(12, 5), nn.Dropout(0.5)).train()
    out = inference_of(model)(X)
    assert model.training and model[1].training
    np.testing.assert_allclose(out, model.eval()(X).detach(), rtol=1e-5, atol=1e-6)


class Sine(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.erfinv(x)


class Branching(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:
            return x
        return -x


def test_an_op_outside_the_set_is_refused_with_the_users_line() -> None:
    with pytest.raises(UnsupportedOp) as e:
        inference_of(Sine())
    line = Sine.forward.__code__.co_firstlineno + 1
    assert str(e.value) == (
        "aten.erfinv: HandTorch has no such operation and never runs one elsewhere in secret\n"
        f"  from test_step.py:{line}  return torch.erfinv(x)\n"
        "  try: another formulation; docs/how-to/add-an-op.md says how to add one")


def test_control_flow_on_data_is_refused_with_the_users_line() -> None:
    with pytest.raises(CannotCapture) as e:
        inference_of(Branching())
    line = Branching.forward.__code__.co_firstlineno + 1
    assert str(e.value) == (
        "control flow that depends on data: a Python `if`, `while` or number needs a tensor's "
        "value, which only the device will know\n"
        f"  from test_step.py:{line}  if x.sum() > 0:\n"
        "  try: torch.where, or decide outside the step")


def test_what_an_optimizer_cannot_do_is_refused() -> None:
    model = mlp()
    with pytest.raises(CannotCapture) as e:
        ht.train_step(model, nn.CrossEntropyLoss(), torch.optim.LBFGS(model.parameters()),
                      example=(X, Y), device="null")
    assert str(e.value).startswith("optimizer LBFGS: known are SGD, Adam, AdamW, RMSprop, ")
    stranger = torch.optim.SGD([nn.Parameter(torch.zeros(3))], 0.1)
    with pytest.raises(CannotCapture) as e:
        ht.train_step(model, nn.CrossEntropyLoss(), stranger, example=(X, Y), device="null")
    assert said(e) == (
        "a parameter of shape [3] of the optimizer: it belongs to none of the models given\n"
        "  from test_step.py  ht.train_step(model, nn.CrossEntropyLoss(), stranger, "
        "example=(X, Y), device=\"null\")\n"
        "  try: pass every model whose parameters are trained")


def test_doubles_are_refused_with_the_remedy() -> None:
    with pytest.raises(BadInput) as e:
        inference_of(nn.Linear(12, 3).double(), X.double())
    assert said(e) == (
        "weight is float64: HandTorch computes in float32 and int32\n"
        "  from test_step.py  return ht.inference(model, example=(x,), device=\"ref\")\n"
        "  try: model.float() and inputs.float()")


def test_import_needs_neither_torch_nor_a_driver() -> None:
    code = ("import sys; import handtorch, handtorch.pipeline, handtorch.runtime.host;"
            "assert not {'torch', 'pyopencl'} & set(sys.modules), 'loaded'")
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(ht.__file__).parents[1])


def test_explain_leads_from_a_layer_to_its_launches_and_lines() -> None:
    model = mlp()
    step = ht.train_step(model, nn.CrossEntropyLoss(), torch.optim.SGD(model.parameters(), 0.1),
                         example=(X, Y), device="null")
    head, *rows = step.explain("2").splitlines()
    assert head.split() == ["launch", "kernel", "op", "phase", "layer", "from"]
    assert len(rows) == 3 and all("test_step.py:" in r for r in rows)     # y, dW, dX
    assert len(step.explain().splitlines()) == 1 + len(step.program.steps)
    with pytest.raises(BadInput) as e:
        step.explain("7")
    assert said(e) == ("no launch belongs to layer '7': the program has 0, 2, 4, loss_fn\n"
                       "  from test_step.py  step.explain(\"7\")\n"
                       "  try: name one of these")


class Named(nn.Module):
    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"twice": x * 2, "thrice": x * 3}


def test_inference_gives_what_the_model_gives() -> None:
    out = inference_of(Named())(X)
    assert list(out) == ["twice", "thrice"]
    np.testing.assert_allclose(out["thrice"], X * 3)
