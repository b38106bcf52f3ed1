"""What users call: `train_step`, `inference`, and the objects they give."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from handtorch.errors import BadInput
from handtorch.graph.node import ROLES
from handtorch.graph.ops.random import seed_words
from handtorch.pipeline import compile_graph
from handtorch.program import Program
from handtorch.runtime.choose import open_executor
from handtorch.runtime.describe import describe, explain
from handtorch.runtime.device import Executor, Ticket
from handtorch.runtime.session import Session

Array = NDArray[Any]


class Loss:
    """A result on its way: `float(loss)` waits for the step that makes it."""

    def __init__(self, ticket: Ticket, index: int = 0) -> None:
        self.ticket, self._index = ticket, index

    def numpy(self) -> Array:
        return self.ticket.result()[self._index]

    def __float__(self) -> float:
        array = self.numpy()
        if array.size != 1:
            raise BadInput(f"a result of shape {list(array.shape)} as one number",
                           fix="`.numpy()` gives all of it")
        return float(array.reshape(()))

    def item(self) -> float:
        return float(self)

    def __repr__(self) -> str:
        array = self.numpy()
        return f"Loss({float(self):.6g})" if array.size == 1 else f"Loss({list(array.shape)})"


# What a step gives back: as the user's function does, one, several by place or by name.
Losses = Loss | tuple[Loss, ...] | dict[str, Loss] | None


class TrainStep:
    """One training step, compiled and resident: weights and optimizer state stay on the device.

    Calling it queues a step and returns at once; at most a few steps are ever under way."""

    def __init__(self, session: Session, captured: Any) -> None:
        self._session, self._captured = session, captured
        self._groups = [_FollowedGroup(f) for f in captured.follows]

    @property
    def program(self) -> Program:
        return self._session.program

    @property
    def resident(self) -> Any:
        return self._session.resident

    def __call__(self, *batch: Any, timed: bool = False) -> Any:
        """Train on one batch. A learning rate changed in the torch optimizer counts from here."""
        for group in self._groups:
            if group.moved():
                self._session.resident.write_state(group.state, np.array([group.rate], "f4"))
        return self._handles(self._session.run(batch, timed=timed))

    def _handles(self, ticket: Ticket) -> Losses:
        outputs = self._captured.outputs
        handles = [Loss(ticket, i) for i in range(len(outputs.names))]
        if outputs.kind == "dict":
            return dict(zip(outputs.names, handles, strict=True))
        if outputs.kind == "tuple":
            return tuple(handles)
        return handles[0] if handles else None

    def sync_to(self, model: Any, optimizer: Any = None) -> None:
        """Weights and buffers go back into the torch `model`; optimizer state if one is given.

        A step made with several models or optimizers takes lists of them, in the same order."""
        from handtorch.capture.step import copy_into, copy_into_optimizers
        models, names = _listed(model), _names(self.program)
        weights = [n for n in (*names["parameter"], *names["buffer"])
                   if not n.startswith("loss_fn.")]          # fixed: a trained loss is refused
        copy_into(models, self._session.read(weights))
        if optimizer is not None:
            copy_into_optimizers(_listed(optimizer), models, self._captured.homes,
                                 self._session.read(names["optimizer"]))

    def reseed(self, seed: int) -> None:
        """The random numbers of the steps to come start anew, as those of a step made with this
        seed; a step without random numbers has nothing to start."""
        words = np.array(seed_words(seed), "u4")
        if _names(self.program)["rng"]:
            self._session.resident.write_state("rng", words)

    def explain(self, layer: str | None = None) -> str:
        """Every launch of a layer (by its module path; None: all), with the line it comes from."""
        return explain(self.program, layer)

    def close(self) -> None:
        """Give the device's memory back."""
        self._session.close()

    def __repr__(self) -> str:
        return describe(self.program, self._session.executor.spec)


class _FollowedGroup:
    """A parameter group of a torch optimizer, watched for changes before every step."""

    def __init__(self, follow: Any) -> None:
        self.state: str = follow.rate
        self._follow, self._count = follow, len(follow.optimizer.param_groups)
        self._group = follow.optimizer.param_groups[follow.index]
        self.rate = float(self._group["lr"])

    def moved(self) -> bool:
        """Whether the learning rate is another than last time; refuses any other change."""
        self._check()
        if self._group["lr"] == self.rate:
            return False
        self.rate = float(self._group["lr"])
        return True

    def _check(self) -> None:
        follow = self._follow
        groups, name = follow.optimizer.param_groups, type(follow.optimizer).__name__
        if len(groups) != self._count or groups[follow.index] is not self._group:
            raise BadInput(f"the parameter groups of {name} were replaced after capture",
                           why="the device holds the state it was captured with",
                           fix="load_state_dict and add_param_group first, then train_step")
        for key, before in follow.settings.items():
            if self._group[key] != before:
                raise BadInput(f"{name}.param_groups[{follow.index}][{key!r}] is now "
                               f"{self._group[key]!r}",
                               why=f"the step was compiled with {before!r}",
                               fix="make the step again; only lr may change between steps "
                                   "(a scheduler's cycle_momentum=False)")


class Inference:
    """A model compiled for one batch shape; calling it gives NumPy arrays."""

    def __init__(self, session: Session) -> None:
        self._session = session

    @property
    def program(self) -> Program:
        return self._session.program

    def __call__(self, *batch: Any) -> Array | tuple[Array, ...]:
        outputs = self._session.run(batch).result()
        return outputs[0] if len(outputs) == 1 else outputs

    def close(self) -> None:
        self._session.close()

    def __repr__(self) -> str:
        return describe(self.program, self._session.executor.spec)


def train_step(model: Any, loss_fn: Any = None, optimizer: Any = None, *,
               models: Sequence[Any] | None = None, optimizers: Sequence[Any] = (),
               example: Sequence[Any], device: str | None = None, seed: int = 0) -> TrainStep:
    """Capture, compile and load one training step, in one of two forms.

    `train_step(model, loss_fn, optimizer, example=(x, y))`: the usual step on
    `loss_fn(model(x), y)`. `train_step(fn, models=[...], optimizers=[...], example=(...))`: your
    own step `fn(*batch)`, written as for torch with zero_grad, backward and step; what it returns,
    a tensor, a tuple or a dict of them, comes back as `Loss` handles.

    `example` is a batch like those to come; only its shapes and types matter. The torch objects
    keep their values: training happens on the device's copy until `sync_to`. The same `seed` gives
    the same random numbers on every device."""
    from handtorch.capture.step import capture_train_step, capture_user_step
    words = np.array(seed_words(seed), "u4")
    executor = open_executor(device)
    if models is None:
        if loss_fn is None or optimizer is None or optimizers:
            raise BadInput("train_step without a loss, an optimizer or models",
                           fix="train_step(model, loss_fn, optimizer, example=(x, y)), or "
                               "train_step(fn, models=[...], optimizers=[...], example=(...))")
        captured = capture_train_step(model, loss_fn, optimizer, example)
    else:
        if loss_fn is not None or optimizer is not None or not callable(model):
            raise BadInput("train_step with models and a loss or an optimizer",
                           fix="train_step(fn, models=[...], optimizers=[...], example=(...)); "
                               "the loss is computed in fn")
        captured = capture_user_step(model, _listed(models), _listed(optimizers), example)
    program = compile_graph(captured.graph, executor.spec)
    return TrainStep(_session(executor, program, {**captured.states, "rng": words}), captured)


def inference(model: Any, *, example: Sequence[Any], device: str | None = None) -> Inference:
    """Capture, compile and load `model` in eval mode for batches like `example`."""
    from handtorch.capture.step import capture_inference
    executor = open_executor(device)
    captured = capture_inference(model, example)
    program = compile_graph(captured.graph, executor.spec)
    return Inference(_session(executor, program, captured.states))


def _session(executor: Executor, program: Program, states: Any) -> Session:
    return Session(executor, program, states)


def _listed(one_or_more: Any) -> list[Any]:
    return list(one_or_more) if isinstance(one_or_more, list | tuple) else [one_or_more]


def _names(program: Program) -> dict[str, list[str]]:
    names: dict[str, list[str]] = {role: [] for role in ROLES}
    for state in program.graph.states:
        names[state.role].append(state.name)
    return names
