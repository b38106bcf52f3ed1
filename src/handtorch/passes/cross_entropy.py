"""log-softmax, NLL loss and both their gradients -> one op.

PyTorch always emits them together; kept apart they read and write the logits five times."""

from __future__ import annotations

from handtorch.graph.node import Graph, Node, Value
from handtorch.passes.rewrite import makers, rebuilt


def fuse_cross_entropy(graph: Graph) -> Graph:
    """Afterwards a loss of [rows, classes] whose own gradient is 1 is one `cross_entropy` node.

    A loss that is scaled, added to another or weighted by class keeps its parts, and so does one
    of images or one without a mean or a sum."""
    made, fresh = makers(graph), graph.next_id()
    nodes, instead = list(graph.nodes), dict[int, Value]()
    for grad in graph.nodes:
        group = _group(grad, made, graph)
        if group is None:
            continue
        soft, loss = group
        fused = Node("cross_entropy", (soft.inputs[0], loss.inputs[1]),
                     (Value(fresh, ()), Value(fresh + 1, soft.inputs[0].shape)),
                     {k: loss.attrs[k] for k in ("ignore", "reduction")},
                     loss.where, loss.layer, "forward")
        fresh += 2
        nodes.insert(nodes.index(loss), fused)
        instead |= {loss.outputs[0].id: fused.outputs[0], grad.outputs[0].id: fused.outputs[1]}
    return rebuilt(graph, nodes, instead)


def _group(grad: Node, made: dict[int, Node], graph: Graph) -> tuple[Node, Node] | None:
    """(log_softmax, nll_loss) that `grad`, a log_softmax_grad, closes; None if it is another."""
    if grad.op != "log_softmax_grad":
        return None
    inner, soft = made.get(grad.inputs[0].id), made.get(grad.inputs[1].id)
    if inner is None or soft is None or inner.op != "nll_loss_grad" or soft.op != "log_softmax":
        return None
    if len(soft.inputs[0].shape) != 2 or inner.attrs["reduction"] == "none":
        return None
    if int(soft.number("axis", -1)) % 2 != 1:
        return None
    seed = made.get(inner.inputs[0].id)
    if seed is None or seed.op != "fill" or seed.number("number") != 1.0:
        return None
    for node in graph.nodes:
        if (node.op == "nll_loss" and node.inputs == (soft.outputs[0], *inner.inputs[1:])
                and len(node.inputs) == 2
                and all(node.attrs[k] == inner.attrs[k] for k in ("ignore", "reduction"))):
            return soft, node
    return None
