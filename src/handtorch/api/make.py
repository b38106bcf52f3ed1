"""Capture, compile and load: `train_step` and `inference`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from handtorch.api.budget import Fitted, as_bytes
from handtorch.api.capturing import capturing
from handtorch.api.given import listed
from handtorch.api.inference import Inference
from handtorch.api.keep import Inferring, Kept, beside, no_inference, without_copies
from handtorch.api.parts import in_parts
from handtorch.api.step import TrainStep
from handtorch.api.stream import Stream
from handtorch.api.within import Capture, captured_within
from handtorch.errors import BadInput, tells_the_callers_line
from handtorch.graph.node import Graph
from handtorch.graph.ops.random import seed_words
from handtorch.meters.used import give_back
from handtorch.passes.accumulate import MicroBatched
from handtorch.passes.rewrite import without_dead
from handtorch.passes.stream import streamed
from handtorch.pipeline import compile_graph
from handtorch.program import Program
from handtorch.runtime.choose import open_executor
from handtorch.runtime.device import Executor
from handtorch.runtime.micro import MicroSession
from handtorch.runtime.session import Session


@tells_the_callers_line
def train_step(model: Any, loss_fn: Any = None, optimizer: Any = None, *,
               models: Sequence[Any] | None = None, optimizers: Sequence[Any] = (),
               example: Sequence[Any], device: str | None = None, seed: int = 0,
               check_finite: bool = True, accumulate: int = 1,
               memory: str | int | None = None) -> TrainStep:
    """Capture, compile and load one training step, in one of two forms.

    `train_step(model, loss_fn, optimizer, example=(x, y))`: the usual step on
    `loss_fn(model(x), y)`. `train_step(fn, models=[...], optimizers=[...], example=(...))`: your
    own step `fn(*batch)`, written as for torch with zero_grad, backward and step; what it returns,
    a tensor, a tuple or a dict of them, comes back as `Loss` handles.

    `example` is a batch like those to come; only its shapes and types matter. The torch objects
    keep their values: training happens on the device's copy until `sync_to`, in the mode (train or
    eval) they have now. The same `seed` gives the same random numbers on every device.

    With `accumulate=k` each batch is run in k parts of equal size whose gradients are added up on
    the device, and weights are updated once: the memory of a small batch, the step of a large one.
    Where that would not be the same step but for rounding (batch-norm, say) it is refused. Random
    numbers, those of dropout too, are others than without. The example is a whole batch.

    With `memory="2GiB"` (or a number of bytes) the step holds no more than that on the device,
    arena and staging: values are made again where keeping them would exceed it. Results stay the
    same bit for bit; `print(step)` tells what was traded and the predicted slow-down. Where that is
    not enough the batch is run in the fewest micro-batches that fit, as with `accumulate`.

    Reading a loss that is NaN or infinite raises `NotFinite`, with the step and what the weights
    have become; `check_finite=False` gives the number instead. Nothing is looked at unread.

    >>> step = ht.train_step(model, loss_fn, optimizer, example=(x, y))
    >>> losses = [float(step(x, y)) for _ in range(3)]
    >>> losses[0] > losses[1] > losses[2]
    True
    """
    torch_side = capturing()
    words = np.array(seed_words(seed), "u4")
    executor = opened(device)
    if models is None:
        if loss_fn is None or optimizer is None or optimizers:
            raise BadInput("train_step without a loss, an optimizer or models",
                           fix="train_step(model, loss_fn, optimizer, example=(x, y)), or "
                               "train_step(fn, models=[...], optimizers=[...], example=(...))")
        capture = partial(torch_side.capture_train_step, model, loss_fn, optimizer)
    else:
        if loss_fn is not None or optimizer is not None or not callable(model):
            raise BadInput("train_step with models and a loss or an optimizer",
                           fix="train_step(fn, models=[...], optimizers=[...], example=(...)); "
                               "the loss is computed in fn")
        capture = partial(torch_side.capture_user_step, model, listed(models), listed(optimizers))
    captured, program, made, fitted = _compiled(capture, example, accumulate, memory, executor)
    states = {**captured.states, "rng": words}
    session = (Session(executor, program, states) if made is None else
               MicroSession(executor, program, states, made))
    # Made when asked for: most steps never are, and a capture takes its time.
    infer: Inferring = no_inference if models is not None else partial(
        _inferring, captured.graph, model, list(example)[:-1])
    step = TrainStep(session, without_copies(captured), check_finite=check_finite, infer=infer,
                     made=made, fitted=fitted)
    give_back()                 # before a first step fills the arena
    return step


def _compiled(capture: Capture, example: Sequence[Any], accumulate: int,
              memory: str | int | None, executor: Executor
              ) -> tuple[Any, Program, MicroBatched | None, Fitted | None]:
    """What was captured of a whole batch and the program that runs it, in parts if it must be."""
    if memory is not None:
        captured, made, fitted = captured_within(capture, example, accumulate, as_bytes(memory),
                                                 executor)
        return captured, fitted.program, made, fitted
    if accumulate != 1:
        captured, parts = in_parts(capture, example, accumulate)
        return captured, compile_graph(parts.graph, executor.spec), parts, None
    captured = capture(example)
    return captured, compile_graph(captured.graph, executor.spec), None, None


@tells_the_callers_line
def inference(model: Any, *, example: Sequence[Any], device: str | None = None) -> Inference:
    """Capture, compile and load `model` in eval mode for batches like `example`.

    >>> infer = ht.inference(model, example=(x,))
    >>> infer(x).shape
    (8, 2)
    """
    capture_inference = capturing().capture_inference
    executor = opened(device)
    captured = capture_inference(model, example)
    program = compile_graph(captured.graph, executor.spec)
    return Inference(Session(executor, program, captured.states), without_copies(captured))


@tells_the_callers_line
def stream(model: Any, *, example: Sequence[Any], device: str | None = None) -> Stream:
    """Capture and compile `model` in eval mode to take readings as they come, one or more a call.

    Its recurrent layers (LSTM, GRU, RNN, stacked) go on from call to call; what stands before and
    after them must act on each reading by itself, or on the last. `example` is one tensor of two
    readings or more; calls may have any number. It begins with states of zero.

    >>> stream = ht.stream(recurrent, example=(torch.ones(1, 2, 4),))
    >>> stream(torch.ones(1, 7, 4)).shape           # seven readings at once
    (1, 7, 2)
    >>> stream(torch.ones(1, 1, 4)).shape           # and the next one
    (1, 1, 2)
    """
    capture_inference = capturing().capture_inference
    executor = opened(device)
    captured = capture_inference(model, example)
    return Stream(streamed(without_dead(captured.graph)), executor, captured)


def _inferring(train: Graph, model: Any, example: Sequence[Any]) -> Kept:
    return beside(train, capturing().capture_inference(model, example))


def opened(device: Any) -> Executor:
    if device is not None and not isinstance(device, str):
        raise BadInput(f"device is a {type(device).__name__}", why="devices go by name",
                       fix="device='pocl', for example; `handtorch devices` lists them")
    return open_executor(device)
