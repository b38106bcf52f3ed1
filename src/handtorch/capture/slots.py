"""The tensors a step finds in its models, and their stand-ins while it is traced."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from handtorch.errors import CannotCapture

Named = Sequence[tuple[str, torch.nn.Module]]


@dataclass(frozen=True)
class Slot:
    """One distinct parameter or buffer, and every (dictionary, key) that holds it."""

    name: str
    role: str
    tensor: torch.Tensor
    holders: tuple[tuple[dict[str, Any], str], ...]

    def twin(self, value: torch.Tensor) -> torch.Tensor:
        """`value` in its stead: it wants a gradient where this does, and has the same hooks."""
        value.requires_grad_(self.tensor.requires_grad)
        for hook in (self.tensor._backward_hooks or {}).values():
            value.register_hook(hook)
        for hook in (getattr(self.tensor, "_post_accumulate_grad_hooks", None) or {}).values():
            value.register_post_accumulate_grad_hook(hook)
        return value


def with_prefixes(models: Sequence[torch.nn.Module]) -> Named:
    """One model's tensors go by their own names, those of several as `model0.NAME`."""
    return [(f"model{i}" if len(models) > 1 else "", m) for i, m in enumerate(models)]


def slots_of(models: Named) -> tuple[Slot, ...]:
    """Every parameter and buffer once, tied weights under their first name."""
    holders: dict[int, list[tuple[dict[str, Any], str]]] = {}
    first: dict[int, tuple[str, str, torch.Tensor]] = {}
    seen: set[tuple[int, str]] = set()              # two models may share a module
    for prefix, model in models:
        for path, module in model.named_modules(remove_duplicate=True):
            for role, store in (("parameter", module._parameters), ("buffer", module._buffers)):
                for key, tensor in store.items():
                    if tensor is None or (id(store), key) in seen:
                        continue
                    seen.add((id(store), key))
                    name = ".".join(x for x in (prefix, path, key) if x)
                    first.setdefault(id(tensor), (name, role, tensor))
                    holders.setdefault(id(tensor), []).append((store, key))
    return tuple(Slot(n, r, t, tuple(holders[key])) for key, (n, r, t) in first.items())


@contextmanager
def swapped(slots: Sequence[Slot], twins: Sequence[torch.Tensor]) -> Iterator[None]:
    """Modules hold the twins, whatever happens only as long as this is entered."""
    for slot, twin in zip(slots, twins, strict=True):
        for store, key in slot.holders:
            store[key] = twin
    try:
        yield
    finally:
        for slot in slots:
            for store, key in slot.holders:
                store[key] = slot.tensor


def memory_of(twin: torch.Tensor) -> int:
    """Another number when the tensor has got other memory: after `twin.data = new`."""
    return int(twin.untyped_storage()._cdata)


def left_in(slot: Slot, twin: torch.Tensor, memory: int) -> torch.Tensor:
    """What the module holds when the step ends: the twin, or what a buffer was replaced by."""
    store, key = slot.holders[0]
    now: torch.Tensor | None = store[key]
    if now is twin:
        if memory_of(twin) != memory:               # a trace does not see that happen
            raise CannotCapture(f"{slot.name}.data is another tensor after the step",
                                why="the device holds one tensor in its place",
                                fix="write into it: p.data.copy_(new) instead of p.data = new")
        return twin
    if (slot.role == "buffer" and now is not None and now.shape == twin.shape
            and now.dtype == twin.dtype and len(slot.holders) == 1):
        return now
    raise CannotCapture(f"{slot.name} is replaced by another object in the step",
                        why="the device holds one tensor of fixed shape and type in its place",
                        fix="write into it: tensor.copy_(new) under torch.no_grad()")


@contextmanager
def layer_names(models: Named) -> Iterator[Callable[[], str]]:
    """The path of the innermost module that is running."""
    stack: list[str] = []
    hooks = []
    for prefix, model in models:
        for path, module in model.named_modules():
            name = ".".join(x for x in (prefix, path) if x)
            hooks.append(module.register_forward_pre_hook(
                lambda _m, _a, name=name: stack.append(name)))
            hooks.append(module.register_forward_hook(
                lambda _m, _a, _o: (stack.pop(), None)[1], always_call=True))
    try:
        yield lambda: stack[-1] if stack else ""
    finally:
        for hook in hooks:
            hook.remove()
