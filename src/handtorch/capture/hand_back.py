"""What the device has learnt goes back into torch's own objects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from numpy.typing import NDArray

from handtorch.capture.slots import with_prefixes
from handtorch.errors import BadInput
from handtorch.graph.ties import Home

Array = NDArray[Any]
_LIKE_IT = "sync to the model the step was made from, or one built like it"


def copy_into(models: Sequence[torch.nn.Module], arrays: Mapping[str, Array]) -> None:
    """Parameters and buffers of `models` become `arrays`; each must have one of its name."""
    own = _tensors_by_name(models)
    for name, array in arrays.items():
        if name not in own or tuple(own[name].shape) != array.shape:
            have = list(own[name].shape) if name in own else "nothing of that name"
            raise BadInput(f"{name} of shape {list(array.shape)}", why=f"the model has {have}",
                           fix=_LIKE_IT)
        if own[name].is_meta:
            raise BadInput(f"{name} of the model is on meta", why="it has no memory to copy into",
                           fix="model.to_empty(device='cpu') before")
    if more := sorted(own.keys() - arrays.keys()):
        raise BadInput(f"the model has {', '.join(more[:3])}", fix=_LIKE_IT,
                       why=f"the step has nothing of {len(more)} of its names")
    with torch.no_grad():
        for name, array in arrays.items():
            own[name].copy_(torch.from_numpy(array))


def copy_into_optimizers(optimizers: Sequence[torch.optim.Optimizer],
                         models: Sequence[torch.nn.Module], homes: Sequence[Home],
                         arrays: Mapping[str, Array]) -> None:
    """Afterwards torch's optimizers continue where the device is: all state lies where torch
    keeps it, each parameter's own copy."""
    own = _tensors_by_name(models)
    count = 1 + max((h.optimizer for h in homes), default=0)
    if len(optimizers) < count:
        raise BadInput(f"{len(optimizers)} optimizer(s)", why=f"the step was made with {count}",
                       fix="give all of them, in the same order")
    for home in homes:
        optimizer = optimizers[home.optimizer]
        if type(optimizer).__name__ != home.kind:
            raise BadInput(f"sync to {type(optimizer).__name__}",
                           why=f"the step was made with {home.kind}, whose state is another",
                           fix="the optimizer of this model, built as at capture")
        held = {id(p) for g in optimizer.param_groups for p in g["params"]}
        for name in home.params:
            if id(own[name]) not in held:
                raise BadInput(f"the optimizer does not hold {name}",
                               fix="sync to the optimizer of this model, built as at capture")
            new = torch.from_numpy(arrays[home.state].copy())
            before = optimizer.state[own[name]].get(home.key)
            optimizer.state[own[name]][home.key] = (
                new if before is None else new.to(before.dtype).reshape(before.shape))


def _tensors_by_name(models: Sequence[torch.nn.Module]) -> dict[str, torch.Tensor]:
    """Each once, under the first of its names, as in the step."""
    found: dict[int, tuple[str, torch.Tensor]] = {}
    for prefix, model in with_prefixes(models):
        if not isinstance(model, torch.nn.Module):
            raise BadInput(f"sync_to a {type(model).__name__}", why="weights go into a module",
                           fix=_LIKE_IT)
        for name, tensor in (*model.named_parameters(), *model.named_buffers()):
            found.setdefault(id(tensor), (f"{prefix}.{name}" if prefix else name, tensor))
    return dict(found.values())
