"""A model of the zoo as a list of layers in plain data, for engines that know no torch.

    {"layers": [{"name": "features_0", "op": "Conv2d", "inputs": ["x"], "stride": [1, 1], ...}],
     "output": "flatten", "loss": "cross_entropy",
     "optimizer": {"kind": "SGD", "lr": 0.01, "momentum": 0.9, ...}}

An op is the class of torch's module or the name of its function; weights are told by their names in
the `state_dict`. What is no chain of such calls (loops over time, several nets) is refused."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import fx, nn
from torch.optim import Optimizer

from handtorch.errors import BadInput
from handtorch.zoo.entry import Entry

# By class what else must be known of a module; its weight and bias are told anyway.
_MODULES: dict[type[nn.Module], tuple[str, ...]] = {
    nn.Conv2d: ("stride", "padding", "dilation", "groups"), nn.Linear: (),
    nn.BatchNorm2d: ("eps", "momentum"), nn.ReLU: (), nn.ReLU6: (), nn.Tanh: (), nn.Identity: (),
    nn.Flatten: ("start_dim",), nn.MaxPool2d: ("kernel_size", "stride", "padding", "ceil_mode"),
    nn.AvgPool2d: ("kernel_size", "stride", "padding", "ceil_mode"),
    nn.AdaptiveAvgPool2d: ("output_size",),
}
_SETTINGS = ("lr", "momentum", "dampening", "weight_decay", "nesterov", "betas", "eps")


def layer_list(entry: Entry, model: nn.Module, optimizers: list[Optimizer]) -> dict[str, Any]:
    """The forward pass, the loss and the update. Raises BadInput where it is more than that."""
    name = getattr(entry.loss, "__name__", "none")
    if entry.special_step is not None or len(optimizers) != 1 or entry.fed != (0, -1):
        raise _refused(entry, "its step is more than a model, a loss and an update")
    try:
        traced = fx.symbolic_trace(model)
    except (fx.proxy.TraceError, TypeError) as e:
        raise _refused(entry, f"its forward pass depends on its values: {e}") from e
    layers, output = [], ""
    for node in traced.graph.nodes:
        if node.op == "output":
            output = str(node.args[0])
        elif node.op == "placeholder":
            layers.append({"name": node.name, "op": "input", "inputs": []})
        else:
            layers.append({"name": node.name, **_layer(entry, traced, node)})
    group = optimizers[0].param_groups[0]
    update = {key: group[key] for key in _SETTINGS if key in group}
    return {"layers": layers, "output": output, "loss": name,
            "optimizer": {"kind": type(optimizers[0]).__name__, **update}}


def _layer(entry: Entry, traced: fx.GraphModule, node: fx.Node) -> dict[str, Any]:
    if node.op == "call_module":
        return _module(entry, traced.get_submodule(str(node.target)), node)
    told = _FUNCTIONS.get(node.target if node.op == "call_function" else str(node.target))
    if told is None:
        raise _refused(entry, f"it calls {getattr(node.target, '__name__', node.target)}")
    return told(node)


def _module(entry: Entry, module: nn.Module, node: fx.Node) -> dict[str, Any]:
    if isinstance(module, nn.Dropout):          # started models drop nothing out
        return {"op": "Identity", "inputs": _names(node.args)}
    if type(module) not in _MODULES:
        raise _refused(entry, f"it has a layer {type(module).__name__}")
    tensors = {n: f"{node.target}.{n}" for n in ("weight", "bias", "running_mean", "running_var")
               if getattr(module, n, None) is not None}
    return {"op": type(module).__name__, "inputs": _names(node.args), **tensors,
            **{key: getattr(module, key) for key in _MODULES[type(module)]}}


def _names(args: Any) -> list[str]:
    """The values among the arguments, those in lists too."""
    return [a.name for a in args if isinstance(a, fx.Node)] + [
        a.name for group in args if isinstance(group, list | tuple) for a in group
        if isinstance(a, fx.Node)]


def _cat(node: fx.Node) -> dict[str, Any]:
    return {"op": "cat", "inputs": _names(node.args),
            "dim": node.kwargs.get("dim", node.args[1] if len(node.args) > 1 else 0)}


def _flatten(node: fx.Node) -> dict[str, Any]:
    return {"op": "Flatten", "inputs": _names(node.args),
            "start_dim": node.kwargs.get("start_dim", node.args[1] if len(node.args) > 1 else 0)}


def _plain(op: str) -> Callable[[fx.Node], dict[str, Any]]:
    return lambda node: {"op": op, "inputs": _names(node.args)}


_FUNCTIONS: dict[Any, Callable[[fx.Node], dict[str, Any]]] = {
    torch.cat: _cat, torch.flatten: _flatten, "flatten": _flatten, torch.relu: _plain("ReLU"),
    nn.functional.relu: _plain("ReLU"), torch.add: _plain("add"), "add": _plain("add"),
    operator.add: _plain("add"), operator.iadd: _plain("add"),
}


def _refused(entry: Entry, why: str) -> BadInput:
    return BadInput(f"{entry.name} as a list of layers", why=why)
