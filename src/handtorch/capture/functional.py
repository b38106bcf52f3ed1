"""A traced graph without writes: `x.add_(y)` becomes `z = x + y`, and later uses of x read z.

torch's `functionalize` can do it for every graph, by tracing it a second time; that costs as much
as the first. Here it is done on the graph as it stands, for graphs in which nobody looks at a
written tensor through a view afterwards. Those are nearly all: optimizers write whole weights."""

from __future__ import annotations

from collections.abc import Container
from operator import getitem
from typing import Any

import torch
from torch.fx import Graph, Node

_ATEN = torch.ops.aten
_SAME = (_ATEN.alias.default, _ATEN.detach.default)     # another name for the whole tensor


def without_writes(graph: Graph, refused: Container[Any]) -> bool:
    """Rewrites `graph` and says True; where that is not simple it says False and changes nothing.

    `refused` are operations that may not stay in the graph."""
    owner, whole = _owners(graph)
    if not _is_simple(graph, owner, whole, refused):
        return False
    latest: dict[Node, Node] = {}

    def read(n: Node) -> Node:
        return latest.get(owner[n], owner[n]) if n in whole else n

    for node in list(graph.nodes):
        node.args = torch.fx.map_arg(node.args, read)
        node.kwargs = torch.fx.map_arg(node.kwargs, read)
        if _written(node) is not None:
            with graph.inserting_before(node):
                new = graph.call_function(_pure(node.target), node.args, node.kwargs)
            new.meta |= node.meta
            latest[owner[node]] = new
    for node in reversed(list(graph.nodes)):
        if _written(node) is not None or (node.target in _SAME and node in whole):
            assert not node.users, f"{node} is still read"
            graph.erase_node(node)
    return True


def _owners(graph: Graph) -> tuple[dict[Node, Node], set[Node]]:
    """For each node the one whose memory it shows, and the nodes that show all of it as it is."""
    owner: dict[Node, Node] = {}
    whole: set[Node] = set()
    for node in graph.nodes:
        shown = _shows(node)
        owner[node] = owner[shown] if shown is not None else node
        if shown is None or (shown in whole and (node.target in _SAME
                                                 or _written(node) is not None)):
            whole.add(node)
    return owner, whole


def _shows(node: Node) -> Node | None:
    """The argument that the node is a view or another name of, by its schema."""
    if node.target is getitem and isinstance(node.args[0], Node):
        source = node.args[0]
        return source if _shows(source) is not None else None
    schema = getattr(node.target, "_schema", None)
    if schema is None or not any(r.alias_info for r in schema.returns):
        return None
    for argument, given in zip(schema.arguments, node.args, strict=False):
        if argument.alias_info and isinstance(given, Node):
            return given
    return None


def _written(node: Node) -> Node | None:
    """The tensor that the node writes into, where that is its first argument and no other."""
    if not _writes(node):
        return None
    into = [i for i, a in enumerate(node.target._schema.arguments)  # type: ignore[union-attr]
            if a.alias_info is not None and a.alias_info.is_write]
    first = node.args[0] if node.args and into == [0] else None
    return first if isinstance(first, Node) else None


def _writes(node: Node) -> bool:
    schema = getattr(node.target, "_schema", None)
    return schema is not None and schema.is_mutable


def _pure(target: Any) -> Any:
    """The operation that gives what `target` writes, or None."""
    name, overload = target._schema.name.split("::")[-1], target._overloadname
    packet = getattr(_ATEN, name.removesuffix("_"), None) if name.endswith("_") else None
    found = getattr(packet, overload, None) if packet is not None else None
    # `pow_.Scalar` has a power that is a number, `pow.Scalar` a base.
    return found if found is not None and _takes(found) == _takes(target) else None


def _takes(target: Any) -> list[tuple[str, str]]:
    return [(a.name, str(a.type)) for a in target._schema.arguments]


def _is_simple(graph: Graph, owner: dict[Node, Node], whole: set[Node],
               refused: Container[Any]) -> bool:
    number = {node: i for i, node in enumerate(graph.nodes)}
    writes: dict[Node, list[int]] = {}
    for node in filter(_writes, graph.nodes):
        if not _can_write(node, owner, whole, refused):
            return False
        writes.setdefault(owner[node], []).append(number[node])
    for node in graph.nodes:
        if node in whole or not node.users:
            continue
        # A view: what was written after it was made must be written after its last use too.
        last = max(number[user] for user in node.users)
        if any(number[node] < write < last for write in writes.get(owner[node], ())):
            return False
    return True


def _can_write(node: Node, owner: dict[Node, Node], whole: set[Node],
               refused: Container[Any]) -> bool:
    """Whether this write is one that `_pure` can stand for."""
    written = _written(node)
    if written is None or written not in whole or owner[written].op == "placeholder":
        return False
    pure = _pure(node.target)
    if pure is None or pure in refused or len(pure._schema.returns) != 1:
        return False
    if node.target is _ATEN.copy_.default:
        return True
    # `x.add_(y)` keeps x's type, `x + y` may not: only where all are of one type.
    kinds = {n.meta["val"].dtype for n in node.all_input_nodes}
    return len(kinds) == 1

