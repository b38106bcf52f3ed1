"""What `ht.train_step` and `ht.inference` capture, with the starting values of all state."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from handtorch.capture.apart import in_a_copy
from handtorch.capture.checks import (
    check_function,
    check_loss,
    check_models,
    check_optimizers,
    checked_example,
    line_of,
)
from handtorch.capture.optimizers import Moment, settings_of, state_of
from handtorch.capture.slots import Named, slots_of, with_prefixes
from handtorch.errors import BadInput, CannotCapture
from handtorch.graph.node import Graph
from handtorch.graph.ties import Home, Outputs

Array = NDArray[Any]


@dataclass(frozen=True)
class Follow:
    """A parameter group of torch that the device follows: its learning rate is the state `rate`;
    `settings` are worked into the program."""

    rate: str
    optimizer: torch.optim.Optimizer
    index: int
    settings: Mapping[str, Any]


@dataclass(frozen=True)
class Captured:
    """A graph, what its states start with, and what ties them to torch's objects.

    `states` are not copied: they show torch's memory, and are read when the graph is loaded, so
    that a large model is not there twice beside the device's memory."""

    graph: Graph
    states: Mapping[str, Array]
    follows: tuple[Follow, ...]
    homes: tuple[Home, ...]
    outputs: Outputs


def capture_train_step(model: torch.nn.Module, loss_fn: Callable[..., torch.Tensor],
                       optimizer: torch.optim.Optimizer, example: Sequence[Any]) -> Captured:
    """Forward, loss, backward and update of `loss_fn(model(*inputs), target)` as one graph.

    The last tensor of `example` is the target. Model and optimizer are left as they were."""
    models = [*with_prefixes([model]), *_loss_module(loss_fn)]
    check_models(models)
    batch = checked_example(example)
    if len(batch) < 2:
        raise BadInput(f"example holds {len(batch)} tensor(s)", why="it needs inputs and a target",
                       fix="example=(x, y)")
    check_function("loss_fn", loss_fn, 2)
    check_optimizers([optimizer])
    check_function("model", model, len(batch) - 1)

    def step(*tensors: torch.Tensor) -> torch.Tensor:
        *inputs, target = tensors
        loss = loss_fn(model(*inputs), target)
        check_loss(loss, loss_fn)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    names = [f"x{i}" if len(batch) > 2 else "x" for i in range(len(batch) - 1)] + ["y"]
    return _captured(step, names, models, [optimizer], batch)


def _loss_module(loss_fn: Any) -> Named:
    """A loss with tensors of its own, such as class weights: they become states too."""
    if not isinstance(loss_fn, torch.nn.Module):
        return []
    if any(p.requires_grad for p in loss_fn.parameters()):
        raise CannotCapture("a loss with parameters of its own",
                            why="this form of train_step trains one model",
                            fix="train_step(fn, models=[model, loss_fn], optimizers=[...], "
                                "example=...)")
    return [("loss_fn", loss_fn)]


def capture_user_step(fn: Callable[..., Any], models: Sequence[torch.nn.Module],
                      optimizers: Sequence[torch.optim.Optimizer], example: Sequence[Any]
                      ) -> Captured:
    """The user's own step, `fn(*example)`, with all that it does to models and optimizers.

    These are left as they were; what else `fn` changes in Python it changes once, now, or not at
    all where the step is traced in a copy of the process."""
    named = with_prefixes(models)
    check_models(named)
    check_optimizers(optimizers)
    batch = checked_example(example)
    check_function("the step", fn, len(batch))
    return _captured(fn, _argument_names(fn, len(batch)), named, optimizers, batch,
                     clears_gradients=False)


def _argument_names(fn: Callable[..., Any], count: int) -> list[str]:
    """What the user calls the inputs, where the function says so for all of them."""
    by_place = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = [p.name for p in inspect.signature(fn).parameters.values() if p.kind in by_place]
    return names[:count] if len(names) >= count else [f"x{i}" for i in range(count)]


def capture_inference(model: torch.nn.Module, example: Sequence[Any]) -> Captured:
    """`model(*example)` in eval mode, without gradients; the model's mode is put back."""
    models = with_prefixes([model])
    check_models(models)
    batch = checked_example(example)
    check_function("model", model, len(batch))

    def step(*tensors: torch.Tensor) -> Any:
        with torch.no_grad():
            out = model(*tensors)
        if out is None:
            raise CannotCapture("the model returns None", why="there is nothing to hand back",
                                where=line_of(model.forward), fix="return a tensor from forward")
        return out

    training = [m for m in model.modules() if m.training]
    names = [f"x{i}" if len(batch) > 1 else "x" for i in range(len(batch))]
    model.eval()
    try:
        return _captured(step, names, models, [], batch, called=_as_outputs)
    finally:
        for module in training:
            module.training = True


def _as_outputs(given: Outputs) -> Outputs:
    """A model gives no loss: what has no name of its own is called an output."""
    if given.kind == "dict":
        return given
    count = len(given.names)
    return Outputs(given.kind, tuple(f"out{i}" if count > 1 else "out" for i in range(count)))


def capture_function(fn: Callable[..., Any], example: Sequence[Any]) -> Captured:
    """A plain function of tensors, gradients inside it included; it has no state."""
    batch = checked_example(example)
    return _captured(fn, [f"x{i}" for i in range(len(batch))], [], [], batch)


@dataclass(frozen=True)
class _Found:
    """What a trace gives, without torch's objects: another process can tell it."""

    graph: Graph
    constants: Mapping[str, Array]
    homes: tuple[Home, ...]
    outputs: Outputs


def _found(traced: Any, names: Sequence[str], optimizers: Sequence[torch.optim.Optimizer]
           ) -> _Found:
    from handtorch.capture.convert import to_graph

    graph = to_graph(traced, names)
    constants = {s.name: getattr(traced.graph, s.name).detach().numpy().copy()
                 for s in graph.states if s.role == "constant"}
    named, kept = {id(s.tensor): s.name for s in traced.slots}, {s.name for s in graph.states}
    homes = tuple(Home(m.name, m.optimizer, m.key, tuple(named[id(p)] for p in m.params),
                       type(optimizers[m.optimizer]).__name__)
                  for m in traced.moments if m.name in kept)
    return _Found(graph, constants, homes, traced.outputs)


def _captured(fn: Callable[..., Any], names: Sequence[str], models: Named,
              optimizers: Sequence[torch.optim.Optimizer], batch: Sequence[torch.Tensor], *,
              clears_gradients: bool = True,
              called: Callable[[Outputs], Outputs] = lambda given: given) -> Captured:
    """`called` names what `fn` gives."""
    def work() -> _Found:
        # Late: with the tracer torch loads sympy, 36 MB that need be in the copy alone.
        from handtorch.capture.trace import trace

        traced = trace(fn, models, optimizers, batch, clears_gradients=clears_gradients)
        return _found(replace(traced, outputs=called(traced.outputs)), names, optimizers)

    slots = slots_of(models)            # first: a trace in this process may leave buffers behind
    moments, rates = state_of(optimizers, slots)
    found = in_a_copy(work) or work()
    for optimizer in optimizers:
        optimizer.__dict__["_opt_called"] = True    # what schedulers look at before they warn
    states = {s.name: s.tensor.detach().numpy() for s in slots}
    states |= {m.name: _start(m) for m in moments}
    states |= found.constants
    states |= {s.name: np.zeros(s.before.shape, "u4") for s in found.graph.states
               if s.role == "rng"}
    groups = [(o, i, s) for o in optimizers for i, s in enumerate(settings_of(o))]
    states |= {n: np.array([o.param_groups[i]["lr"]], "f4")
               for n, (o, i, _) in zip(rates, groups, strict=True)}
    follows = tuple(Follow(n, *group) for n, group in zip(rates, groups, strict=True))
    return Captured(found.graph, states, follows, found.homes, found.outputs)


def _start(moment: Moment) -> Array:
    """torch's own memory; what torch would only make at its first step is one number, held once."""
    start = moment.start.numpy()
    if moment.fill is None:
        return start
    return np.broadcast_to(np.array(moment.fill, start.dtype), start.shape)
