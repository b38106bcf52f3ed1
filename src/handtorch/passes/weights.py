"""Weights of convolutions lie on the device with their taps first, from step to step.

That is the order in which a convolution reads them and gives their gradients (`graph/ops/conv.py`).
What is kept beside a weight follows: moments, a slow copy, a mask. Nothing of that is turned in a
step; the runtime turns a state when it crosses between host and device."""

from __future__ import annotations

from dataclasses import replace

from handtorch.graph.node import Graph, Node, State, Value
from handtorch.graph.ops.conv import OPS as CONVOLUTIONS
from handtorch.graph.ops.conv import TAPS_FIRST
from handtorch.graph.ops.optimizers import OPS as UPDATES
from handtorch.passes.rewrite import rebuilt
from handtorch.passes.turning import Turning

# torch's weight of a convolution in one dimension has no taps down.
_ORDERS = {4: TAPS_FIRST, 3: (2, 1, 0)}
_BACK = tuple(TAPS_FIRST.index(i) for i in range(4))
_CONVOLUTIONS = {op.name for op in CONVOLUTIONS}
_UPDATES = {op.name for op in UPDATES} - {"tick"}
_RATES = 2                                          # the input of an update that is no weight


def taps_first(graph: Graph) -> Graph:
    """Afterwards every state that would be turned in a step, before or after it, is held turned.

    What is not a state is turned where it must be: a weight that is computed, a gradient that is
    an output, a weight that something else reads."""
    if not any(n.op in _CONVOLUTIONS for n in graph.nodes):
        return graph
    held: set[str] = set()
    while True:
        sweep = _Weights(graph, _ORDERS, held)
        for node in graph.nodes:
            sweep.take(node)
        more = sweep.wanted() - held
        if not more:
            return sweep.finished()
        held |= more


class _Weights(Turning):
    """One attempt: with the states named `held` turned."""

    def __init__(self, graph: Graph, orders: dict[int, tuple[int, ...]], held: set[str]) -> None:
        super().__init__(graph, orders)
        self._graph, self._held = graph, held
        self._gradients = {n.outputs[0].id for n in graph.nodes if n.op == "conv_grad_weight"}
        self._instead: dict[int, Value] = {}
        self._before = {s.name: self.twin(s.before) for s in graph.states if s.name in held}

    def take(self, node: Node) -> None:
        order = node.numbers("order") if node.op == "transpose" else ()
        if order == TAPS_FIRST:
            self._instead[node.outputs[0].id] = self.turned(node.inputs[0], 4, node)
        elif order == _BACK and node.inputs[0].id in self._gradients:
            (turned,), (out,) = node.inputs, node.outputs
            self.twins[out.id, 4] = turned
            self.missing.add(out.id)
        else:
            super().take(node)

    def wanted(self) -> set[str]:
        """The states of which a twin was asked for, or of whose new value there is only one."""
        return {s.name for s in self._graph.states
                if (s.before.id, len(s.before.shape)) in self.twins or s.after.id in self.missing}

    def finished(self) -> Graph:
        states = tuple(map(self._state, self._graph.states))
        for port in self._graph.outputs:
            self.as_torch(port.value, self._graph.nodes[-1])
        return rebuilt(replace(self._graph, states=states), self.nodes, self._instead)

    def _state(self, state: State) -> State:
        if state.name not in self._held:
            return state
        rank = len(state.before.shape)
        return replace(state, before=self._before[state.name], order=_ORDERS[rank],
                       after=self.turned(state.after, rank, self._graph.nodes[-1]))

    def reads(self, node: Node) -> tuple[int, ...]:
        rank = len(node.inputs[0].shape) if node.inputs else 0
        if node.op in _UPDATES and any(v.id in self.missing for v in node.inputs):
            return tuple(0 if i == _RATES else rank for i in range(len(node.inputs)))
        if node.op == "reshape" and node.inputs[0].id in self.missing and _is_height(node):
            return (rank,)
        return super().reads(node)

    def free(self, node: Node) -> tuple[int, ...] | None:
        if node.op == "reshape" and _is_height(node):
            return (len(node.inputs[0].shape),)
        return super().free(node)


def _is_height(node: Node) -> bool:
    """Whether the node only gives a weight of one dimension its height, or takes it away."""
    narrow, wide = sorted((node.inputs[0].shape, node.outputs[0].shape), key=len)
    return len(narrow) == 3 and wide == (*narrow[:2], 1, narrow[2])
