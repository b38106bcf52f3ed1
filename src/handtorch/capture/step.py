"""What `ht.train_step` and `ht.inference` capture, with the starting values of all state."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from handtorch.capture.convert import to_graph
from handtorch.capture.trace import Traced, optimizer_state, trace
from handtorch.errors import BadInput, CannotCapture
from handtorch.graph.node import Graph

Array = NDArray[Any]


@dataclass(frozen=True)
class Captured:
    """`rates` pairs each learning-rate state with the torch group it follows."""

    graph: Graph
    states: Mapping[str, Array]
    rates: tuple[tuple[str, dict[str, Any]], ...]


def capture_train_step(model: torch.nn.Module, loss_fn: Callable[..., torch.Tensor],
                       optimizer: torch.optim.Optimizer, example: Sequence[Any]) -> Captured:
    """Forward, loss, backward and update of `loss_fn(model(*inputs), target)` as one graph.

    The last tensor of `example` is the target. Model and optimizer are left as they were."""
    batch = _tensors(example)
    if len(batch) < 2:
        raise BadInput(f"example holds {len(batch)} tensor(s)", why="it needs inputs and a target",
                       fix="example=(x, y)")

    def step(*tensors: torch.Tensor) -> torch.Tensor:
        *inputs, target = tensors
        loss = loss_fn(model(*inputs), target)
        if loss.dim() != 0:
            raise CannotCapture(f"a loss of shape {list(loss.shape)}",
                                why="backward needs a single number", fix="loss.mean()")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    _check_model(model)
    traced = trace(step, [model], [optimizer], batch)
    names = [f"x{i}" if len(batch) > 2 else "x" for i in range(len(batch) - 1)] + ["y"]
    return _captured(traced, names, [optimizer])


def capture_inference(model: torch.nn.Module, example: Sequence[Any]) -> Captured:
    """`model(*example)` in eval mode, without gradients; the model's mode is put back."""
    batch = _tensors(example)

    def step(*tensors: torch.Tensor) -> Any:
        with torch.no_grad():
            return model(*tensors)

    _check_model(model)
    training = [m for m in model.modules() if m.training]
    model.eval()
    try:
        traced = trace(step, [model], [], batch)
    finally:
        for module in training:
            module.training = True
    names = [f"x{i}" if len(batch) > 1 else "x" for i in range(len(batch))]
    return _captured(traced, names, [])


def capture_function(fn: Callable[..., Any], example: Sequence[Any]) -> Captured:
    """A plain function of tensors, gradients inside it included; it has no state."""
    batch = _tensors(example)
    return _captured(trace(fn, [], [], batch), [f"x{i}" for i in range(len(batch))], [])


def copy_into(model: torch.nn.Module, arrays: Mapping[str, Array]) -> None:
    """Parameters and buffers of `model`, by name, become `arrays`; nothing else changes."""
    own = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    for name, array in arrays.items():
        if name not in own or tuple(own[name].shape) != array.shape:
            have = list(own[name].shape) if name in own else "nothing of that name"
            raise BadInput(f"{name} of shape {list(array.shape)}", why=f"the model has {have}",
                           fix="sync to the model the step was made from, or one built like it")
    with torch.no_grad():
        for name, array in arrays.items():
            own[name].copy_(torch.from_numpy(array))


def copy_into_optimizer(optimizer: torch.optim.Optimizer, model: torch.nn.Module,
                        arrays: Mapping[str, Array]) -> None:
    """Optimizer state named `optimizer.KEY.PARAMETER` goes where torch keeps it."""
    params = dict(model.named_parameters())
    for name, array in arrays.items():
        _, key, path = name.split(".", 2)
        optimizer.state[params[path]][key] = torch.from_numpy(array.copy())


def _captured(traced: Traced, names: Sequence[str],
              optimizers: Sequence[torch.optim.Optimizer]) -> Captured:
    states = {s.name: _array(s.tensor) for s in traced.slots}
    states |= {m.name: _array(optimizer_state(optimizers, m)) for m in traced.moments}
    groups = [g for o in optimizers for g in o.param_groups]
    states |= {n: np.array([g["lr"]], "f4") for n, g in zip(traced.rates, groups, strict=True)}
    return Captured(to_graph(traced, names), states, tuple(zip(traced.rates, groups, strict=True)))


def _array(tensor: torch.Tensor) -> Array:
    return tensor.detach().numpy().copy()


def _tensors(example: Sequence[Any]) -> list[torch.Tensor]:
    if isinstance(example, torch.Tensor):
        raise BadInput("example is one tensor", fix="a tuple of tensors, example=(x,)")
    return [torch.as_tensor(x).detach() for x in example]


def _check_model(model: torch.nn.Module) -> None:
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        if tensor.device.type != "cpu":
            raise BadInput(f"{name} is on {tensor.device}", why="weights are read from the CPU",
                           fix="model.cpu() before; HandTorch puts them on the device itself")
