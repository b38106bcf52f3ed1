"""Views that cost nothing: joined, cancelled, folded into products and point-wise ops."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from handtorch.graph.node import Graph, Node, Shape, Value
from handtorch.graph.ops.op import broadcast
from handtorch.graph.opset import OPS
from handtorch.passes.rewrite import makers, rebuilt, use_counts


def fold_views(graph: Graph) -> Graph:
    """Afterwards

    - no view is of a view of the same kind, none gives back what it got, and a transpose that
      only moves axes of one element is a reshape;
    - no product reads a transposed matrix: it reads the matrix with a flag set;
    - no product is transposed by its only reader: it computes its transpose;
    - no point-wise op reads a stretched value: it stretches it itself."""
    for rule in (_joined, _stretched, _bare, _turned_result, _with_flags):
        graph = _rewritten(graph, rule)
    return graph


class _Context:
    """What a rule may ask: who made a value, how often it is read; and fresh nodes."""

    def __init__(self, graph: Graph) -> None:
        self.made, self.uses, self._next = makers(graph), use_counts(graph), graph.next_id()
        self.new: list[Node] = []

    def maker(self, value: Value, op: str) -> Node | None:
        found = self.made.get(value.id)
        return found if found is not None and found.op == op else None

    def reshape(self, x: Value, shape: Shape, like: Node) -> Value:
        """`x` in another shape, by a node that stands before the one being rewritten."""
        if x.shape == shape:
            return x
        return self.fresh(replace(like, op="reshape", inputs=(x,), attrs={"shape": shape}), shape)

    def fresh(self, node: Node, shape: Shape) -> Value:
        """The output of `node`, put before the one being rewritten, as a new value."""
        out = Value(self._next, shape, node.outputs[0].dtype)
        self._next += 1
        self.new.append(replace(node, outputs=(out,)))
        self.made[out.id] = self.new[-1]
        return out


# A rule gives the node as it should be, or the value to use instead of its output.
Rule = Callable[[Node, _Context], Node | Value]


def _rewritten(graph: Graph, rule: Rule) -> Graph:
    context, nodes, instead = _Context(graph), list[Node](), dict[int, Value]()
    for node in graph.nodes:
        now = replace(node, inputs=tuple(instead.get(v.id, v) for v in node.inputs))
        found = rule(now, context)
        nodes += context.new
        context.new.clear()
        if isinstance(found, Value):
            instead[node.outputs[0].id] = found
        else:
            nodes.append(found)
            context.made |= {v.id: found for v in found.outputs}
    return rebuilt(graph, nodes, instead)


def _joined(node: Node, at: _Context) -> Node | Value:
    if node.op not in ("transpose", "reshape", "expand"):
        return node
    (x,), (y,) = node.inputs, node.outputs
    if node.op == "transpose":
        order = node.numbers("order")
        if (below := at.maker(x, "transpose")) is not None:
            first = below.numbers("order")
            (x,), order = below.inputs, tuple(first[i] for i in order)
        if order == tuple(range(len(order))):
            return x
        if _keeps_bytes(x.shape, order):
            return _joined(replace(node, op="reshape", inputs=(x,), attrs={"shape": y.shape}), at)
        return replace(node, inputs=(x,), attrs={"order": order})
    if (below := at.maker(x, node.op)) is not None:
        (x,) = below.inputs
    return x if x.shape == y.shape else replace(node, inputs=(x,))


def _keeps_bytes(shape: Shape, order: tuple[int, ...]) -> bool:
    """Axes of more than one element keep their order."""
    real = [i for i in order if shape[i] != 1]
    return real == sorted(real)


def _stretched(node: Node, at: _Context) -> Node | Value:
    """A point-wise op reads what was stretched as it was, if the other inputs give the shape."""
    if not OPS[node.op].pointwise:
        return node
    inputs = list(node.inputs)
    for i, x in enumerate(inputs):
        below = at.maker(x, "expand")
        if below is not None:
            tried = [*inputs[:i], below.inputs[0], *inputs[i + 1:]]
            if broadcast([v.shape for v in tried]) == node.outputs[0].shape:
                inputs = tried
    return replace(node, inputs=tuple(inputs))


def _swaps_last(node: Node) -> bool:
    """A transpose of the last two axes, all others where they were."""
    order = node.numbers("order")
    rank = len(order)
    return rank >= 2 and order == (*range(rank - 2), rank - 1, rank - 2)


def _bare(node: Node, at: _Context) -> Node | Value:
    """Leading axes joined after a swap of the last two: join first, then swap.

    Not where others read the swapped value too: it would be made twice."""
    if node.op != "reshape":
        return node
    (x,), (y,) = node.inputs, node.outputs
    below = at.maker(x, "transpose")
    if (below is None or not _swaps_last(below) or at.uses.get(x.id) != 1
            or len(y.shape) != 3 or y.shape[1:] != x.shape[-2:]):
        return node
    rows, columns = y.shape[1:]
    source = at.reshape(below.inputs[0], (y.shape[0], columns, rows), below)
    return replace(node, op="transpose", inputs=(source,), attrs={"order": (0, 2, 1)})


_PRODUCTS = ("matmul", "bmm")


def _turned_result(node: Node, at: _Context) -> Node | Value:
    """(A B)t = Bt At: the transpose of a product nobody else reads is a product."""
    if node.op != "transpose" or not _swaps_last(node):
        return node
    (x,), view = node.inputs, None
    if at.uses.get(x.id) == 1 and (view := at.maker(x, "reshape")) is not None:
        (x,) = view.inputs
    product = at.made.get(x.id)
    if (product is None or product.op not in _PRODUCTS or product.words("epilogue")
            or at.uses.get(x.id) != 1 or (view and view.outputs[0].shape[-2:] != x.shape[-2:])):
        return node
    a, b = product.inputs
    flags = {"ta": not product.flag("tb"), "tb": not product.flag("ta")}
    shape = (*x.shape[:-2], x.shape[-1], x.shape[-2])
    if shape == node.outputs[0].shape:
        return replace(product, inputs=(b, a), outputs=node.outputs, attrs=flags)
    return node if view is None else _turned_view(product, node, flags, shape, at)


def _turned_view(product: Node, node: Node, flags: dict[str, bool], shape: Shape, at: _Context
                 ) -> Node:
    """The same where leading axes were taken apart in between."""
    a, b = product.inputs
    turned = at.fresh(replace(product, inputs=(b, a), attrs=flags), shape)
    return replace(node, op="reshape", inputs=(turned,), attrs={"shape": node.outputs[0].shape})


def _with_flags(node: Node, at: _Context) -> Node | Value:
    if node.op not in _PRODUCTS:
        return node
    inputs, attrs = list(node.inputs), dict(node.attrs)
    for i, flag in enumerate(("ta", "tb")):
        maker = at.maker(inputs[i], "transpose")
        if maker is not None and _swaps_last(maker):
            inputs[i] = maker.inputs[0]
            attrs[flag] = not node.flag(flag)
        if node.op == "bmm":
            inputs[i] = _one_matrix(inputs[i], at)
    return replace(node, inputs=tuple(inputs), attrs=attrs)


def _one_matrix(x: Value, at: _Context) -> Value:
    """What was stretched to `x`, if that is one matrix for the whole batch; else `x`."""
    stretch = at.maker(x, "expand")
    if stretch is None or stretch.inputs[0].size != x.shape[1] * x.shape[2]:
        return x
    return at.reshape(stretch.inputs[0], (1, *x.shape[1:]), stretch)
