"""What decides a step's future, as arrays by name: read from the device, checked, and written."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from handtorch.dtypes import dtype
from handtorch.errors import BadInput
from handtorch.graph.node import State
from handtorch.runtime.session import Session

Array = NDArray[Any]

STEPS = "handtorch.steps"
# A constant is part of the step and not of its state: nothing changes it.
KEPT = ("parameter", "buffer", "optimizer", "hyper", "rng")
WEIGHTS = ("parameter", "buffer")
_TAKEN = {"f32": ("float32",), "i32": ("int32", "int64"), "u32": ("uint32",), "bool": ("bool",)}
# What a training step has beside the weights of a model.
_OF_TRAINING = re.compile(r"(optimizer\d*|loss_fn)\..+|rng|" + re.escape(STEPS))
_SHOWN = 3


def states_of(session: Session, roles: Sequence[str]) -> tuple[State, ...]:
    return tuple(s for s in session.program.graph.states if s.role in roles)


def read_state(session: Session, rates: Sequence[float], steps: int) -> dict[str, Array]:
    """Copies of everything that decides the steps to come, with axes as torch has them.

    Learning rates are those that count from the next step on, in the precision in which torch's
    schedulers compute with them."""
    found = session.read([s.name for s in states_of(session, KEPT) if s.role != "hyper"])
    names = [s.name for s in states_of(session, ("hyper",))]
    found |= {n: np.array([rate], "f8") for n, rate in zip(names, rates, strict=True)}
    return {**found, STEPS: np.array(steps, "i8")}


def checked_state(session: Session, given: Mapping[str, Any]) -> dict[str, Array]:
    """`given` as arrays that fit each state of a step and its count of steps; or a refusal that
    names what is missing, unexpected or of another shape. Nothing is written."""
    states = states_of(session, KEPT)
    found = _fitting("the state does not fit this step", states, given, extra=(STEPS,),
                     fix="state_dict() of a step made in the same way; weights alone go into the "
                         "torch model, before train_step")
    count = _array(given[STEPS])
    if count.shape != () or count.dtype.kind not in "iu" or int(count) < 0:
        raise BadInput(f"{STEPS} is {given[STEPS]!r}", why="it counts the steps done so far",
                       fix="the number as state_dict() gives it")
    return {**found, STEPS: count}


def checked_weights(session: Session, given: Mapping[str, Any]) -> dict[str, Array]:
    """The parameters and buffers of a model out of `given`, which may be torch's own state_dict or
    that of a training step: what only training needs is left aside, and so is a second name of
    weights that are tied."""
    states = states_of(session, WEIGHTS)
    own = {s.name for s in states}
    held = {_memory(x) for name, x in given.items() if name in own}
    used = {name: x for name, x in given.items() if name in own or not (
        _memory(x) in held or _OF_TRAINING.fullmatch(str(name)))}
    return _fitting("the weights do not fit this model", states, used,
                    fix="names as in the model's own state_dict(), and the buffers that torch "
                        "leaves out of it (persistent=False)")


def write_states(session: Session, arrays: Mapping[str, Array]) -> None:
    for name, array in arrays.items():
        session.resident.write_state(name, array)


def _memory(x: Any) -> Any:
    """The same for two names of one tensor, and for nothing else."""
    if hasattr(x, "data_ptr"):
        return x.data_ptr() or id(x), tuple(x.shape)
    return id(x)


def _fitting(what: str, states: Sequence[State], given: Mapping[str, Any], *,
             extra: Sequence[str] = (), fix: str) -> dict[str, Array]:
    if not isinstance(given, Mapping):
        raise BadInput(f"a {type(given).__name__} as state", why="it is arrays by name", fix=fix)
    names = [*(s.name for s in states), *extra]
    arrays = {s.name: _array(given[s.name]) for s in states if s.name in given}
    differ = [f"{s.name} is {_kind(arrays[s.name])} and should be {_wanted(s)}"
              for s in states if s.name in arrays and not _fits(s, arrays[s.name])]
    wrong = [_some("missing", [n for n in names if n not in given]),
             _some("unexpected", [str(n) for n in given if n not in set(names)]),
             _some("different", differ)]
    if any(wrong):
        raise BadInput(what, why="; ".join(filter(None, wrong)), fix=fix)
    for state in states:
        _check_numbers(state, arrays[state.name])
    return {s.name: arrays[s.name].astype(_held(s), copy=False) for s in states}


def _array(x: Any) -> Array:
    try:
        return np.asarray(x.detach().cpu() if hasattr(x, "detach") else x)
    except (TypeError, RuntimeError, ValueError) as e:       # bfloat16, meta, rows of unequal size
        raise BadInput(f"a {type(x).__name__} in the state", why=str(e),
                       fix="arrays or CPU tensors of the types that state_dict() gives") from e


def _held(state: State) -> str:
    return "float64" if state.role == "hyper" else dtype(state.before.dtype).numpy


def _fits(state: State, array: Array) -> bool:
    taken = ("float32", "float64") if state.role == "hyper" else _TAKEN[state.before.dtype]
    return array.dtype.name in taken and array.shape == _shape(state)


def _shape(state: State) -> tuple[int, ...]:
    """As torch has it: the device may hold the axes in another order."""
    shape = state.before.shape
    return tuple(shape[state.order.index(i)] for i in range(len(shape))) if state.order else shape


def _check_numbers(state: State, array: Array) -> None:
    if state.role == "hyper" and not np.isfinite(array).all():
        raise BadInput(f"{state.name} is {array.tolist()}",
                       why="a learning rate is a finite number")
    limits = np.iinfo(np.int32)
    if array.dtype == np.int64 and array.size and (
            array.min() < limits.min or array.max() > limits.max):
        raise BadInput(f"{state.name} holds numbers from {array.min()} to {array.max()}",
                       why="the device has 32 bits for them")


def _kind(array: Array) -> str:
    return f"{array.dtype.name}{list(array.shape)}"


def _wanted(state: State) -> str:
    return f"{_held(state)}{list(_shape(state))}"


def _some(word: str, names: Sequence[str]) -> str:
    if not names:
        return ""
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{word}: {', '.join(names[:_SHOWN])}{more}"
