"""Pictures lie with their channels last, [N, height, width, channels], from end to end.

torch's order is [N, channels, height, width]. With channels last a vector of them is one load, a
sum over a channel runs down columns, and joining channels is a matter of strides; so convolutions,
pooling and batch-norm are computed that way, and what stands between them follows. A picture is
turned where it comes in and where something else reads it."""

from __future__ import annotations

from dataclasses import replace

from handtorch.graph.node import Attr, Graph, Node, Value
from handtorch.graph.ops.conv import TAPS_FIRST
from handtorch.passes.rewrite import rebuilt
from handtorch.passes.turning import Turning, turn

_TO_LAST = (0, 2, 3, 1)
_PICTURES = {"conv": 1, "conv_grad_input": 1, "conv_grad_weight": 2, "max_pool": 1,
             "max_pool_grad": 2, "avg_pool": 1, "avg_pool_grad": 1}     # how many inputs are
_NORMS = {"norm_stats": 1, "norm_grad_sums": 2}


def channels_last(graph: Graph) -> Graph:
    """Afterwards every convolution, every pooling and batch-norm of a picture has the flag
    `channels_last` or sees its channels last, and no picture is turned between two of them.

    Weights are turned where a convolution reads or makes them, each time anew: see weights.py."""
    if not any(n.op in _PICTURES for n in graph.nodes):
        return graph
    sweep = _Pictures(graph, {4: _TO_LAST})
    for node in graph.nodes:
        sweep.take(node)
    for value in graph.results():
        sweep.as_torch(value, graph.nodes[-1])
    return rebuilt(graph, sweep.nodes, {})


class _Pictures(Turning):
    def take(self, node: Node) -> None:
        if node.op in ("conv", "conv_grad_input"):
            x, w, *bias = node.inputs
            turned = self._taps_first(self.as_torch(w, node))
            self.nodes.append(turn(w, turned, TAPS_FIRST, node))
            super().take(replace(node, inputs=(x, turned, *bias)))
        elif node.op == "conv_grad_weight":
            (dw,) = node.outputs
            turned = self._taps_first(dw)
            super().take(replace(node, outputs=(turned,)))
            back = tuple(TAPS_FIRST.index(i) for i in range(4))
            self.nodes.append(turn(turned, dw, back, node))
        else:
            super().take(node)

    def _taps_first(self, w: Value) -> Value:
        return self.fresh(tuple(w.shape[i] for i in TAPS_FIRST), w)

    def reads(self, node: Node) -> tuple[int, ...]:
        count = self._pictures(node)
        if count is None:
            return super().reads(node)
        return tuple(4 if i < count else 0 for i in range(len(node.inputs)))

    def _pictures(self, node: Node) -> int | None:
        """How many inputs, from the first on, are to be read with channels last; None if that
        depends on how they are."""
        first = node.inputs[0] if node.inputs else None
        if node.op in _PICTURES:
            return _PICTURES[node.op] if first and len(first.shape) == 4 else 0
        if node.op in _NORMS:
            if first is None or len(first.shape) != 4:
                return 0
            n, c, h, w = first.shape
            return _NORMS[node.op] if node.numbers("split") == (n, c, h * w) else 0
        return None

    def writes(self, node: Node, out: Value) -> bool:
        return len(out.shape) == 4 and node.op != "conv_grad_weight"

    def attrs(self, node: Node) -> dict[str, Attr]:
        if node.op in _NORMS:
            planes, channels, size = node.numbers("split")
            return {**node.attrs, "split": (planes * size, channels, 1)}
        attrs = super().attrs(node)
        return {**attrs, "channels_last": True} if node.op in _PICTURES else attrs
