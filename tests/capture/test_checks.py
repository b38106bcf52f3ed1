"""What is given to `train_step` and `inference`, refused before anything is traced."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from handtorch.capture.step import capture_inference, capture_train_step, capture_user_step
from handtorch.errors import BadInput, CannotCapture
from tests.capture.user_steps import said

X, Y = torch.zeros(4, 3), torch.tensor([0, 1, 1, 0])
CE = nn.CrossEntropyLoss()
FLOAT32 = "HandTorch computes in float32 and int32"
IN_TENSORS = ("a batch is made of tensors\n"
              "  try: a tensor or an array for each argument; nested ones as several")


def captured(model: Any = None, loss_fn: Any = CE, optimizer: Any = None,
             example: Any = (X, Y)) -> Any:
    model = model if model is not None else nn.Linear(3, 2)
    if optimizer is None:
        optimizer = torch.optim.SGD([nn.Parameter(X)], 0.1)
    return capture_train_step(model, loss_fn, optimizer, example)


@pytest.mark.parametrize(("example", "message"), [
    (X, "example is one tensor: it is a tuple, also of one input\n  try: example=(x,)"),
    (None, "example is a NoneType: inputs go by their place\n"
           "  try: a tuple of tensors, example=(x, y)"),
    ({"x": X}, "example is a dict: inputs go by their place\n"
               "  try: a tuple of tensors, example=(x, y)"),
    ((X,), "example holds 1 tensor(s): it needs inputs and a target\n  try: example=(x, y)"),
    (("text", Y), f"example[0] is a str: {IN_TENSORS}"),
    ((X, None), f"example[1] is a NoneType: {IN_TENSORS}"),
    (((X, X), Y), f"example[0] is a tuple: {IN_TENSORS}"),
    ((X.to("meta"), Y), "example[0] is on meta: batches are read from the CPU\n"
                        "  try: x.cpu(); HandTorch copies it to the device itself"),
    ((X.to_sparse(), Y), "example[0] is sparse: the device has dense tensors only\n"
                         "  try: x.to_dense()"),
    ((X.double(), Y), f"example[0] is float64[4, 3]: {FLOAT32}\n"
                      "  try: x.float(), or y.long() for labels and indices"),
    ((X, Y.byte()), f"example[1] is uint8[4]: {FLOAT32}\n"
                    "  try: x.float(), or y.long() for labels and indices"),
    ((X[:0], Y[:0]), "example[0] is empty, of shape [0, 3]: there would be nothing to compute\n"
                     "  try: a batch of at least one"),
], ids=["tensor", "none", "dict", "no target", "text", "none inside", "nested", "meta", "sparse",
        "double", "bytes", "empty"])
def test_an_example_of_another_kind(example: Any, message: str) -> None:
    with pytest.raises(BadInput) as e:
        captured(example=example)
    assert said(e) == message


class Holding(nn.Linear):
    def __init__(self, tensor: torch.Tensor) -> None:
        super().__init__(3, 2)
        self.register_buffer("held", tensor)


A_MODULE = ("  try: an instance of your module; for a step of your own, "
            "train_step(fn, models=[...], optimizers=[...], example=(...))")
BEFORE_JIT = ("its code is no longer Python, and cannot be followed\n"
              "  try: give the module as it was before torch.jit")


@pytest.mark.parametrize(("model", "message"), [
    (lambda x: x, f"a model that is a function: a torch.nn.Module is needed\n{A_MODULE}"),
    (nn.Linear, f"a model that is the class Linear: a torch.nn.Module is needed\n{A_MODULE}"),
    (nn.Sequential(torch.jit.script(nn.ReLU())), f"0 was made by torch.jit: {BEFORE_JIT}"),
    (nn.LazyLinear(2), "weight has no shape yet: it is made at the first forward\n"
                       "  try: model(*example_inputs) once, then the optimizer, then the step"),
    (nn.Linear(3, 2, device="meta"),
     "weight is on meta: weights are read from the CPU\n"
     "  try: model.cpu() before; HandTorch puts them on the device itself"),
    (nn.Linear(3, 2).bfloat16(),
     f"weight is bfloat16: {FLOAT32}\n  try: model.float() and inputs.float()"),
    (Holding(torch.zeros(0, 2)),
     "held is empty, of shape [0, 2]: the device holds at least one number of each\n"
     "  try: a layer without sides of 0; None instead of an empty buffer"),
    (Holding(torch.tensor([1, 2**40])),
     "held holds numbers from 1 to 1099511627776: the device has 32 bits for them, -2147483648 to "
     "2147483647\n  try: smaller numbers, or float32"),
], ids=["function", "class", "jit", "lazy", "meta", "bfloat16", "empty", "64 bits"])
def test_a_model_of_another_kind(model: Any, message: str) -> None:
    with pytest.raises(BadInput) as e:
        captured(model)
    assert said(e) == message
    with pytest.raises(BadInput) as e:
        capture_inference(model, (X,))
    assert said(e) == message
    with pytest.raises(BadInput) as e:
        capture_user_step(lambda x: x, [model], [], (X,))
    assert said(e) == message


@pytest.mark.parametrize(("optimizer", "given"), [
    ("sgd", "a str"), (torch.optim.SGD, "the class SGD"), (CE, "a CrossEntropyLoss")])
def test_an_optimizer_of_another_kind(optimizer: Any, given: str) -> None:
    with pytest.raises(BadInput) as e:
        captured(optimizer=optimizer)
    assert said(e) == (f"an optimizer that is {given}: one of torch.optim is needed\n"
                       "  try: torch.optim.SGD(model.parameters(), lr=0.1), for example")


def one_argument(a: torch.Tensor) -> torch.Tensor:
    return a.sum()


ONE_EACH = ("  try: example=(...) with one tensor for each argument, the last of "
            "train_step(model, loss_fn, ...) being the target")


def test_functions_are_called_with_what_they_take() -> None:
    for loss_fn, message in (
            (3, "loss_fn is a int: it is called with tensors\n  try: a function or a module"),
            (nn.MSELoss, "loss_fn is the class MSELoss: it is called with tensors\n"
                         "  try: MSELoss()"),
            (one_argument, "loss_fn cannot take 2 argument(s): too many positional arguments\n"
                           "  from test_checks.py  def one_argument(a: torch.Tensor) -> "
                           f"torch.Tensor:\n{ONE_EACH}")):
        with pytest.raises(BadInput) as e:
            captured(loss_fn=loss_fn)
        assert said(e) == message
    with pytest.raises(BadInput) as e:
        captured(example=(X, X, Y))
    assert said(e) == f"model cannot take 2 argument(s): too many positional arguments\n{ONE_EACH}"
    with pytest.raises(BadInput) as e:
        capture_user_step(one_argument, [], [], (X, Y))
    assert said(e).startswith("the step cannot take 2 argument(s): too many positional arguments\n"
                              "  from test_checks.py  def one_argument(")


def no_number(a: torch.Tensor, b: torch.Tensor) -> Any:
    return a.sum(), b


def many_numbers(a: torch.Tensor, b: torch.Tensor) -> Any:
    return a.sum(1)


@pytest.mark.parametrize(("loss_fn", "message"), [
    (no_number,
     "a loss of type tuple: backward needs a tensor of one number\n"
     "  from test_checks.py  def no_number(a: torch.Tensor, b: torch.Tensor) -> Any:\n"
     "  try: return the loss alone, as a tensor; for more, "
     "train_step(fn, models=[...], optimizers=[...], example=(...))"),
    (many_numbers,
     "a loss of shape [4]: backward needs a single number\n"
     "  from test_checks.py  def many_numbers(a: torch.Tensor, b: torch.Tensor) -> Any:\n"
     "  try: loss.mean()"),
])
def test_a_loss_of_another_kind(loss_fn: Any, message: str) -> None:
    model = nn.Linear(3, 2)
    with pytest.raises(CannotCapture) as e:
        captured(model, loss_fn, torch.optim.SGD(model.parameters(), 0.1))
    assert said(e) == message


class Silent(nn.Module):
    def forward(self, x: torch.Tensor) -> None:
        x.sum()


def test_a_model_that_gives_nothing() -> None:
    with pytest.raises(CannotCapture) as e:
        capture_inference(Silent(), (X,))
    assert said(e) == ("the model returns None: there is nothing to hand back\n"
                       "  from test_checks.py  def forward(self, x: torch.Tensor) -> None:\n"
                       "  try: return a tensor from forward")
