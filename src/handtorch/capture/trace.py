"""The user's step -> one functional fx graph of core ATen ops, with origins on every node.

The user's code runs as it is, on stand-in tensors: parameters, buffers and optimizer state are
swapped for the traced ones while it runs and put back afterwards, whatever happens."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any

import torch
from torch.func import functionalize
from torch.fx import Graph, GraphModule, Interpreter, Node
from torch.fx._lazy_graph_module import _use_lazy_graph_module
from torch.fx.experimental.proxy_tensor import get_proxy_mode, make_fx

from handtorch.capture.functional import without_writes
from handtorch.capture.lines import Lines
from handtorch.capture.optimizers import Moment, Updates, state_of
from handtorch.capture.python_state import only_tensors_change
from handtorch.capture.rebind import Gradients, rebound
from handtorch.capture.refusals import readable_errors
from handtorch.capture.slots import (
    Named,
    Slot,
    layer_names,
    left_in,
    memory_of,
    slots_of,
    swapped,
)
from handtorch.capture.table import decompositions, patches
from handtorch.errors import CannotCapture
from handtorch.graph.ties import Outputs

_ATEN = torch.ops.aten


@dataclass(frozen=True)
class Traced:
    """`graph` takes values, moments, rates, gradients and the batch; gives outputs, values,
    moments and gradients. `outputs` says what the user's function gives."""

    graph: GraphModule
    slots: tuple[Slot, ...]
    moments: tuple[Moment, ...]
    rates: tuple[str, ...]
    gradients: tuple[str, ...]            # whose gradients stood in `.grad` before
    outputs: Outputs


def trace(fn: Callable[..., Any], models: Named, optimizers: Sequence[torch.optim.Optimizer],
          example: Sequence[torch.Tensor], *, clears_gradients: bool = True) -> Traced:
    """Run `fn(*example)` once on fake tensors and keep what it did.

    Unless it is known that `fn` clears gradients before its first backward, stand-ins for those of
    an earlier call go in, so that their use can be seen."""
    slots = slots_of(models)
    moments, rates = state_of(optimizers, slots)
    starts = [torch.tensor([float(group["lr"])], dtype=torch.float32)
              for optimizer in optimizers for group in optimizer.param_groups]
    trained = [] if clears_gradients else [s for s in slots if s.tensor.requires_grad]
    run = _Run(fn, models, optimizers, slots, moments, trained)
    arguments = ([s.tensor.detach() for s in slots], [m.start for m in moments], starts,
                 [torch.empty_like(s.tensor) for s in trained], list(example))
    table = decompositions()
    # Lazy: only the graph is read, nobody runs the Python code that torch would write for it.
    with readable_errors(models), patches(), _uncollected(), _use_lazy_graph_module(True):
        # A lambda: make_fx counts the arguments of a bound method wrong.
        raw = make_fx(lambda *parts: run.step(*parts), table, tracing_mode="fake")(*arguments)
        run.check()
        pure = raw if without_writes(raw.graph, table) else make_fx(
            functionalize(_Tagging(raw).run, remove="mutations"), table,
            tracing_mode="fake")(*_flat(arguments))
    _group_outputs(pure.graph, (len(run.outputs.names), len(slots), len(moments), len(trained)))
    _no_gradients_yet([trained[i] for i in _strip(pure, len(trained), len(example))])
    return Traced(pure, slots, run.counted(), tuple(rates), tuple(s.name for s in trained),
                  run.outputs)


@contextmanager
def _uncollected() -> Iterator[None]:
    """Tracing makes many objects that stay: looking for garbage among them takes a sixth of it.
    Afterwards they count as old ones, so that they are not looked through at once."""
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:
            if not gc.get_freeze_count():       # else what the user froze would thaw
                gc.freeze()
                gc.unfreeze()
            gc.enable()


class _Run:
    """The user's function with stand-ins in place; `step` is what make_fx traces."""

    def __init__(self, fn: Callable[..., Any], models: Named,
                 optimizers: Sequence[torch.optim.Optimizer], slots: Sequence[Slot],
                 moments: Sequence[Moment], trained: Sequence[Slot]) -> None:
        self._fn, self._models, self._optimizers = fn, models, optimizers
        self._slots, self._moments, self._trained = slots, moments, trained
        self.outputs = Outputs("none", ())

    def step(self, values: list[torch.Tensor], state: list[torch.Tensor],
             lrs: list[torch.Tensor], grads: list[torch.Tensor], batch: list[torch.Tensor]) -> Any:
        # Cloned, so that writes into parameters and batch stay off the inputs of the graph.
        twins = [s.twin(v.clone()) for s, v in zip(self._slots, values, strict=True)]
        batch = [x.clone() for x in batch]
        memory = [memory_of(t) for t in twins]
        twin_of = {id(s.tensor): t for s, t in zip(self._slots, twins, strict=True)}
        kept = list(zip(self._moments, [v.clone() for v in state], strict=True))
        before = Gradients([twin_of[id(s.tensor)] for s in self._trained],
                           [g.clone() for g in grads])
        with ExitStack() as undo:
            undo.enter_context(only_tensors_change(self._models))
            self._lines = Lines(undo.enter_context(layer_names(self._models)))
            undo.enter_context(swapped(self._slots, twins))
            updates = undo.enter_context(
                rebound(self._optimizers, twin_of, kept, lrs, before, self._lines))
            undo.enter_context(self._lines)
            self.outputs, flat = _outputs(self._fn(*batch))
            # Detaching what was put in a twin's place refuses a tensor that is no stand-in.
            after = [new if (new := left_in(s, t, m)) is t else new.detach()
                     for s, t, m in zip(self._slots, twins, memory, strict=True)]
        self._remember(updates, twin_of, kept)
        left = [twin_of[id(s.tensor)].grad for s in self._trained]
        return [t.detach() for t in flat], after, [t for _, t in kept], left

    def _remember(self, updates: Updates, twin_of: dict[int, torch.Tensor],
                  kept: Sequence[tuple[Moment, torch.Tensor]]) -> None:
        own = {id(t): key for key, t in twin_of.items()}
        self._counts = {m.name: {own[id(p)] for p in updates.counted.get(id(t), ())}
                        for m, t in kept}

    def counted(self) -> tuple[Moment, ...]:
        """The moments; a step counter only for the parameters that the step updates."""
        return tuple(replace(m, params=tuple(p for p in m.params
                                             if id(p) in self._counts[m.name]))
                     if m.key == "step" else m for m in self._moments)

    def check(self) -> None:
        if self._lines.numbers:
            raise CannotCapture("a tensor's value as a Python number (`.item()`)",
                                why="only the device will know it, and each step anew",
                                where=str(self._lines.numbers[0]),
                                fix="compute with the tensor, or return it from the step")


def _outputs(out: Any) -> tuple[Outputs, list[torch.Tensor]]:
    """What the user's function gave, taken apart; refuses what is no tensor."""
    if out is None:
        return Outputs("none", ()), []
    if isinstance(out, dict):
        kind, names, flat = "dict", [str(k) for k in out], list(out.values())
    elif isinstance(out, tuple | list):
        kind, flat = "tuple", list(out)
        names = [f"out{i}" if i else "loss" for i in range(len(flat))]
    else:
        kind, names, flat = "one", ["loss"], [out]
    for name, value in zip(names, flat, strict=True):
        if not isinstance(value, torch.Tensor):
            raise CannotCapture(f"the step returns {name} of type {type(value).__name__}",
                                why="a number made in Python is that of the capture, for ever"
                                    if isinstance(value, int | float) else
                                    "only tensors come back from the device",
                                fix="return tensors: one, a tuple or a dict of them")
    return Outputs(kind, tuple(names)), flat


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


def _no_gradients_yet(slots: Sequence[Slot]) -> None:
    """These the step takes for cleared when it begins; at its first call that must be true."""
    for slot in slots:
        if slot.tensor.grad is not None and slot.tensor.grad.any():
            raise CannotCapture(f"{slot.name} has a gradient now",
                                why="the step's first call would add to it; only at its end does "
                                    "the step clear gradients",
                                fix="optimizer.zero_grad() before train_step")


def _group_outputs(graph: Graph, counts: Sequence[int]) -> None:
    """The traced function's four lists of results, which make_fx may have put into one."""
    (output,) = [n for n in graph.nodes if n.op == "output"]
    (found,) = output.args
    if len(found) == len(counts) and all(isinstance(part, list | tuple) for part in found):
        return
    flat = iter(found)
    output.args = (tuple([next(flat) for _ in range(count)] for count in counts),)


def _strip(module: GraphModule, gradients: int, batch: int) -> list[int]:
    """Copies that mean nothing in a functional graph disappear; then dead code. Gives the numbers
    of the gradients that are taken for zero when a step begins."""
    graph = module.graph
    same = {_ATEN.alias.default: 0, _ATEN.clone.default: 0, _ATEN.detach.default: 0,
            _ATEN.copy.default: 1, _ATEN.lift_fresh_copy.default: 0}
    for node in list(graph.nodes):
        if node.op == "call_function" and node.target in same:
            source = node.args[same[node.target]]
            with graph.inserting_before(node):
                node.replace_all_uses_with(_as_copied(graph, node, source))
            graph.erase_node(node)
    assumed = _clear(graph, gradients, batch)
    graph.eliminate_dead_code()
    return assumed


def _clear(graph: Any, gradients: int, batch: int) -> list[int]:
    """Gradients that every call clears when it ends are zeros when it begins, and adding to zeros
    is no addition. The graph no longer gives gradients afterwards."""
    assumed = []
    places = [n for n in graph.nodes if n.op == "placeholder"]
    places = places[len(places) - batch - gradients:len(places) - batch]
    (output,) = [n for n in graph.nodes if n.op == "output"]
    *kept, left = output.args[0]
    for number, (place, after) in enumerate(zip(places, left, strict=True)):
        if place.users and (after is None or _is_zeros(after)):
            if any(not _is_zeros(user) for user in place.users):
                assumed.append(number)
            with graph.inserting_after(place):
                zeros = graph.call_function(_ATEN.full_like.default, (place, 0))
            zeros.meta |= {k: v for k, v in place.meta.items() if k in ("val", "tensor_meta")}
            place.replace_all_uses_with(zeros, delete_user_cb=lambda user, z=zeros: user is not z)
    output.args = (tuple(kept),)
    for node in list(graph.nodes):
        if (node.target is _ATEN.add.Tensor and not node.kwargs and _is_zeros(node.args[0])
                and node.args[0].args[0] in places):
            node.replace_all_uses_with(node.args[1])
            graph.erase_node(node)
    return assumed


def _is_zeros(node: Any) -> bool:
    return (isinstance(node, Node) and node.target in (_ATEN.full_like.default, _ATEN.zero.default)
            and node.args[1:] in ((), (0,)))


def _as_copied(graph: Any, node: Node, source: Any) -> Any:
    """What `copy_` leaves: the source in the destination's type and shape."""
    want, have = node.meta["val"], source.meta["val"]
    if have.dtype != want.dtype:
        source = _added(graph, node, _ATEN._to_copy.default, (source,), {"dtype": want.dtype})
    if have.shape != want.shape:
        source = _added(graph, node, _ATEN.expand.default, (source, list(want.shape)), {})
    return source


def _added(graph: Any, node: Node, target: Any, args: Any, kwargs: Any) -> Node:
    new: Node = graph.call_function(target, args, kwargs)
    new.meta |= {**node.meta, "val": node.meta["val"]}
    return new
