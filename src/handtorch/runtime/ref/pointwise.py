"""Point-wise ops, alone and as regions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from handtorch.graph.node import Node
from handtorch.graph.ops.pointwise import SIMPLE
from handtorch.graph.region import is_literal, literal_value, parse
from handtorch.runtime.device import Array
from handtorch.runtime.ref.registry import reference


def _erf(x: Array) -> Array:
    from math import erf
    return np.asarray(np.vectorize(erf, otypes=[x.dtype])(x))


def _sigmoid(x: Array) -> Array:
    with np.errstate(over="ignore"):
        return np.asarray(1 / (1 + np.exp(-x)))


def _as_given(fn: Callable[..., Any]) -> Callable[..., Array]:
    """Computed in the precision of the first argument."""
    return lambda x, *rest: np.asarray(fn(x, *rest), np.asarray(x).dtype)


FUNCTIONS: dict[str, Callable[..., Array]] = {
    "copy": np.array, "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide,
    "neg": np.negative, "abs": np.abs, "exp": np.exp, "log": np.log, "log1p": np.log1p,
    "expm1": np.expm1,
    "sqrt": np.sqrt, "rsqrt": _as_given(lambda x: 1 / np.sqrt(x)),
    "reciprocal": _as_given(lambda x: 1 / x), "square": np.square, "pow": _as_given(np.power),
    "sin": np.sin, "cos": np.cos, "tanh": np.tanh, "erf": _erf, "sign": np.sign,
    "floor": np.floor, "ceil": np.ceil, "maximum": np.maximum, "minimum": np.minimum,
    "relu": lambda x: np.maximum(x, 0), "sigmoid": _sigmoid,
    "relu_grad": lambda g, y: np.where(y > 0, g, np.zeros_like(g)),
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal, "isnan": np.isnan, "logical_and": np.logical_and,
    "logical_or": np.logical_or, "logical_xor": np.logical_xor, "logical_not": np.logical_not,
    "where": np.where, "to_bool": lambda x: x != 0,
    "to_f32": lambda x: x if x.dtype.kind == "f" else x.astype("f4"),
    "bool_to_f32": lambda x: x.astype("f4"),
    "to_i32": lambda x: x.astype("i4"), "bool_to_i32": lambda x: x.astype("i4"),
}


def _quiet(fn: Callable[..., Array], *arguments: Array) -> Array:
    """Infinities and NaN are results here, not accidents."""
    with np.errstate(all="ignore"):
        return np.asarray(fn(*arguments))


@reference(*SIMPLE)
def _simple(node: Node, *inputs: Array) -> Array:
    return _quiet(FUNCTIONS[node.op], *inputs)


@reference("pointwise")
def _region(node: Node, *inputs: Array) -> Array:
    """Numbers take the precision of the float inputs, as they would in PyTorch."""
    floats = [x.dtype.type for x in inputs if x.dtype.kind == "f"] or [np.float32]
    made: list[Array] = []

    def value(argument: str) -> Array:
        if is_literal(argument):
            found = literal_value(argument)
            return np.asarray(found, "i4" if isinstance(found, int) else floats[0])
        return (inputs if argument[0] == "x" else made)[int(argument[1:])]

    for step in parse(str(node.attrs["body"])):
        made.append(_quiet(FUNCTIONS[step.op], *map(value, step.arguments)))
    return np.asarray(np.broadcast_to(made[-1], node.numbers("shape")))
