"""Every optimizer against torch's own: ten steps, and handing over in both directions."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import handtorch as ht
from handtorch.errors import BadInput, CannotCapture
from tests.capture.user_steps import said

pytestmark = pytest.mark.spread

X = torch.randn(8, 12, generator=torch.Generator().manual_seed(1))
Y = torch.tensor([0, 1, 2, 3, 4, 0, 1, 3])
LOSS = nn.CrossEntropyLoss()
O = torch.optim  # noqa: E741
SETTINGS: dict[str, tuple[Any, dict[str, Any]]] = {
    "sgd nesterov": (O.SGD, {"lr": 0.1, "momentum": 0.8, "nesterov": True, "weight_decay": 0.02}),
    "adam": (O.Adam, {"lr": 0.01}),
    "adam decay, maximize": (O.Adam, {"lr": 0.01, "betas": (0.7, 0.95), "eps": 1e-3,
                                      "weight_decay": 0.1, "maximize": True}),
    "adam amsgrad, no first beta": (O.Adam, {"lr": 0.02, "amsgrad": True, "betas": (0.0, 0.9)}),
    "adam decoupled": (O.Adam, {"lr": 0.02, "weight_decay": 0.3, "decoupled_weight_decay": True}),
    "adamw": (O.AdamW, {"lr": 0.02, "weight_decay": 0.2}),
    "adamw amsgrad, fused": (O.AdamW, {"lr": 0.02, "amsgrad": True, "fused": True}),
    "rmsprop": (O.RMSprop, {"lr": 0.003, "alpha": 0.9}),
    "rmsprop all": (O.RMSprop, {"lr": 0.003, "momentum": 0.7, "centered": True, "eps": 1e-3,
                                "weight_decay": 0.1, "foreach": True}),
    "rmsprop centered": (O.RMSprop, {"lr": 0.003, "centered": True, "eps": 1e-3}),
    "adagrad": (O.Adagrad, {"lr": 0.05}),
    "adagrad all": (O.Adagrad, {"lr": 0.05, "lr_decay": 0.2, "initial_accumulator_value": 0.1,
                                "weight_decay": 0.1, "maximize": True}),
}


def mlp(kind: Any = torch.float32) -> nn.Sequential:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(12, 7), nn.ReLU(), nn.Linear(7, 5)).to(kind)


def with_optimizer(name: str, kind: Any = torch.float32) -> tuple[nn.Sequential, O.Optimizer]:
    """Two groups, with a learning rate each."""
    model, (make, settings) = mlp(kind), SETTINGS[name]
    groups = [{"params": list(model[0].parameters())},
              {"params": list(model[2].parameters()), "lr": settings["lr"] / 2}]
    return model, make(groups, **settings)


def eager(model: nn.Module, optimizer: O.Optimizer, steps: int) -> None:
    for _ in range(steps):
        optimizer.zero_grad()
        LOSS(model(X.to(next(model.parameters()).dtype)), Y).backward()
        optimizer.step()


def tensors(model: nn.Module, optimizer: O.Optimizer) -> list[torch.Tensor]:
    """Everything that training changes, in a fixed order."""
    held = [t for p in model.parameters() for _, t in sorted(optimizer.state[p].items())]
    return [*(p.detach() for p in model.parameters()), *held]


def assert_as_good(got: list[torch.Tensor], single: list[torch.Tensor], exact: list[torch.Tensor],
                   ) -> None:
    """Our error at most four times that of torch in float32, plus 1e-6; both against float64."""
    assert len(got) == len(single) == len(exact)
    for g, s, e in zip(got, single, exact, strict=True):
        assert (g.shape, g.dtype) == (s.shape, s.dtype)
        scale = max(float(e.norm()), 1e-3)
        ours, theirs = (float((t.double() - e).norm()) / scale for t in (g, s))
        assert ours <= 4 * theirs + 1e-6, f"{ours:.3g}, torch {theirs:.3g}"


@pytest.mark.parametrize("name", SETTINGS)
def test_ten_steps_and_on_in_torch_on_ref(name: str) -> None:
    ten_steps_and_on("ref", name)


@pytest.mark.parametrize("name", ["sgd nesterov", "adam", "adam amsgrad, no first beta", "adamw",
                                  "rmsprop", "rmsprop all", "adagrad all"])
def test_ten_steps_and_on_in_torch(opencl_device: Any, name: str) -> None:
    ten_steps_and_on(opencl_device.label, name)


def ten_steps_and_on(device: str, name: str) -> None:
    """Ten steps here, then three more in torch from what was handed back."""
    runs = []
    for kind in (torch.float32, torch.float64):
        model, optimizer = with_optimizer(name, kind)
        eager(model, optimizer, 10)
        first = copy.deepcopy(tensors(model, optimizer))
        eager(model, optimizer, 3)
        runs.append((first, tensors(model, optimizer)))
    ours, optimizer = with_optimizer(name)
    step = ht.train_step(ours, LOSS, optimizer, example=(X, Y), device=device)
    for _ in range(10):
        step(X, Y)
    step.sync_to(ours, optimizer)
    step.close()
    assert_as_good(tensors(ours, optimizer), runs[0][0], runs[1][0])
    eager(ours, optimizer, 3)
    assert_as_good(tensors(ours, optimizer), runs[0][1], runs[1][1])


@pytest.mark.parametrize("name", SETTINGS)
def test_a_step_continues_what_torch_began(name: str) -> None:
    """Four steps in torch, the parameters of one group ahead of the other, then six here."""
    runs = []
    for kind in (torch.float32, torch.float64):
        model, optimizer = with_optimizer(name, kind)
        model[2].requires_grad_(False)
        eager(model, optimizer, 1)
        model[2].requires_grad_(True)
        eager(model, optimizer, 9)
        runs.append(tensors(model, optimizer))
    ours, optimizer = with_optimizer(name)
    ours[2].requires_grad_(False)
    eager(ours, optimizer, 1)
    ours[2].requires_grad_(True)
    eager(ours, optimizer, 3)
    step = ht.train_step(ours, LOSS, optimizer, example=(X, Y), device="ref")
    for _ in range(6):
        step(X, Y)
    step.sync_to(ours, optimizer)
    assert_as_good(tensors(ours, optimizer), *runs)


def test_parameters_of_one_group_may_have_made_different_numbers_of_steps() -> None:
    runs = []
    for kind in (torch.float32, torch.float64, None):
        model = mlp(kind or torch.float32)
        optimizer = O.Adam(model.parameters(), 0.01)
        model[2].bias.requires_grad_(False)
        eager(model, optimizer, 2)
        model[2].bias.requires_grad_(True)
        if kind is not None:
            eager(model, optimizer, 3)
        else:
            step = ht.train_step(model, LOSS, optimizer, example=(X, Y), device="ref")
            for _ in range(3):
                step(X, Y)
            step.sync_to(model, optimizer)
            names = {s.name for s in step.program.graph.states}
            assert {"optimizer.0.step", "optimizer.0.step1"} <= names
        runs.append(tensors(model, optimizer))
    assert_as_good(runs[2], runs[0], runs[1])


def test_handed_back_step_counters_are_each_parameters_own() -> None:
    model, optimizer = with_optimizer("adam")
    step = ht.train_step(model, LOSS, optimizer, example=(X, Y), device="ref")
    assert not optimizer.state                           # capture does not touch torch's state
    step(X, Y)
    step.sync_to(model, optimizer)
    counters = [s["step"] for s in optimizer.state.values()]
    assert [float(c) for c in counters] == [1.0] * 4
    assert len({c.data_ptr() for c in counters}) == 4


def test_what_gets_no_gradient_has_no_state_and_is_not_counted() -> None:
    class Half(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used, self.idle = nn.Linear(12, 5), nn.Linear(12, 5)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.used(x)

    model = Half()
    optimizer = O.AdamW(model.parameters(), 0.1)
    before = copy.deepcopy(model.idle.state_dict())
    step = ht.train_step(model, LOSS, optimizer, example=(X, Y), device="ref")
    assert not any("idle" in s.name for s in step.program.graph.states if s.role == "optimizer")
    step(X, Y)
    step.sync_to(model, optimizer)
    assert set(optimizer.state) == set(model.used.parameters())
    for key, value in model.idle.state_dict().items():
        assert torch.equal(value, before[key]), key


def test_adam_costs_one_launch_for_each_parameter_and_one_for_each_group() -> None:
    kernels = []
    for name in ("sgd nesterov", "adam"):
        model, optimizer = with_optimizer(name)
        step = ht.train_step(model, LOSS, optimizer, example=(X, Y), device="null")
        kernels.append([s.kernel for s in step.program.steps])
    parameters = len(list(model.parameters()))
    assert (kernels[1].count("tick"), kernels[1].count("adam")) == (2, parameters)
    matrices = sum(p.dim() == 2 for p in model.parameters())
    assert kernels[0].count("sgd") == parameters - matrices     # those are moved by their products
    assert len(kernels[1]) == len(kernels[0]) + 2 + matrices


def changed(key: str, value: Any) -> Callable[[O.Optimizer], None]:
    return lambda o: o.param_groups[1].update({key: value})


@pytest.mark.parametrize(("change", "message"), [
    (changed("betas", (0.5, 0.9)),
     "Adam.param_groups[1]['betas'] is now (0.5, 0.9): the step was compiled with (0.9, 0.999)\n"
     "  from test_optimizers.py  step(X, Y)\n"
     "  try: make the step again; only lr may change between steps (a scheduler's "
     "cycle_momentum=False)"),
    (changed("weight_decay", 0.1),
     "Adam.param_groups[1]['weight_decay'] is now 0.1: the step was compiled with 0\n"
     "  from test_optimizers.py  step(X, Y)\n"
     "  try: make the step again; only lr may change between steps (a scheduler's "
     "cycle_momentum=False)"),
    (lambda o: o.add_param_group({"params": [nn.Parameter(torch.zeros(2))]}),
     "the parameter groups of Adam were replaced after capture: the device holds the state it was "
     "captured with\n  from test_optimizers.py  step(X, Y)\n"
     "  try: load_state_dict and add_param_group first, then train_step"),
    (lambda o: o.load_state_dict(o.state_dict()),
     "the parameter groups of Adam were replaced after capture: the device holds the state it was "
     "captured with\n  from test_optimizers.py  step(X, Y)\n"
     "  try: load_state_dict and add_param_group first, then train_step"),
], ids=["betas", "decay", "add group", "load"])
def test_a_change_that_cannot_reach_the_device_is_noticed(change: Callable[[O.Optimizer], None],
                                                          message: str) -> None:
    model, optimizer = with_optimizer("adam")
    step = ht.train_step(model, LOSS, optimizer, example=(X, Y), device="null")
    step(X, Y)
    change(optimizer)
    with pytest.raises(BadInput) as e:
        step(X, Y)
    assert said(e) == message


def test_a_learning_rate_is_written_only_when_it_changed(opencl_device: Any) -> None:
    model, optimizer = with_optimizer("adam")
    step = ht.train_step(model, LOSS, optimizer, example=(X, Y), device=opencl_device.label)
    written = []
    write = step.resident.write_state
    step.resident.write_state = lambda name, array: (written.append(name), write(name, array))
    step(X, Y)
    waits = step.resident.counters.blocking_calls
    optimizer.param_groups[1]["lr"] = 0.5
    step(X, Y)
    step(X, Y)
    assert written == ["optimizer.1.lr"] and step.resident.counters.blocking_calls == waits
    np.testing.assert_array_equal(step.resident.read_state("optimizer.1.lr"), np.float32([0.5]))


HERE = ("  from test_optimizers.py  ht.train_step(model, LOSS, make(model.parameters()), "
        "example=(X, Y), device=\"null\")\n")


@pytest.mark.parametrize(("make", "message"), [
    (lambda p: O.LBFGS(p), f"optimizer LBFGS: known are SGD, Adam, AdamW, RMSprop, Adagrad\n{HERE}"
     "  try: one of these from torch.optim; a class of your own, also one derived from them, may "
     "compute something else"),
    (lambda p: O.Adam(p, differentiable=True),
     "Adam with differentiable=True: nothing can be differentiated through a step on the device\n"
     f"{HERE}  try: differentiable=False"),
    (lambda p: O.SGD(p, 0.1, momentum=0.9, dampening=0.5),
     f"SGD with dampening: dampening = 0.5\n{HERE}  try: dampening=0"),
    (lambda p: O.SGD(p, torch.tensor(0.1)),
     "SGD with a tensor as learning rate or beta: numbers are worked into the program or written "
     f"to the device\n{HERE}  try: plain numbers; the learning rate may change between steps"),
    (lambda p: O.SGD(p, float("inf")),
     f"SGD with lr = inf: no weight would survive it\n{HERE}  try: a finite learning rate"),
], ids=["unknown", "differentiable", "dampening", "tensor", "infinite"])
def test_what_cannot_be_done_is_refused(make: Callable[[Any], O.Optimizer], message: str) -> None:
    model = mlp()
    with pytest.raises(CannotCapture) as e:
        ht.train_step(model, LOSS, make(model.parameters()), example=(X, Y), device="null")
    assert said(e) == message


def test_hooks_are_refused() -> None:
    model, optimizer = with_optimizer("adam")
    optimizer.register_step_post_hook(lambda *_: None)
    with pytest.raises(CannotCapture, match="Adam with step hooks: 1 registered"):
        ht.train_step(model, LOSS, optimizer, example=(X, Y), device="null")


def test_sparse_gradients_are_refused() -> None:
    table = nn.Embedding(10, 5, sparse=True)
    with pytest.raises(CannotCapture) as e:
        ht.train_step(table, LOSS, O.SGD(table.parameters(), 0.1), example=(Y, Y), device="null")
    assert said(e) == (
        "a sparse gradient of shape [10, 5]: the update rules here go over whole tensors\n"
        "  from test_optimizers.py  ht.train_step(table, LOSS, O.SGD(table.parameters(), 0.1), "
        "example=(Y, Y), device=\"null\")\n"
        "  try: sparse=False in the layer that makes it")


def test_the_wrong_optimizer_cannot_be_synced_to() -> None:
    model, optimizer = with_optimizer("adam")
    step = ht.train_step(model, LOSS, optimizer, example=(X, Y), device="ref")
    with pytest.raises(BadInput) as e:
        step.sync_to(model, O.Adam(mlp().parameters()))
    assert said(e) == (
        "the optimizer does not hold 0.weight\n"
        "  from test_optimizers.py  step.sync_to(model, O.Adam(mlp().parameters()))\n"
        "  try: sync to the optimizer of this model, built as at capture")
    with pytest.raises(BadInput) as e:
        step.sync_to(model, O.SGD(model.parameters(), 0.1))
    assert said(e) == (
        "sync to SGD: the step was made with Adam, whose state is another\n"
        "  from test_optimizers.py  step.sync_to(model, O.SGD(model.parameters(), 0.1))\n"
        "  try: the optimizer of this model, built as at capture")
    assert not optimizer.state
