"""Training steps made by hand, without torch: a small network, and a step of four kernels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from handtorch.graph.node import Attr, Graph, Node, Port, State, Value
from handtorch.graph.opset import infer_outputs

Array = NDArray[Any]


@dataclass(frozen=True)
class Mlp:
    """The graph, the states it starts from, and batches for it."""

    graph: Graph
    states: dict[str, Array]

    def batch(self, seed: int) -> tuple[Array, Array]:
        x, y = (p.value.shape for p in self.graph.inputs)
        rng = np.random.default_rng(seed)
        return rng.normal(size=x).astype("f4"), rng.integers(0, 5, y)

    @property
    def bytes_in(self) -> int:
        return sum(p.value.nbytes for p in self.graph.inputs)


class _Builder:
    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self._next = 0

    def value(self, shape: tuple[int, ...], dtype: str = "f32") -> Value:
        self._next += 1
        return Value(self._next - 1, shape, dtype)

    def __call__(self, op: str, *inputs: Value, phase: str = "forward",
                 **attrs: Attr) -> tuple[Value, ...]:
        node = Node(op, inputs, (), attrs)
        outputs = infer_outputs(node, self._next)
        self._next += len(outputs)
        self.nodes.append(Node(op, inputs, outputs, attrs, phase=phase))
        return outputs


def mlp(rows: int = 6, features: int = 7, hidden: int = 9, classes: int = 5) -> Mlp:
    """loss(x, y) and new weights; the sizes are off every tile's edge."""
    b = _Builder()
    x, y = b.value((rows, features)), b.value((rows,), "i32")
    w1, w2 = b.value((features, hidden)), b.value((hidden, classes))
    bias, rate = b.value((hidden,)), b.value((1,))
    moments = [b.value(v.shape) for v in (w1, w2, bias)]
    (product,) = b("matmul", x, w1)
    (biased,) = b("add", product, bias)
    (h,) = b("relu", biased)
    (logits,) = b("matmul", h, w2)
    loss, dlogits = b("cross_entropy", logits, y, reduction="mean", ignore=-100)
    (dw2,) = b("matmul", h, dlogits, ta=True)
    (dh,) = b("matmul", dlogits, w2, tb=True)
    (dz,) = b("relu_grad", dh, h)
    (dw1,) = b("matmul", x, dz, ta=True)
    (dbias,) = b("sum", dz, axes=(0,), keepdim=False)
    names, states = ("w1", "w2", "bias"), [State("rate", "hyper", rate, rate)]
    for name, weight, grad, moment in zip(names, (w1, w2, bias), (dw1, dw2, dbias), moments,
                                          strict=True):
        new, moved = b("sgd", weight, grad, rate, moment, phase="optimizer", decay=0.01,
                       momentum=0.9, nesterov=False, maximize=False)
        states += [State(name, "parameter", weight, new),
                   State(f"{name}.momentum", "optimizer", moment, moved)]
    graph = Graph(tuple(b.nodes), (Port("x", x), Port("y", y)), tuple(states),
                  (Port("loss", loss),))
    return Mlp(graph, dict(_start(graph)))


def four_kernels(size: int = 7) -> Mlp:
    """loss = sum(w * sum(x)), and SGD on w [size]: quick to compile, and large where asked for."""
    b = _Builder()
    x, y = b.value((6, 7)), b.value((6,), "i32")
    w, rate = b.value((size,)), b.value((1,))
    (total,) = b("sum", x, axes=(0, 1), keepdim=False)
    (grad,) = b("mul", w, total)
    (loss,) = b("sum", grad, axes=(0,), keepdim=False)
    (new,) = b("sgd", w, grad, rate, phase="optimizer", decay=0.0, momentum=0.0, nesterov=False,
               maximize=False)
    states = (State("w", "parameter", w, new), State("rate", "hyper", rate, rate))
    graph = Graph(tuple(b.nodes), (Port("x", x), Port("y", y)), states, (Port("loss", loss),))
    return Mlp(graph, dict(_start(graph)))


def _start(graph: Graph) -> Iterator[tuple[str, Array]]:
    rng = np.random.default_rng(3)
    for state in graph.states:
        shape = state.before.shape
        if state.role == "parameter":
            yield state.name, rng.normal(0, 0.5, shape).astype("f4")
        else:
            yield state.name, np.full(shape, 0.05 if state.role == "hyper" else 0.0, "f4")
