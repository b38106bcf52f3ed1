"""Values that are given up after their last early reader and made again for the late ones.

The same kernels run on the same operands, so results stay the same bit for bit; the random numbers
of a repeated node come from the same counter. Nothing after this pass may join equal nodes."""

from __future__ import annotations

from dataclasses import replace

from handtorch.graph.node import Graph, Node, Value
from handtorch.passes.order import order
from handtorch.passes.rewrite import makers
from handtorch.passes.tape import Drops, Tape, part_at, play


def recompute(tape: Tape, drops: Drops) -> Graph:
    """Afterwards no row behind a drop reads what was dropped: it reads what was made again right
    before the first of them, by nodes of phase "recompute"."""
    if not drops:
        return tape.graph
    again = _Again(tape, drops)
    for row, root, part in play(tape, drops).entries:
        if root < 0:
            again.keep(row)
        else:
            again.make(root, part, row)
    return order(replace(tape.graph, nodes=tuple(again.nodes)))


class _Again:
    """The graph while it is rewritten; `now` are the values made again, by the id of what they
    stand for and the part of its life."""

    def __init__(self, tape: Tape, drops: Drops) -> None:
        self._tape, self._drops = tape, drops
        self._maker = makers(tape.graph)
        self._next = tape.graph.next_id()
        self._now: dict[tuple[int, int], Value] = {}
        self.nodes: list[Node] = []

    def keep(self, row: int) -> None:
        node = self._tape.graph.nodes[row]
        if node.op == "reshape" and self._part(node.outputs[0], row):
            return                                          # made where it is first read
        self.nodes.append(replace(node, inputs=tuple(self._at(v, row) for v in node.inputs)))

    def make(self, root: int, part: int, at: int) -> None:
        """Repeat the node that made it, or cut it out of what it went into."""
        way = self._drops[root][part - 1].way
        node = self._tape.graph.nodes[way.row]
        if way.part:
            node = self._cut(node, root)
        inputs = tuple(self._at(v, at) for v in node.inputs)
        outputs = tuple(self._fresh(v) for v in node.outputs)
        for old, new in zip(node.outputs, outputs, strict=True):
            if number := self._part(old, at):
                self._now[old.id, number] = new
        self.nodes.append(replace(node, inputs=inputs, outputs=outputs, phase="recompute"))

    def _cut(self, cat: Node, root: int) -> Node:
        (whole,), axis = cat.outputs, int(cat.number("axis"))
        place = next(i for i, v in enumerate(cat.inputs) if v.id == root)
        start = sum(v.shape[axis] for v in cat.inputs[:place])
        part = cat.inputs[place]
        rank = range(len(part.shape))
        attrs = {"shape": part.shape, "steps": tuple(1 for _ in rank),
                 "starts": tuple(start if a == axis else 0 for a in rank)}
        return replace(cat, op="slice", inputs=(whole,), outputs=(part,), attrs=attrs)

    def _at(self, value: Value, row: int) -> Value:
        """What stands for `value` at that row: itself, what was made again, or a view of that."""
        part = self._part(value, row)
        if not part:
            return value
        if (value.id, part) not in self._now:
            maker = self._maker[value.id]
            assert maker.op == "reshape", f"{value} is read at {row} and was not made again"
            view = self._fresh(value)
            self.nodes.append(replace(maker, inputs=(self._at(maker.inputs[0], row),),
                                      outputs=(view,), phase="recompute"))
            self._now[value.id, part] = view
        return self._now[value.id, part]

    def _part(self, value: Value, row: int) -> int:
        return part_at(self._drops, self._tape.root[value.id], row)

    def _fresh(self, value: Value) -> Value:
        self._next += 1
        return replace(value, id=self._next - 1)
