"""log-softmax, NLL loss and both their gradients -> one op.

PyTorch always emits them together; kept apart they read and write the logits five times."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod

from handtorch.graph.node import Graph, Node, Shape, Value
from handtorch.passes.rewrite import behind_views, makers, rebuilt


def fuse_cross_entropy(graph: Graph) -> Graph:
    """Afterwards a loss of [rows, classes] whose own gradient is 1 is one `cross_entropy` node, and
    so is one whose classes are the second of more axes if they were last before a transpose.

    A loss that is scaled, added to another or weighted by class keeps its parts, and so does one
    of images whose classes lie apart or one without a mean or a sum. The transposes that are left
    over cancel out in the pass `views`."""
    made, new = makers(graph), _Fresh(graph.next_id())
    nodes, instead = list(graph.nodes), dict[int, Value]()
    for grad in graph.nodes:
        group = _group(grad, made, graph)
        if group is None:
            continue
        soft, loss = group
        found, value, dx = _fused(soft, loss, grad, made, new)
        at = nodes.index(loss)
        nodes[at:at] = found
        instead |= {loss.outputs[0].id: value, grad.outputs[0].id: dx}
    return rebuilt(graph, nodes, instead)


@dataclass
class _Fresh:
    next_id: int

    def __call__(self, shape: Shape, dtype: str = "f32") -> Value:
        self.next_id += 1
        return Value(self.next_id - 1, shape, dtype)


def _fused(soft: Node, loss: Node, grad: Node, made: Mapping[int, Node], new: _Fresh
           ) -> tuple[list[Node], Value, Value]:
    """The nodes instead of the group, the loss and the gradient of the logits."""
    source, order = _classes_last(soft.inputs[0], made)
    labels = behind_views(loss.inputs[1], made)
    shape = (prod(source.shape[:-1]), source.shape[-1])
    nodes: list[Node] = []

    def viewed(x: Value, op: str, to: Shape, like: Node, **attrs: Shape) -> Value:
        if x.shape == to and op == "reshape":
            return x
        y = new(to, x.dtype)
        nodes.append(replace(like, op=op, inputs=(x,), outputs=(y,), attrs=attrs))
        return y

    x = viewed(source, "reshape", shape, loss, shape=shape)
    t = viewed(labels, "reshape", shape[:1], loss, shape=shape[:1])
    value, dx = new(()), new(shape)
    nodes.append(Node("cross_entropy", (x, t), (value, dx),
                      {k: loss.attrs[k] for k in ("ignore", "reduction")},
                      loss.where, loss.layer, "forward"))
    dx = viewed(dx, "reshape", source.shape, grad, shape=source.shape)
    if order:
        dx = viewed(dx, "transpose", soft.inputs[0].shape, grad, order=order)
    return nodes, value, dx


def _classes_last(x: Value, made: Mapping[int, Node]) -> tuple[Value, tuple[int, ...]]:
    """Where `x` [m, classes, ...] lies with its classes last, and what order turned it; `x` itself
    and no order if it has two axes, or was never turned."""
    rank, maker = len(x.shape), made.get(x.id)
    order = (0, rank - 1, *range(1, rank - 1))
    if rank > 2 and maker is not None and maker.op == "transpose" \
            and maker.numbers("order") == order:
        return maker.inputs[0], order
    return x, ()


def _group(grad: Node, made: Mapping[int, Node], graph: Graph) -> tuple[Node, Node] | None:
    """(log_softmax, nll_loss) that `grad`, a log_softmax_grad, closes; None if it is another."""
    if grad.op != "log_softmax_grad":
        return None
    inner, soft = made.get(behind_views(grad.inputs[0], made).id), made.get(grad.inputs[1].id)
    if inner is None or soft is None or inner.op != "nll_loss_grad" or soft.op != "log_softmax":
        return None
    logits = soft.inputs[0]
    rank = len(logits.shape)
    if rank < 2 or inner.attrs["reduction"] == "none" or len(inner.inputs) != 2:
        return None
    if int(soft.number("axis", -1)) % rank != 1 or inner.outputs[0].shape[:2] != logits.shape[:2]:
        return None
    if rank > 2 and not _classes_last(logits, made)[1]:
        return None
    seed = made.get(inner.inputs[0].id)
    if seed is None or seed.op != "fill" or seed.number("number") != 1.0:
        return None
    labels = behind_views(inner.inputs[1], made)
    for node in graph.nodes:
        if (node.op == "nll_loss" and len(node.inputs) == 2
                and behind_views(node.inputs[0], made) == soft.outputs[0]
                and node.inputs[0].shape == inner.outputs[0].shape
                and behind_views(node.inputs[1], made) == labels
                and all(node.attrs[k] == inner.attrs[k] for k in ("ignore", "reduction"))):
            return soft, node
    return None
