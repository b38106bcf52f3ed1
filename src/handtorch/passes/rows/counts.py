"""A sum divided by the number of labels that count, as torch smooths labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from handtorch.graph.node import Node, Value
from handtorch.passes.rows.at import At, Even
from handtorch.passes.rows.relation import Same, Total

_CASTS = ("bool_to_i32", "bool_to_f32", "to_f32", "reshape")


def by_count(at: At, made: Mapping[int, Node]) -> At:
    """A division by how many labels there are: of a part it is 1/k of the batch's, if all parts
    have equally many. Others that read the count take it for the sum that it is."""
    if at.large.op != "div" or at.inputs[1] != Total(0):
        return at
    found = _counted(at.small.inputs[1], made)
    if found is None:
        return at
    labels, ignore = found
    at.even.append(Even(labels, ignore, at.large))
    return replace(at, inputs=(at.inputs[0], Same(-1)))


def _counted(value: Value, made: Mapping[int, Node]) -> tuple[Value, int] | None:
    """(labels, the one that does not count) if this is how many others there are."""
    total = _behind(value, made)
    if total is None or total.op != "sum" or total.outputs[0].shape:
        return None
    truth = _behind(total.inputs[0], made)
    negated = truth is not None and truth.op == "logical_not"
    if negated and truth is not None:
        truth = _behind(truth.inputs[0], made)
    if truth is None or truth.op != ("eq" if negated else "ne"):
        return None
    labels, number = truth.inputs
    fill = made.get(number.id)
    if fill is None or fill.op != "fill" or labels.dtype != "i32":
        return None
    return labels, int(fill.number("number"))


def _behind(value: Value, made: Mapping[int, Node]) -> Node | None:
    """The node that made it, casts and views left out."""
    node = made.get(value.id)
    while node is not None and node.op in _CASTS:
        node = made.get(node.inputs[0].id)
    return node
