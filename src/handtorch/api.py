"""What users call: `train_step`, `inference`, and the objects they give."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isfinite
from numbers import Real
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from handtorch.errors import BadInput, DeviceError, NotFinite, tells_the_callers_line
from handtorch.graph.node import ROLES
from handtorch.graph.ops.random import seed_words
from handtorch.pipeline import compile_graph
from handtorch.program import Program
from handtorch.runtime.choose import open_executor
from handtorch.runtime.describe import describe, explain
from handtorch.runtime.device import Executor, Ticket
from handtorch.runtime.epoch import Epoch
from handtorch.runtime.session import Session

Array = NDArray[Any]
T = TypeVar("T")


class Loss:
    """A result on its way: `float(loss)` waits for the step that makes it.

    A number that is NaN or infinite is refused there, with what is known of its cause, unless the
    step was made with `check_finite=False`; `numpy()` and `print` give it as it is."""

    def __init__(self, ticket: Ticket, index: int, name: str, step: int, watch: _Watch | None
                 ) -> None:
        self.ticket, self._index, self._watch = ticket, index, watch
        self._name, self._step = name, step

    def numpy(self) -> Array:
        return self.ticket.result()[self._index]

    @tells_the_callers_line
    def __float__(self) -> float:
        array = self.numpy()
        if array.size != 1:
            raise BadInput(f"a result of shape {list(array.shape)} as one number",
                           why=f"it holds {array.size}", fix="`.numpy()` gives all of it")
        number = float(array.reshape(()))
        if self._watch is not None:
            self._watch.saw(number, self._name, self._step)
        return number

    @tells_the_callers_line
    def item(self) -> float:
        return float(self)

    @tells_the_callers_line
    def __format__(self, spec: str) -> str:
        return format(float(self), spec) if spec else str(self)

    @tells_the_callers_line
    def _not_yet(self, *_: Any) -> Any:
        raise BadInput("a loss in arithmetic",
                       why="it is on its way, and its number must be waited for",
                       fix="float(loss), now and then; or compute it in the step and return it")

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = _not_yet
    __lt__ = __le__ = __gt__ = __ge__ = _not_yet

    @tells_the_callers_line
    def backward(self, *_: Any, **__: Any) -> None:
        raise BadInput("backward() on what a step gave",
                       why="the step has gone backward and updated the weights already",
                       fix="leave it out, and optimizer.step() too")

    def __repr__(self) -> str:
        array = self.numpy()
        return f"Loss({float(array.flat[0]):.6g})" if array.size == 1 else (
            f"Loss({list(array.shape)})")


class _Watch:
    """Looks at the losses that are read; one that is not finite is refused, with what the device
    can tell. Costs nothing as long as nobody reads."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._last: dict[str, tuple[int, float]] = {}      # the newest finite one that was read

    def saw(self, number: float, name: str, step: int) -> None:
        if isfinite(number):
            self._last[name] = max(self._last.get(name, (0, 0.0)), (step, number))
            return
        before = [x for x in [self._last.get(name)] if x is not None and x[0] < step]
        raise NotFinite(
            f"{name} of step {step} is {number}",
            why="; ".join([f"the last finite one that was read is {before[0][1]:.6g} of step "
                           f"{before[0][0]}" if before else "no finite one was read before it",
                           *self._weights()]),
            fix="a lower learning rate, or clip_grad_norm_; a look for NaN in the batch; "
                "train_step(..., check_finite=False) or .numpy() to go on regardless")

    def _weights(self) -> list[str]:
        """What has become of the weights by now. Waits for the device: there is no hurry."""
        held = [s for s in self._session.program.graph.states
                if s.role in ("parameter", "buffer") and s.before.dtype == "f32"]
        try:
            bad = [s.name for s in held
                   if not np.isfinite(self._session.resident.read_state(s.name)).all()]
        except DeviceError:                                 # closed meanwhile: nothing to look at
            return []
        first = f", the first being {bad[0]}" if bad else ""
        return [f"of {len(held)} weights and buffers {len(bad)} are not finite now{first}"]


# What a step gives back: as the user's function does, one, several by place or by name.
Losses = Loss | tuple[Loss, ...] | dict[str, Loss] | None


class TrainStep:
    """One training step, compiled and resident: weights and optimizer state stay on the device.

    Calling it queues a step and returns at once; at most a few steps are ever under way."""

    def __init__(self, session: Session, captured: Any, *, check_finite: bool = True) -> None:
        self._session, self._captured = session, captured
        self._watch = _Watch(session) if check_finite else None
        self._groups = [_FollowedGroup(f) for f in captured.follows]

    @property
    def program(self) -> Program:
        return self._session.program

    @property
    def resident(self) -> Any:
        return self._session.resident

    @tells_the_callers_line
    def __call__(self, *batch: Any, timed: bool = False, **named: Any) -> Any:
        """Train on one batch. A learning rate changed in the torch optimizer counts from here."""
        if named:
            raise BadInput(f"inputs by name: {', '.join(named)}", why="they go by their place",
                           fix=f"step({', '.join(p.name for p in self.program.graph.inputs)})")
        for group in self._groups:
            if group.moved():
                self._session.resident.write_state(group.state, np.array([group.rate], "f4"))
        return self._handles(self._session.run(batch, timed=timed))

    @tells_the_callers_line
    def stage(self) -> tuple[Array, ...]:
        """The inputs of the next call as arrays where the device will read them: fill them and
        give them to the call, and nothing is copied. After it they are not to be touched."""
        staged: tuple[Array, ...] = self._session.resident.stage()
        return staged

    @tells_the_callers_line
    def epoch(self, *arrays: Any, seed: int | None = None) -> Iterator[Any]:
        """Steps over whole arrays in memory, once: yields what the call gives for each batch.

        With a `seed` the rows come in the order `np.random.default_rng(seed).permutation(rows)`,
        the same on every machine, and are gathered where the device will read them; without one
        they come as they lie. A last batch that is not whole is left out, as by a DataLoader with
        drop_last=True. The arrays are checked here, before the first step."""
        return Epoch(self.program.graph, arrays, seed, step=self, stage=self.stage)

    def _handles(self, ticket: Ticket) -> Losses:
        outputs, step = self._captured.outputs, self._session.resident.counters.steps
        return _as_given(outputs, [Loss(ticket, i, name, step, self._watch)
                                   for i, name in enumerate(outputs.names)])

    @tells_the_callers_line
    def sync_to(self, model: Any, optimizer: Any = None) -> None:
        """Weights and buffers go back into the torch `model`; optimizer state if one is given.

        A step made with several models or optimizers takes lists of them, in the same order."""
        from handtorch.capture.hand_back import copy_into, copy_into_optimizers
        models, names = _listed(model), _names(self.program)
        weights = [n for n in (*names["parameter"], *names["buffer"])
                   if not n.startswith("loss_fn.")]          # fixed: a trained loss is refused
        copy_into(models, self._session.read(weights))
        if optimizer is not None:
            copy_into_optimizers(_listed(optimizer), models, self._captured.homes,
                                 self._session.read(names["optimizer"]))

    @tells_the_callers_line
    def reseed(self, seed: int) -> None:
        """The random numbers of the steps to come start anew, as those of a step made with this
        seed; a step without random numbers has nothing to start."""
        words = np.array(seed_words(seed), "u4")
        if _names(self.program)["rng"]:
            self._session.resident.write_state("rng", words)

    @tells_the_callers_line
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
        self.rate = self._checked(self._group["lr"])
        return True

    def _checked(self, rate: Any) -> float:
        if isinstance(rate, Real) and isfinite(rate):
            return float(rate)
        name = type(self._follow.optimizer).__name__
        raise BadInput(f"{name}.param_groups[{self._follow.index}]['lr'] is now {rate!r}",
                       why="a learning rate is a finite number",
                       fix="look at what changes it, a scheduler or your own code")

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

    def __init__(self, session: Session, outputs: Any) -> None:
        self._session, self._outputs = session, outputs

    @property
    def program(self) -> Program:
        return self._session.program

    @tells_the_callers_line
    def __call__(self, *batch: Any) -> Any:
        """What the model gives for this batch: one array, a tuple or a dict of them."""
        return _as_given(self._outputs, self._session.run(batch).result())

    def close(self) -> None:
        self._session.close()

    def __repr__(self) -> str:
        return describe(self.program, self._session.executor.spec)


@tells_the_callers_line
def train_step(model: Any, loss_fn: Any = None, optimizer: Any = None, *,
               models: Sequence[Any] | None = None, optimizers: Sequence[Any] = (),
               example: Sequence[Any], device: str | None = None, seed: int = 0,
               check_finite: bool = True) -> TrainStep:
    """Capture, compile and load one training step, in one of two forms.

    `train_step(model, loss_fn, optimizer, example=(x, y))`: the usual step on
    `loss_fn(model(x), y)`. `train_step(fn, models=[...], optimizers=[...], example=(...))`: your
    own step `fn(*batch)`, written as for torch with zero_grad, backward and step; what it returns,
    a tensor, a tuple or a dict of them, comes back as `Loss` handles.

    `example` is a batch like those to come; only its shapes and types matter. The torch objects
    keep their values: training happens on the device's copy until `sync_to`, in the mode (train or
    eval) they have now. The same `seed` gives the same random numbers on every device.

    Reading a loss that is NaN or infinite raises `NotFinite`, with the step and what the weights
    have become; `check_finite=False` gives the number instead. Nothing is looked at unread."""
    from handtorch.capture.step import capture_train_step, capture_user_step
    words = np.array(seed_words(seed), "u4")
    executor = _opened(device)
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
    return TrainStep(_session(executor, program, {**captured.states, "rng": words}), captured,
                     check_finite=check_finite)


@tells_the_callers_line
def inference(model: Any, *, example: Sequence[Any], device: str | None = None) -> Inference:
    """Capture, compile and load `model` in eval mode for batches like `example`."""
    from handtorch.capture.step import capture_inference
    executor = _opened(device)
    captured = capture_inference(model, example)
    program = compile_graph(captured.graph, executor.spec)
    return Inference(_session(executor, program, captured.states), captured.outputs)


def _opened(device: Any) -> Executor:
    if device is not None and not isinstance(device, str):
        raise BadInput(f"device is a {type(device).__name__}", why="devices go by name",
                       fix="device='pocl', for example; `handtorch devices` lists them")
    return open_executor(device)


def _as_given(outputs: Any, results: Sequence[T]) -> T | tuple[T, ...] | dict[str, T] | None:
    """Results in the form in which the user's code gave them."""
    if outputs.kind == "dict":
        return dict(zip(outputs.names, results, strict=True))
    if outputs.kind == "tuple":
        return tuple(results)
    return results[0] if results else None


def _session(executor: Executor, program: Program, states: Any) -> Session:
    return Session(executor, program, states)


def _listed(one_or_more: Any) -> list[Any]:
    return list(one_or_more) if isinstance(one_or_more, list | tuple) else [one_or_more]


def _names(program: Program) -> dict[str, list[str]]:
    names: dict[str, list[str]] = {role: [] for role in ROLES}
    for state in program.graph.states:
        names[state.role].append(state.name)
    return names
