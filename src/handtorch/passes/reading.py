"""Where the readings of a sequence lie in each value of a graph, and that none meets another.

A sequence of T readings comes in as an axis of the input. From there each value either holds
something for every reading (`Along`), or something that belongs to the last one only (LAST), or
knows nothing of readings at all (None). What would mix readings outside the recurrent layers is
refused with the user's line: a stream has not seen the readings to come, and keeps of those before
only what the recurrent layers keep."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Literal

from handtorch.errors import CannotCapture
from handtorch.graph.node import Graph, Node, Shape, Value
from handtorch.graph.opset import OPS

RECURRENT = ("lstm", "gru", "rnn")
LAST: Literal["last"] = "last"


@dataclass(frozen=True)
class Along:
    """Reading t is where index // within % T of `axis` is t: the axis may hold other things too, as
    after a reshape that joins it with the batch."""

    axis: int
    within: int = 1


Held = Along | Literal["last"] | None


class _Mixed(Exception):
    """What a node does to the readings that it must not."""


def held_by(graph: Graph, axis: int, time: int) -> dict[int, Held]:
    """For every value what it holds, if the one input has its `time` readings along `axis`."""
    found: dict[int, Held] = {graph.inputs[0].value.id: Along(axis)}
    for node in graph.nodes:
        given = [found.get(v.id) for v in node.inputs]
        try:
            found |= zip((v.id for v in node.outputs), _results(node, given, time), strict=True)
        except _Mixed as e:
            raise CannotCapture(
                f"{node.op} in a stream", why=str(e), where=str(node.where or ""),
                fix="layers before and after the recurrent ones that act on each reading by "
                    "itself, or ht.inference over a whole window") from e
    return found


def _results(node: Node, given: list[Held], time: int) -> list[Held]:
    along = [h for h in given if isinstance(h, Along)]
    if not along:
        return [LAST if LAST in given else None] * len(node.outputs)
    if LAST in given:
        raise _Mixed("it joins every reading with the last one")
    if node.op in RECURRENT:
        return _recurrent(node, given, time)
    rule = _RULES.get(node.op, _pointwise if OPS[node.op].pointwise else None)
    if rule is None:
        raise _Mixed("it is not known to act on each reading by itself")
    return [rule(node, given, time)] * len(node.outputs)


def _recurrent(node: Node, given: list[Held], time: int) -> list[Held]:
    if node.flag("reverse"):
        raise _Mixed("the backward direction of a bidirectional layer begins with the last "
                     "reading, which has not come yet")
    if node.flag("states"):
        raise _Mixed("the layer is given states to begin with, and a stream keeps its own")
    axis = 1 if node.flag("batch_first") else 0
    if given[0] != Along(axis) or node.inputs[0].shape[axis] != time or any(given[1:]):
        raise _Mixed(f"its steps are not the {time} readings of the input, one for one")
    return [Along(axis), *[LAST] * (len(node.outputs) - 1)]


def _only(given: list[Held], index: int = 0) -> Along:
    """The one input that may know of readings."""
    found = given[index]
    if not isinstance(found, Along) or any(h for i, h in enumerate(given) if i != index):
        raise _Mixed("its weights depend on the readings")
    return found


def _pointwise(node: Node, given: list[Held], time: int) -> Held:
    rank = len(node.outputs[0].shape)
    at = {Along(h.axis + rank - len(v.shape), h.within)
          for h, v in zip(given, node.inputs, strict=True) if isinstance(h, Along)}
    if len(at) > 1:
        raise _Mixed("it joins different readings")
    (found,) = at
    for h, value in zip(given, node.inputs, strict=True):
        axis = found.axis - (rank - len(value.shape))
        if h is None and axis >= 0 and value.shape[axis] != 1:
            raise _Mixed(f"it treats each of the {time} readings differently")
    return found


def _reshape(node: Node, given: list[Held], time: int) -> Held:
    old, shape = _only(given), node.outputs[0].shape
    inner = old.within * prod(node.inputs[0].shape[old.axis + 1:])
    for axis in reversed(range(len(shape))):
        behind = prod(shape[axis + 1:])
        if behind <= inner < behind * shape[axis]:
            if inner % behind or shape[axis] % (inner // behind * time):
                break
            return Along(axis, inner // behind)
    raise _Mixed(f"it spreads a reading over several rows, from {list(node.inputs[0].shape)} to "
                 f"{list(shape)}")


def _transpose(node: Node, given: list[Held], time: int) -> Held:
    old = _only(given)
    return Along(node.numbers("order").index(old.axis), old.within)


def _slice(node: Node, given: list[Held], time: int) -> Held:
    old = _only(given)
    size, count = node.inputs[0].shape[old.axis], node.outputs[0].shape[old.axis]
    start, step = node.numbers("starts")[old.axis], node.numbers("steps")[old.axis]
    if (start, step, count) == (0, 1, size):
        return old
    if (old.within, size, start, count) == (1, time, time - 1, 1):
        return LAST
    raise _Mixed(f"it takes some of the {time} readings, and a stream has at hand only each by "
                 "itself and the last")


def _expand(node: Node, given: list[Held], time: int) -> Held:
    old = _only(given)
    return Along(old.axis + len(node.outputs[0].shape) - len(node.inputs[0].shape), old.within)


def _cat(node: Node, given: list[Held], time: int) -> Held:
    if len(set(given)) > 1 or given[0] is None:
        raise _Mixed("it joins readings with what is none")
    assert isinstance(given[0], Along)
    if int(node.number("axis")) == given[0].axis:
        raise _Mixed("it joins readings one behind the other")
    return given[0]


def _matmul(node: Node, given: list[Held], time: int) -> Held:
    old = _only(given)
    if old.axis != (1 if node.flag("ta") else 0):
        raise _Mixed("it sums over the readings")
    return Along(0, old.within)


def _take(node: Node, given: list[Held], time: int) -> Held:
    old = _only(given, 1)
    return Along(int(node.number("axis")) + old.axis, old.within)


def _rows(node: Node, given: list[Held], time: int) -> Held:
    """Softmax along an axis that holds no readings."""
    old = _only(given)
    if int(node.number("axis", -1)) % len(node.inputs[0].shape) == old.axis:
        raise _Mixed("it runs over the readings")
    return old


_RULES: Mapping[str, Callable[[Node, list[Held], int], Held]] = {
    "reshape": _reshape, "transpose": _transpose, "slice": _slice, "expand": _expand, "cat": _cat,
    "matmul": _matmul, "take": _take, "softmax": _rows, "log_softmax": _rows}


def retimed_shape(shape: Shape, held: Held, time: int, new: int) -> Shape:
    """The shape with `new` readings instead of `time`."""
    if not isinstance(held, Along):
        return shape
    return tuple(n // time * new if i == held.axis else n for i, n in enumerate(shape))


def retimed(value: Value, held: Held, time: int, new: int) -> Value:
    return Value(value.id, retimed_shape(value.shape, held, time, new), value.dtype)
