"""What torch says about a step, in our words; what the user's own code raises, untouched."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from handtorch.capture.step import capture_inference, capture_train_step
from handtorch.errors import CannotCapture
from tests.capture.user_steps import said

X, Y = torch.zeros(4, 3), torch.tensor([0, 1, 1, 0])
IN_TORCH = "  try: first make the step run in plain torch, on this example"


class Doing(nn.Module):
    """`body(layer, x)` is what the user wrote."""

    def __init__(self, body: Callable[[nn.Module, torch.Tensor], Any]) -> None:
        super().__init__()
        self.inner, self.body = nn.Linear(3, 2), body

    def forward(self, x: torch.Tensor) -> Any:
        return self.body(self.inner, x)


def wrong_width(layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
    y: torch.Tensor = layer(x[:, :2])
    return y


def elsewhere(layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
    return x + torch.zeros(3, device="meta")


def misspelt(layer: Any, x: torch.Tensor) -> Any:
    return layer.wieght + x


def from_a_list(layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
    return x * torch.tensor([x.sum(), x.sum(), x.sum()])


def compiled(layer: nn.Module, x: torch.Tensor) -> Any:
    return torch.compile(layer, backend="eager")(x)


def conditional(layer: nn.Module, x: torch.Tensor) -> Any:
    return torch.cond(x.sum() > 0, lambda t: t * 2, lambda t: t * 3, (x,))


@pytest.mark.parametrize(("body", "message"), [
    (wrong_width, "torch refuses layer inner: a and b must have same reduction dim, but got [4, 2] "
                  "X [3, 2]\n  from test_refusals.py  y: torch.Tensor = layer(x[:, :2])\n"
                  f"{IN_TORCH}"),
    (elsewhere, "torch refuses: Expected all tensors to be on the same device, but found at least "
                "two devices, cpu and meta!\n"
                "  from test_refusals.py  return x + torch.zeros(3, device=\"meta\")\n"
                f"{IN_TORCH}"),
    (misspelt, "torch refuses layer inner: 'Linear' object has no attribute 'wieght'\n"
               f"  from test_refusals.py  return layer.wieght + x\n{IN_TORCH}"),
    (from_a_list, "torch.tensor() of tensors: while a step is captured it runs on stand-ins that "
                  "have shapes but no numbers\n  from test_refusals.py  "
                  "return x * torch.tensor([x.sum(), x.sum(), x.sum()])\n"
                  "  try: torch.stack(list_of_tensors)"),
    (compiled, "a module or function made by torch.compile: HandTorch compiles the step itself\n"
               "  from test_refusals.py  return torch.compile(layer, backend=\"eager\")(x)\n"
               "  try: give the model as it was before torch.compile"),
    (conditional, "torch.cond, while_loop or another operator that takes functions: the device "
                  "runs one fixed list of launches\n  from test_refusals.py  "
                  "return torch.cond(x.sum() > 0, lambda t: t * 2, lambda t: t * 3, (x,))\n"
                  "  try: torch.where over both results"),
], ids=lambda x: getattr(x, "__name__", ""))
def test_torch_refuses(body: Any, message: str) -> None:
    model = Doing(body)
    with pytest.raises(CannotCapture) as e:
        capture_inference(model, (X,))
    assert said(e) == message
    assert type(model.inner.weight) is nn.Parameter


def test_without_a_frame_of_the_users_inside_it_is_the_line_that_asked() -> None:
    with pytest.raises(CannotCapture) as e:
        capture_inference(nn.Sequential(nn.Flatten(), nn.Linear(5, 2)), (X,))
    assert said(e) == (
        "torch refuses layer 1: a and b must have same reduction dim, but got [4, 3] X [5, 2]\n"
        "  from test_refusals.py  "
        f"capture_inference(nn.Sequential(nn.Flatten(), nn.Linear(5, 2)), (X,))\n{IN_TORCH}")


def raises(layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
    raise ValueError("mine")


def test_what_the_users_code_raises_stays_what_it_is() -> None:
    with pytest.raises(ValueError, match=r"^mine$"):
        capture_inference(Doing(raises), (X,))


@pytest.mark.parametrize("cut", [lambda m: m.requires_grad_(False), lambda m: m], ids=["frozen",
                                                                                       "detached"])
def test_nothing_to_train(cut: Any) -> None:
    model = cut(nn.Linear(3, 2))

    def loss_fn(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return nn.functional.cross_entropy(a.detach(), b)

    with pytest.raises(CannotCapture) as e:
        capture_train_step(model, loss_fn, torch.optim.SGD(model.parameters(), 0.1), (X, Y))
    assert said(e) == (
        "backward() from a loss that leads to nothing to train: no parameter with "
        "requires_grad=True takes part in it, or the way to it is cut\n"
        "  from test_refusals.py  capture_train_step(model, loss_fn, "
        "torch.optim.SGD(model.parameters(), 0.1), (X, Y))\n"
        "  try: requires_grad_(True) on what is trained; no detach(), argmax() or torch.no_grad() "
        "between model and loss, nor around train_step; checkpoint(..., use_reentrant=False)")
