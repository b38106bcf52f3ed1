"""Steps written in many ways, against torch; and what no capture can follow."""

from __future__ import annotations

import copy
import linecache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from handtorch.errors import CannotCapture
from tests.capture.user_steps import (
    MADE,
    Made,
    X,
    assert_same_training,
    forgets,
    made,
    said,
    simple,
    usual,
)


def after_all(model: nn.Module, optimizer: Any, x: torch.Tensor) -> torch.Tensor:
    loss = (model(x) ** 2).sum()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return loss


def zeros(model: nn.Module, optimizer: Any, x: torch.Tensor) -> torch.Tensor:
    optimizer.zero_grad(set_to_none=False)
    loss = (model(x) ** 2).sum()
    loss.backward()
    optimizer.step()
    return loss


def by_hand(model: nn.Module, optimizer: Any, x: torch.Tensor) -> torch.Tensor:
    for p in model.parameters():
        p.grad = None
    loss = (model(x) ** 2).sum()
    loss.backward()
    optimizer.step()
    return loss


def own_gradients(model: nn.Module, optimizer: Any, x: torch.Tensor) -> torch.Tensor:
    loss = (model(x) ** 2).sum()
    params = list(model.parameters())
    for p, g in zip(params, torch.autograd.grad(loss, params), strict=True):
        p.grad = 0.5 * g
    optimizer.step()
    return loss


def twice(model: nn.Module, optimizer: Any, x: torch.Tensor) -> torch.Tensor:
    """Two backwards into the same gradients, then two updates."""
    optimizer.zero_grad()
    (model(x) ** 2).sum().backward()
    loss = (model(2 * x) ** 2).mean()
    loss.backward()
    optimizer.step()
    optimizer.step()
    return loss


def zeros_after_all(model: nn.Module, optimizer: Any, x: torch.Tensor) -> torch.Tensor:
    loss = forgets(model, optimizer, x)
    optimizer.zero_grad(set_to_none=False)
    return loss


def clamped(model: nn.Module, optimizer: Any, x: torch.Tensor) -> torch.Tensor:
    loss = usual(model, optimizer, x)
    for p in model.parameters():
        p.data.clamp_(-0.3, 0.3)
    return loss + model(x).sum()


def tried_and_taken_back(model: nn.Module, optimizer: Any, x: torch.Tensor) -> torch.Tensor:
    """The gradient at the place that an update leads to, applied where it began."""
    before = [p.detach().clone() for p in model.parameters()]
    usual(model, optimizer, x)
    loss = (model(x) ** 2).sum()
    optimizer.zero_grad()
    loss.backward()
    with torch.no_grad():
        for p, old in zip(model.parameters(), before, strict=True):
            p.copy_(old)
    optimizer.step()
    return loss


def only_tried(model: nn.Module, optimizer: Any, x: torch.Tensor) -> torch.Tensor:
    before = {key: value.clone() for key, value in model.state_dict().items()}
    usual(model, optimizer, x)
    loss = (model(x) ** 2).sum()
    model.load_state_dict(before)
    return loss


@pytest.mark.parametrize("body", [usual, zeros, by_hand, own_gradients, twice, after_all,
                                  zeros_after_all, clamped, tried_and_taken_back, only_tried])
def test_ways_to_write_a_step(body: Any) -> None:
    assert_same_training(lambda: simple(body, lr=0.01), (X,), "ref", steps=4)


def test_clearing_with_zeros_costs_nothing() -> None:
    none, zero = (made(simple(b), (X,)).program for b in (usual, zeros))
    assert [s.kernel for s in none.steps] == [s.kernel for s in zero.steps]


def test_an_idle_parameter_stays_as_it_is_under_any_zero_grad() -> None:
    """torch skips it, since it has no gradient; weight decay would move it otherwise."""
    def idle() -> Made:
        torch.manual_seed(0)
        model = nn.ModuleDict({"used": nn.Linear(3, 2), "idle": nn.Linear(3, 2)})
        optimizer = torch.optim.AdamW(model.parameters(), 0.1)

        def step(x: torch.Tensor) -> torch.Tensor:
            optimizer.zero_grad(set_to_none=False)
            loss = (model["used"](x) ** 2).sum()
            loss.backward()
            optimizer.step()
            return loss
        return step, [model], [optimizer]
    assert_same_training(idle, (X,), "ref", steps=3)


class Counting(nn.Module):
    """Buffers written in place, replaced, and of whole numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 2)
        self.register_buffer("calls", torch.tensor(0))
        self.register_buffer("mean", torch.zeros(3))
        self.register_buffer("last", torch.zeros(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls.add_(1)
        with torch.no_grad():
            self.mean.lerp_(x.sum(0), 0.1)
        self.last = x[0].detach() * 2
        return self.linear(x + self.mean)


def test_buffers_come_back_changed() -> None:
    def counting() -> Made:
        torch.manual_seed(0)
        model = Counting()
        optimizer = torch.optim.SGD(model.parameters(), 0.01)
        return lambda x: usual(model, optimizer, x), [model], [optimizer]
    assert_same_training(counting, (X,), "ref", steps=3)


def with_hooks() -> Made:
    """On the parameters themselves: torch runs them on gradients as they come in."""
    def halve(p: torch.Tensor) -> None:
        assert p.grad is not None
        p.grad.mul_(0.5)
    fn, (model,), optimizers = simple(usual, lr=0.01)
    model.weight.register_hook(lambda g: g * 0.1)
    model.bias.register_post_accumulate_grad_hook(halve)
    return fn, [model], optimizers


def test_hooks_of_parameters_run() -> None:
    assert_same_training(with_hooks, (X,), "ref", steps=3)


def test_the_batch_may_be_written_to_and_stays_as_it_was() -> None:
    def scales(model: nn.Module, optimizer: Any, x: torch.Tensor) -> torch.Tensor:
        x = x if x.requires_grad else x.mul_(0.5)
        x[:, 0] = 0
        return usual(model, optimizer, x)
    parts, x = simple(scales), X.clone()
    ours = float(made(parts, (x,), "ref")(x))
    assert torch.equal(x, X)
    assert ours == pytest.approx(simple(scales)[0](X.clone()).item(), rel=1e-6)


def item(model: nn.Module, optimizer: Any, x: torch.Tensor) -> Any:
    loss = usual(model, optimizer, x)
    SEEN.append(loss.item())
    return loss


def as_float(model: nn.Module, optimizer: Any, x: torch.Tensor) -> Any:
    usual(model, optimizer, x)
    return 3.0


def branch(model: nn.Module, optimizer: Any, x: torch.Tensor) -> Any:
    loss = usual(model, optimizer, x)
    if loss > 3:
        return loss
    return loss * 2


def closure(model: nn.Module, optimizer: Any, x: torch.Tensor) -> Any:
    return optimizer.step(lambda: usual(model, optimizer, x))


def outside(model: nn.Module, optimizer: Any, x: torch.Tensor) -> Any:
    return usual(model, optimizer, x + OUTSIDE)


def as_numpy(model: nn.Module, optimizer: Any, x: torch.Tensor) -> Any:
    loss = usual(model, optimizer, x)
    SEEN.append(loss.detach().numpy())
    return loss


def as_copy(model: nn.Module, optimizer: Any, x: torch.Tensor) -> Any:
    SEEN.append(copy.deepcopy(model.state_dict()))
    return usual(model, optimizer, x)


def schedules(model: nn.Module, optimizer: Any, x: torch.Tensor) -> Any:
    loss = usual(model, optimizer, x)
    optimizer.param_groups[0]["lr"] *= 0.5
    return loss


def replaces(model: nn.Module, optimizer: Any, x: torch.Tensor) -> Any:
    loss = usual(model, optimizer, x)
    model.weight = nn.Parameter(model.weight.detach() * 2)
    return loss


def assigns_data(model: nn.Module, optimizer: Any, x: torch.Tensor) -> Any:
    loss = usual(model, optimizer, x)
    for p in model.parameters():
        p.data = p.data.clamp(-0.1, 0.1)
    return loss


def only_looks(model: nn.Module, optimizer: Any, x: torch.Tensor) -> Any:
    optimizer.zero_grad()
    loss = (model(x) ** 2).sum()
    loss.backward()
    return loss


def stranger(model: nn.Module, optimizer: Any, x: torch.Tensor) -> Any:
    loss = usual(model, optimizer, x)
    other = torch.optim.SGD(model.parameters(), 0.1)
    other.step()
    return loss


def of_numbers(model: nn.Module, optimizer: Any, x: torch.Tensor) -> Any:
    loss = usual(model, optimizer, x)
    return loss, [p.grad for p in model.parameters()]


SEEN: list[Any] = []
OUTSIDE = torch.ones(3)


def line(fn: Any, offset: int) -> str:
    code, number = fn.__code__, fn.__code__.co_firstlineno + offset
    text = linecache.getline(code.co_filename, number).strip()
    return f"  from {Path(code.co_filename).name}  {text}\n"


@pytest.mark.parametrize(("body", "message"), [
    (item, "a tensor's value as a Python number (`.item()`): only the device will know it, and "
           f"each step anew\n{line(item, 2)}"
           "  try: compute with the tensor, or return it from the step"),
    (as_float, "the step returns loss of type float: a number made in Python is that of the "
               f"capture, for ever\n{MADE}  try: return tensors: one, a tuple or a dict of them"),
    (branch, "control flow that depends on data: a Python `if`, `while` or number needs a tensor's "
             f"value, which only the device will know\n{line(branch, 2)}"
             "  try: torch.where, or decide outside the step"),
    (closure, f"optimizer.step(closure): a closure runs the model again\n{line(closure, 1)}"
              "  try: call backward() first and step() without arguments"),
    (outside, "a tensor that the step reaches by another road: it is neither an input nor in one "
              f"of the models given\n{line(outside, 1)}"
              "  try: give it as an input, or its module in models=[...]; in a module of yours, "
              "register_buffer"),
    (as_numpy, "a tensor's bytes: while a step is captured it runs on stand-ins that have shapes "
               f"but no numbers\n{line(as_numpy, 2)}"
               "  try: clone() instead of deepcopy, and no numpy() in the step"),
    (as_copy, "a tensor's bytes: while a step is captured it runs on stand-ins that have shapes "
              f"but no numbers\n{line(as_copy, 1)}"
              "  try: clone() instead of deepcopy, and no numpy() in the step"),
    (forgets, "the gradient of bias from an earlier call: the step adds to it before it is "
              f"cleared\n{line(forgets, 2)}"
              "  try: optimizer.zero_grad() in the step, before backward()"),
    (schedules, "the learning rate of SGD changes inside the step: from [0.1] to [0.05], once, "
                "when the step was captured\n"
                f"{MADE}  try: scheduler.step() after each call of the step, outside of it"),
    (replaces, "weight is replaced by another object in the step: the device holds one tensor of "
               "fixed shape and type in its place\n"
               f"{MADE}  try: write into it: tensor.copy_(new) under torch.no_grad()"),
    (assigns_data, "weight.data is another tensor after the step: the device holds one tensor in "
                   f"its place\n{MADE}"
                   "  try: write into it: p.data.copy_(new) instead of p.data = new"),
    (only_looks, "a step that updates nothing: none of the 1 optimizer(s) given takes a step, and "
                 f"gradients do not last from call to call\n{MADE}"
                 "  try: optimizer.step() after backward(); for a step that only looks, "
                 "optimizers=[]"),
    (stranger, "a step of SGD, which was not given: its parameters and state are not on the "
               f"device\n{line(stranger, 3)}"
               "  try: train_step(fn, models=[...], optimizers=[...]) with all that fn uses"),
    (of_numbers, "the step returns out1 of type list: only tensors come back from the device\n"
                 f"{MADE}  try: return tensors: one, a tuple or a dict of them"),
], ids=lambda x: getattr(x, "__name__", ""))
def test_what_cannot_be_captured_is_refused_with_the_users_line(body: Any, message: str) -> None:
    parts = simple(body)
    before = copy.deepcopy(parts[1][0].state_dict())
    with pytest.raises(CannotCapture) as e:
        made(parts, (X,))
    assert said(e) == message
    (model,), (optimizer,) = parts[1:]
    assert optimizer.param_groups[0]["lr"] == 0.1 and not optimizer.state
    assert all(type(p) is nn.Parameter and p.grad is None for p in model.parameters())
    for key, value in model.state_dict().items():
        assert torch.equal(value, before[key])


def test_gradients_that_lie_about_are_noticed_where_they_would_count() -> None:
    """`usual` clears them first; `after_all` would add to them in its first call."""
    for body, message in ((usual, ""), (
            after_all, "weight has a gradient now: the step's first call "
                       "would add to it; only at its end does the step clear gradients\n"
                       f"{MADE}  try: optimizer.zero_grad() before train_step")):
        fn, models, optimizers = simple(body)
        for p in models[0].parameters():
            p.grad = torch.ones_like(p)
        if not message:
            made((fn, models, optimizers), (X,))
            continue
        with pytest.raises(CannotCapture) as e:
            made((fn, models, optimizers), (X,))
        assert said(e) == message
        assert all(bool((p.grad == 1).all()) for p in models[0].parameters())
