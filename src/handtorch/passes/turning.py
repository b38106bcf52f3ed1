"""What passes share that give tensors another order of axes.

Each such tensor has a twin in the other order. Those who want that order read the twin, what works
in any order follows it, and only for what is left is it turned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from handtorch.graph.node import Attr, Graph, Node, Shape, Value
from handtorch.graph.opset import OPS
from handtorch.passes.rewrite import makers

Order = tuple[int, ...]

_BOXES = ("slice", "pad", "put_slice", "cat", "expand")
_REPEATED = ("fill", "expand", "slice", "pad")
_FOLDS = ("sum", "prod", "amax", "amin", "any")


class Turning:
    """Once through a graph: `take` its nodes in order, `nodes` are the new ones.

    `orders` has the twins' order for each number of axes that values with a twin may have."""

    def __init__(self, graph: Graph, orders: Mapping[int, Order]) -> None:
        self.nodes: list[Node] = []
        self.twins: dict[tuple[int, int], Value] = {}   # by value and number of axes
        self.missing: set[int] = set()                  # values of which there is only the twin
        self._free: dict[int, bool] = {}
        self._orders, self._made, self._next = orders, makers(graph), graph.next_id()

    def take(self, node: Node) -> None:
        """Adds the node, on twins where it should work on them."""
        ranks = self.reads(node)
        inputs = tuple(self.turned(v, rank, node) if rank else self.as_torch(v, node)
                       for v, rank in zip(node.inputs, ranks, strict=True))
        if any(ranks):
            outputs = tuple(self.twin(v) if self.writes(node, v) else v for v in node.outputs)
            node = replace(node, inputs=inputs, outputs=outputs, attrs=self.attrs(node))
        self.nodes.append(node)

    def reads(self, node: Node) -> tuple[int, ...]:
        """For each input the number of axes of the twin that is read, or 0: it is read as it is.

        So for an op that means the same in any order, where the pass knows no better."""
        rank = self._follows(node)
        return (rank,) * len(node.inputs)

    def writes(self, node: Node, out: Value) -> bool:
        """Whether the node, which reads twins, gives this output's twin."""
        return len(out.shape) in self._orders

    def attrs(self, node: Node) -> dict[str, Attr]:
        """The attributes of a node that works on twins: with its axes renamed."""
        order = self._orders[max(len(v.shape) for v in (*node.inputs, *node.outputs))]
        return {k: self._renamed(k, v, order) for k, v in node.attrs.items()}

    def _renamed(self, name: str, attr: Attr, order: Order) -> Attr:
        if name == "axis":
            assert isinstance(attr, int)
            return order.index(attr % len(order))
        if name == "axes":
            assert isinstance(attr, tuple)
            return tuple(sorted(order.index(a % len(order)) for a in attr if isinstance(a, int)))
        if name in ("shape", "starts", "steps") and isinstance(attr, tuple):
            return tuple(attr[i] for i in self._orders.get(len(attr), range(len(attr))))
        return attr

    def as_torch(self, value: Value, node: Node) -> Value:
        """The value in torch's order, which is made for `node` if there is only the twin."""
        if value.id in self.missing:
            self.missing.remove(value.id)
            rank = len(value.shape)
            order = self._orders[rank]
            back = tuple(order.index(i) for i in range(rank))
            self.nodes.append(turn(self.twins[value.id, rank], value, back, node))
        return value

    def turned(self, value: Value, rank: int, node: Node) -> Value:
        """The twin; of what has fewer axes that of the value as torch would stretch it."""
        if not value.shape:
            return value
        if (value.id, rank) not in self.twins:
            self.twins[value.id, rank] = self._made_again(value, rank) or self._turn(
                self.as_torch(value, node), rank, node)
        return self.twins[value.id, rank]

    def twin(self, value: Value) -> Value:
        """A new value that is this one's twin, and all that there is of it."""
        rank = len(value.shape)
        self.missing.add(value.id)
        self.twins[value.id, rank] = self.fresh(_turned(value.shape, self._orders[rank]), value)
        return self.twins[value.id, rank]

    def fresh(self, shape: Shape, like: Value) -> Value:
        self._next += 1
        return Value(self._next - 1, shape, like.dtype)

    def _turn(self, source: Value, rank: int, node: Node) -> Value:
        if len(source.shape) < rank:
            wide = self.fresh((1,) * (rank - len(source.shape)) + source.shape, source)
            self.nodes.append(replace(node, op="reshape", inputs=(source,), outputs=(wide,),
                                      attrs={"shape": wide.shape}))
            source = wide
        twin = self.fresh(_turned(source.shape, self._orders[rank]), source)
        self.nodes.append(turn(source, twin, self._orders[rank], node))
        return twin

    def free(self, node: Node) -> tuple[int, ...] | None:
        """What it reads, as `reads` says, if doing it again on twins costs less than turning its
        output: it makes much of little."""
        out = node.outputs[0]
        if node.op not in _REPEATED and not OPS[node.op].pointwise:
            return None
        little = all(v.size < out.size or self._is_free(v) for v in node.inputs)
        return (len(out.shape),) * len(node.inputs) if little else None

    def _is_free(self, value: Value) -> bool:
        if value.id not in self._free:
            maker = self._made.get(value.id)
            self._free[value.id] = maker is not None and self.free(maker) is not None
        return self._free[value.id]

    def _made_again(self, value: Value, rank: int) -> Value | None:
        maker = self._made.get(value.id)
        ranks = self.free(maker) if maker is not None and len(value.shape) == rank else None
        if maker is None or ranks is None:
            return None
        inputs = tuple(self.turned(v, r, maker) for v, r in zip(maker.inputs, ranks, strict=True))
        twin = self.fresh(_turned(value.shape, self._orders[rank]), value)
        self.nodes.append(replace(maker, inputs=inputs, outputs=(twin,), attrs=self.attrs(maker)))
        return twin

    def _follows(self, node: Node) -> int:
        """The number of axes in which the node works on twins since one of its inputs is only
        there as a twin; 0 if it does not."""
        ranks = {len(v.shape) for v in node.inputs if v.id in self.missing}
        if OPS[node.op].pointwise:
            rank = len(node.outputs[0].shape)
            return rank if rank in ranks else 0
        if node.op in _FOLDS and ranks and not node.flag("keepdim"):
            (rank,) = ranks
            left = [a for a in self._orders[rank] if a not in node.numbers("axes")]
            return rank if left == sorted(left) else 0
        alike = len({len(v.shape) for v in (*node.inputs, *node.outputs)}) == 1
        return max(ranks, default=0) if node.op in (*_BOXES, *_FOLDS) and alike else 0


def turn(source: Value, out: Value, order: Order, like: Node) -> Node:
    return replace(like, op="transpose", inputs=(source,), outputs=(out,), attrs={"order": order})


def _turned(shape: Shape, order: Order) -> Shape:
    return tuple(shape[i] for i in order)

