"""What a user gives to `train_step` and `inference`, looked at before anything is traced."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.nn.parameter import is_lazy

from handtorch.capture.builder import DTYPES
from handtorch.capture.lines import line_at
from handtorch.capture.slots import Named
from handtorch.errors import BadInput, CannotCapture

_INT32 = torch.iinfo(torch.int32)


def checked_example(example: Sequence[Any]) -> list[torch.Tensor]:
    """The example as tensors; each is on the CPU, of a type the device has, and not empty."""
    if isinstance(example, torch.Tensor):
        raise BadInput("example is one tensor", why="it is a tuple, also of one input",
                       fix="example=(x,)")
    if not isinstance(example, list | tuple):
        raise BadInput(f"example is a {type(example).__name__}",
                       why="inputs go by their place", fix="a tuple of tensors, example=(x, y)")
    return [_checked(f"example[{i}]", x) for i, x in enumerate(example)]


def _checked(name: str, x: Any) -> torch.Tensor:
    try:
        tensor = torch.as_tensor(x).detach()
    except (TypeError, ValueError, RuntimeError) as e:
        raise BadInput(f"{name} is a {type(x).__name__}", why="a batch is made of tensors",
                       fix="a tensor or an array for each argument; nested ones as several") from e
    if tensor.device.type != "cpu":
        raise BadInput(f"{name} is on {tensor.device}", why="batches are read from the CPU",
                       fix="x.cpu(); HandTorch copies it to the device itself")
    if tensor.layout != torch.strided:
        raise BadInput(f"{name} is sparse", why="the device has dense tensors only",
                       fix="x.to_dense()")
    if tensor.dtype not in DTYPES:
        raise BadInput(f"{name} is {_name(tensor.dtype)}{list(tensor.shape)}",
                       why="HandTorch computes in float32 and int32",
                       fix="x.float(), or y.long() for labels and indices")
    if not tensor.numel():
        raise BadInput(f"{name} is empty, of shape {list(tensor.shape)}",
                       why="there would be nothing to compute", fix="a batch of at least one")
    return tensor


def check_models(models: Named) -> None:
    """Every parameter and buffer is one that the device can hold."""
    for prefix, model in models:
        if isinstance(model, type) or not isinstance(model, torch.nn.Module):
            given = f"the class {model.__name__}" if isinstance(model, type) else (
                f"a {type(model).__name__}")
            raise BadInput(f"a model that is {given}", why="a torch.nn.Module is needed",
                           fix="an instance of your module; for a step of your own, "
                               "train_step(fn, models=[...], optimizers=[...], example=(...))")
        for path, module in model.named_modules():
            if isinstance(module, torch.jit.ScriptModule):
                raise BadInput(f"{path or 'the model'} was made by torch.jit",
                               why="its code is no longer Python, and cannot be followed",
                               fix="give the module as it was before torch.jit")
        for path, tensor in (*model.named_parameters(), *model.named_buffers()):
            _check_held(f"{prefix}.{path}" if prefix else path, tensor)


def _check_held(name: str, tensor: torch.Tensor) -> None:
    if is_lazy(tensor):
        raise BadInput(f"{name} has no shape yet", why="it is made at the first forward",
                       fix="model(*example_inputs) once, then the optimizer, then the step")
    if tensor.device.type != "cpu":
        raise BadInput(f"{name} is on {tensor.device}",
                       why="weights are read from the CPU",
                       fix="model.cpu() before; HandTorch puts them on the device itself")
    if tensor.dtype not in DTYPES:
        raise BadInput(f"{name} is {_name(tensor.dtype)}",
                       why="HandTorch computes in float32 and int32",
                       fix="model.float() and inputs.float()")
    if not tensor.numel():
        raise BadInput(f"{name} is empty, of shape {list(tensor.shape)}",
                       why="the device holds at least one number of each",
                       fix="a layer without sides of 0; None instead of an empty buffer")
    if tensor.dtype == torch.int64:
        least, most = int(tensor.min()), int(tensor.max())
        if least < _INT32.min or most > _INT32.max:     # would become another, valid number
            raise BadInput(f"{name} holds numbers from {least} to {most}",
                           why=f"the device has 32 bits for them, {_INT32.min} to {_INT32.max}",
                           fix="smaller numbers, or float32")


def check_optimizers(optimizers: Sequence[Any]) -> None:
    for o in optimizers:
        if isinstance(o, type) or not isinstance(o, torch.optim.Optimizer):
            given = f"the class {o.__name__}" if isinstance(o, type) else f"a {type(o).__name__}"
            raise BadInput(f"an optimizer that is {given}", why="one of torch.optim is needed",
                           fix="torch.optim.SGD(model.parameters(), lr=0.1), for example")


def check_function(name: str, fn: Any, count: int) -> None:
    """`fn` can be called with `count` arguments by place."""
    if isinstance(fn, type) or not callable(fn):
        given = f"the class {fn.__name__}" if isinstance(fn, type) else f"a {type(fn).__name__}"
        raise BadInput(f"{name} is {given}", why="it is called with tensors",
                       fix=f"{fn.__name__}()" if isinstance(fn, type) else "a function or a module")
    body = fn.forward if isinstance(fn, torch.nn.Module) else fn
    try:
        signature = inspect.signature(body)
    except ValueError:                                  # built-in functions have none to read
        return
    try:
        signature.bind(*range(count))
    except TypeError as e:
        raise BadInput(f"{name} cannot take {count} argument(s)", why=str(e), where=line_of(body),
                       fix="example=(...) with one tensor for each argument, the last of "
                           "train_step(model, loss_fn, ...) being the target") from e


def check_loss(loss: Any, loss_fn: Callable[..., Any]) -> None:
    """One number to go backward from."""
    if not isinstance(loss, torch.Tensor):
        raise CannotCapture(f"a loss of type {type(loss).__name__}",
                            why="backward needs a tensor of one number", where=line_of(loss_fn),
                            fix="return the loss alone, as a tensor; for more, "
                                "train_step(fn, models=[...], optimizers=[...], example=(...))")
    if loss.dim() != 0:
        raise CannotCapture(f"a loss of shape {list(loss.shape)}",
                            why="backward needs a single number", where=line_of(loss_fn),
                            fix="loss.mean()")


def line_of(fn: Any) -> str:
    """Where the user wrote a function; empty for torch's own."""
    code = getattr(inspect.unwrap(fn), "__code__", None)
    if code is None or type(fn).__module__.startswith("torch."):
        return ""
    file = str(code.co_filename)
    return "" if file.startswith(_TORCH) else str(line_at(file, code.co_firstlineno))


_TORCH = str(torch.__path__[0])


def _name(kind: torch.dtype) -> str:
    return str(kind).removeprefix("torch.")
