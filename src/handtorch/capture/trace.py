"""The user's step -> one functional fx graph of core ATen ops, with origins on every node.

The user's code runs as it is, on stand-in tensors: parameters, buffers and optimizer state are
swapped for the traced ones while it runs and put back afterwards, whatever happens."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import torch
from torch.func import functionalize
from torch.fx import GraphModule, Interpreter, Node
from torch.fx.experimental.proxy_tensor import get_proxy_mode, make_fx
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.utils._pytree import tree_map

from handtorch.capture.lines import Lines, user_line_of
from handtorch.capture.optimizers import Moment, moments_of, update
from handtorch.capture.table import decompositions, patches
from handtorch.errors import CannotCapture


@dataclass(frozen=True)
class Slot:
    """One distinct parameter or buffer, and every (dictionary, key) that holds it."""

    name: str
    role: str
    tensor: torch.Tensor
    holders: tuple[tuple[dict[str, Any], str], ...]


@dataclass(frozen=True)
class Traced:
    """`graph` takes values, moments, rates and the batch; gives outputs, values, moments."""

    graph: GraphModule
    slots: tuple[Slot, ...]
    moments: tuple[Moment, ...]
    rates: tuple[str, ...]
    outputs: int


def slots_of(models: Sequence[torch.nn.Module]) -> tuple[Slot, ...]:
    """Every parameter and buffer once, tied weights under their first name."""
    holders: dict[int, list[tuple[dict[str, Any], str]]] = {}
    first: dict[int, tuple[str, str, torch.Tensor]] = {}
    for number, model in enumerate(models):
        prefix = f"model{number}." if len(models) > 1 else ""
        for path, module in model.named_modules(remove_duplicate=True):
            for role, store in (("parameter", module._parameters), ("buffer", module._buffers)):
                for key, tensor in store.items():
                    if tensor is None:
                        continue
                    name = prefix + (f"{path}.{key}" if path else key)
                    first.setdefault(id(tensor), (name, role, tensor))
                    holders.setdefault(id(tensor), []).append((store, key))
    return tuple(Slot(n, r, t, tuple(holders[key])) for key, (n, r, t) in first.items())


def trace(fn: Callable[..., Any], models: Sequence[torch.nn.Module],
          optimizers: Sequence[torch.optim.Optimizer], example: Sequence[torch.Tensor]) -> Traced:
    """Run `fn(*example)` once on fake tensors and keep what it did."""
    slots = slots_of(models)
    named = {id(s.tensor): s.name for s in slots}
    moments, rates, starts = [], [], []
    for number, optimizer in enumerate(optimizers):
        prefix = f"optimizer{number}" if len(optimizers) > 1 else "optimizer"
        moments += moments_of(optimizer, named, prefix)
        for index, group in enumerate(optimizer.param_groups):
            rates.append(f"{prefix}.{index}.lr")
            starts.append(torch.tensor([float(group["lr"])]))
    outputs = 0

    def step(values: list[torch.Tensor], state: list[torch.Tensor], lrs: list[torch.Tensor],
             batch: list[torch.Tensor]) -> Any:
        nonlocal outputs
        # Cloned, so that writes into parameters stay off the inputs of the graph.
        twins = [v.clone().requires_grad_(s.tensor.requires_grad)
                 for s, v in zip(slots, values, strict=True)]
        kept = [v.clone() for v in state]
        with ExitStack() as undo:
            layers = undo.enter_context(_layer_names(models))
            lines = Lines(layers)
            undo.enter_context(_swapped(slots, twins))
            undo.enter_context(_rebound(optimizers, slots, twins, moments, kept, lrs, lines))
            undo.enter_context(lines)
            out = fn(*batch)
        flat = [out] if isinstance(out, torch.Tensor) else list(out)
        outputs = len(flat)
        return (tree_map(torch.Tensor.detach, flat), [t.detach() for t in twins], kept)

    values = [s.tensor.detach() for s in slots]
    state = [optimizer_state(optimizers, m) for m in moments]
    table = decompositions()
    arguments = (values, state, starts, list(example))
    with _readable_errors(), patches():
        raw = make_fx(step, table, tracing_mode="fake")(*arguments)
        pure = make_fx(functionalize(_Tagging(raw).run, remove="mutations"), table,
                       tracing_mode="fake")(*_flat(arguments))
    _strip(pure)
    return Traced(pure, slots, tuple(moments), tuple(rates), outputs)


def optimizer_state(optimizers: Sequence[torch.optim.Optimizer], m: Moment) -> torch.Tensor:
    for optimizer in optimizers:
        if m.param in optimizer.state and m.key in optimizer.state[m.param]:
            tensor: torch.Tensor = optimizer.state[m.param][m.key]
            return tensor.detach()
    raise AssertionError(f"{m.name} was made by moments_of")


def _flat(arguments: Any) -> list[Any]:
    return [t for part in arguments for t in part]


class _Tagging(Interpreter):
    """Replays a traced graph; nodes traced from it inherit the origin of the node replayed."""

    def run_node(self, n: Node) -> Any:
        mode = get_proxy_mode()
        nodes = mode.tracer.graph.nodes if mode is not None else ()
        last = next(iter(reversed(nodes)), None) if nodes else None
        out = super().run_node(n)
        for new in takewhile(lambda x: x is not last, reversed(nodes) if nodes else ()):
            if "origin" in n.meta:
                new.meta.setdefault("origin", n.meta["origin"])
        return out


@contextmanager
def _swapped(slots: Sequence[Slot], twins: Sequence[torch.Tensor]) -> Iterator[None]:
    for slot, twin in zip(slots, twins, strict=True):
        for store, key in slot.holders:
            store[key] = twin
    try:
        yield
    finally:
        for slot in slots:
            for store, key in slot.holders:
                store[key] = slot.tensor


@contextmanager
def _rebound(optimizers: Sequence[torch.optim.Optimizer], slots: Sequence[Slot],
             twins: Sequence[torch.Tensor], moments: Sequence[Moment],
             kept: Sequence[torch.Tensor], lrs: Sequence[torch.Tensor], lines: Lines
             ) -> Iterator[None]:
    """Optimizers hold the twins and the traced state, and `step` is our update."""
    twin_of = {id(s.tensor): t for s, t in zip(slots, twins, strict=True)}
    saved = [(o, o.state, [list(g["params"]) for g in o.param_groups], o.__dict__.get("step"))
             for o in optimizers]
    rates = iter(lrs)
    try:
        for o in optimizers:
            mine = [next(rates) for _ in o.param_groups]
            state: dict[Any, dict[str, Any]] = {}
            for group in o.param_groups:
                group["params"] = [_twin(twin_of, p) for p in group["params"]]
                state |= {p: {} for p in group["params"]}
            for moment, tensor in zip(moments, kept, strict=True):
                if (twin := twin_of.get(id(moment.param))) in state:
                    state[twin][moment.key] = tensor
            o.state = state  # type: ignore[assignment]
            o.__dict__["step"] = _optimizer_step(o, mine, lines)
        yield
    finally:
        for o, state_before, params, step_before in saved:
            o.__dict__.pop("step", None)
            if step_before is not None:             # a scheduler had wrapped it
                o.__dict__["step"] = step_before
            o.__dict__["_opt_called"] = True        # what schedulers look at before they warn
            o.state = state_before
            for group, before in zip(o.param_groups, params, strict=True):
                group["params"] = before


def _twin(twin_of: dict[int, torch.Tensor], p: torch.Tensor) -> torch.Tensor:
    if id(p) not in twin_of:
        raise CannotCapture(f"a parameter of shape {list(p.shape)} of the optimizer",
                            why="it belongs to none of the models given",
                            fix="pass every model whose parameters are trained")
    return twin_of[id(p)]


def _optimizer_step(o: torch.optim.Optimizer, rates: list[torch.Tensor], lines: Lines
                    ) -> Callable[..., None]:
    def step(closure: Any = None) -> None:
        if closure is not None:
            raise CannotCapture("optimizer.step(closure)", why="a closure runs the model again",
                                fix="call backward() first and step() without arguments")
        before, lines.phase = lines.phase, "optimizer"
        update(o, rates)
        lines.phase = before
    return step


@contextmanager
def _layer_names(models: Sequence[torch.nn.Module]) -> Iterator[Callable[[], str]]:
    """The path of the innermost module that is running."""
    stack: list[str] = []
    hooks = []
    for number, model in enumerate(models):
        prefix = f"model{number}" if len(models) > 1 else ""
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


@contextmanager
def _readable_errors() -> Iterator[None]:
    try:
        yield
    except GuardOnDataDependentSymNode as e:
        raise CannotCapture("control flow that depends on data",
                            why="a Python `if`, `while` or number needs a tensor's value, which "
                                "only the device will know",
                            where=str(user_line_of(e) or ""),
                            fix="torch.where, or decide outside the step") from e


def _strip(module: GraphModule) -> None:
    """Copies that mean nothing in a functional graph disappear; then dead code."""
    graph = module.graph
    same = {torch.ops.aten.alias.default: 0, torch.ops.aten.clone.default: 0,
            torch.ops.aten.detach.default: 0, torch.ops.aten.copy.default: 1,
            torch.ops.aten.lift_fresh_copy.default: 0}
    for node in list(graph.nodes):
        if node.op == "call_function" and node.target in same:
            node.replace_all_uses_with(node.args[same[node.target]])
            graph.erase_node(node)
    graph.eliminate_dead_code()
    module.recompile()
