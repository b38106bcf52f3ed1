"""What torch says while a step is captured, in our words and with the user's line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from handtorch.capture.lines import is_users, user_line, user_line_of
from handtorch.capture.slots import Named
from handtorch.errors import CannotCapture, HandTorchError

_NO_BYTES = ("a tensor's bytes",
             "while a step is captured it runs on stand-ins that have shapes but no numbers",
             "clone() instead of deepcopy, and no numpy() in the step")
_TORCH_SAYS = {
    "convert all Tensors to FakeTensors": (
        "a tensor that the step reaches by another road",
        "it is neither an input nor in one of the models given",
        "give it as an input, or its module in models=[...]; in a module of yours, "
        "register_buffer"),
    "Cannot access data pointer": _NO_BYTES,
    ".numpy() is not supported for tensor subclasses": _NO_BYTES,
    "its data is not allocated yet": (
        "torch.tensor() of tensors", _NO_BYTES[1], "torch.stack(list_of_tensors)"),
    "does not require grad and does not have a grad_fn": (
        "backward() from a loss that leads to nothing to train",
        "no parameter with requires_grad=True takes part in it, or the way to it is cut",
        "requires_grad_(True) on what is trained; no detach(), argmax() or torch.no_grad() between "
        "model and loss, nor around train_step; checkpoint(..., use_reentrant=False)"),
    "symbolically trace a dynamo-optimized function": (
        "a module or function made by torch.compile", "HandTorch compiles the step itself",
        "give the model as it was before torch.compile"),
    "no rule registered for HigherOrderOperator": (
        "torch.cond, while_loop or another operator that takes functions",
        "the device runs one fixed list of launches", "torch.where over both results"),
}
# What torch's own code raises about wrong arguments. A user's own `raise` is left as it is.
_OF_TORCH = (RuntimeError, TypeError, ValueError, AssertionError, AttributeError, IndexError)


@contextmanager
def readable_errors(models: Named) -> Iterator[None]:
    """Errors that leave this block are ours, with the user's line, or were raised by the user's
    own code."""
    try:
        yield
    except HandTorchError as e:
        e.at(str(user_line_of(e) or ""))
        raise
    except GuardOnDataDependentSymNode as e:
        raise CannotCapture("control flow that depends on data",
                            why="a Python `if`, `while` or number needs a tensor's value, which "
                                "only the device will know",
                            where=_line(e), fix="torch.where, or decide outside the step") from e
    except _OF_TORCH as e:
        for said, (what, why, fix) in _TORCH_SAYS.items():
            if said in str(e):
                raise CannotCapture(what, why=why, where=_line(e), fix=fix) from e
        last = _last(e.__traceback__)
        if is_users(last.tb_frame) or (isinstance(e, AssertionError) and _is_ours(last)):
            raise
        first, *_ = str(e).strip().splitlines() or [type(e).__name__]
        raise CannotCapture(f"torch refuses{_layer(e, models)}", why=first.rstrip("."),
                            where=_line(e),
                            fix="first make the step run in plain torch, on this example") from e


def _line(error: BaseException) -> str:
    return str(user_line_of(error) or user_line() or "")


def _last(step: TracebackType | None) -> TracebackType:
    assert step is not None
    while step.tb_next is not None:
        step = step.tb_next
    return step


def _is_ours(step: TracebackType) -> bool:
    return step.tb_frame.f_code.co_filename.startswith(str(Path(__file__).parents[1]))


def _layer(error: BaseException, models: Named) -> str:
    """The innermost module that was running, by name: a line alone does not tell which layer."""
    names = {id(module): ".".join(x for x in (prefix, path) if x)
             for prefix, model in models for path, module in model.named_modules()}
    found, step = "", error.__traceback__
    while step is not None:
        module: Any = step.tb_frame.f_locals.get("self")
        if isinstance(module, torch.nn.Module):
            found = names.get(id(module), found)
        step = step.tb_next
    return f" layer {found}" if found else ""
