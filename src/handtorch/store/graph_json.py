"""Graph <-> JSON. What is read is believed in nothing: each part is checked, then the whole.

    {"values": [[id, dtype, [sizes]], ...], "lines": [[file, number, text], ...],
     "nodes": [{"op", "in": [ids], "out": [ids], "attrs", "phase", "layer", "line"}, ...],
     "inputs": [[name, id], ...], "outputs": [[name, id], ...],
     "states": [[name, role, id before, id after], ...]}

Attributes are JSON's own kinds, which keeps 1, 1.0 and true apart; an infinite or undefined number
is {"float": "inf"}. `layer` and `line`, an index into `lines`, are left out where there is none."""

from __future__ import annotations

from math import isfinite, prod
from typing import Any

from handtorch.dtypes import BY_NAME
from handtorch.graph.check import check
from handtorch.graph.node import PHASES, ROLES, Attr, Graph, Node, Port, State, Value, Where
from handtorch.store import limits
from handtorch.store.contract import check_node
from handtorch.store.suspect import Suspect, one_of, record, row, rows, shown, whole, word

_LARGEST_ID = (1 << 31) - 1
_WHOLE = (1 << 63) - 1
_NOT_FINITE = {"inf": float("inf"), "-inf": float("-inf"), "nan": float("nan")}
_PARTS = ("values", "lines", "nodes", "inputs", "states", "outputs")


def graph_to_json(graph: Graph) -> dict[str, Any]:
    """The same graph gives the same JSON. It is one as captured: no pass has run."""
    assert not any(s.order for s in graph.states), "a state that a pass has turned"
    wheres = [n.where for n in graph.nodes if n.where is not None]
    lines = {where: number for number, where in enumerate(dict.fromkeys(wheres))}
    return {
        "values": [[v.id, v.dtype, list(v.shape)] for v in graph.values()],
        "lines": [[w.file, w.line, w.text] for w in lines],
        "nodes": [_node_to_json(n, lines) for n in graph.nodes],
        "inputs": [[p.name, p.value.id] for p in graph.inputs],
        "states": [[s.name, s.role, s.before.id, s.after.id] for s in graph.states],
        "outputs": [[p.name, p.value.id] for p in graph.outputs]}


def _node_to_json(node: Node, lines: dict[Where, int]) -> dict[str, Any]:
    told: dict[str, Any] = {
        "op": node.op, "in": [v.id for v in node.inputs], "out": [v.id for v in node.outputs],
        "attrs": {name: _attr_to_json(a) for name, a in node.attrs.items()}, "phase": node.phase}
    if node.layer:
        told["layer"] = node.layer
    if node.where is not None:
        told["line"] = lines[node.where]
    return told


def _attr_to_json(attr: Attr) -> Any:
    if isinstance(attr, tuple):
        return [_attr_to_json(a) for a in attr]
    if isinstance(attr, float) and not isfinite(attr):
        return {"float": repr(attr)}
    assert type(attr) in (int, float, str, bool), f"an attribute of type {type(attr).__name__}"
    return attr


def graph_from_json(told: Any) -> Graph:
    """A graph that satisfies the op set, every op's contract and all limits; else Suspect."""
    if not __debug__:
        raise Suspect("the op set checks graphs with assertions, which `python -O` leaves out")
    told = record(told, "a graph", _PARTS)
    values = _values(told["values"])
    lines = rows(told["lines"], "lines", limits.MOST_NODES, _line)
    graph = Graph(
        rows(told["nodes"], "nodes", limits.MOST_NODES, lambda n: _node(n, values, lines)),
        _ports(told["inputs"], "inputs", values),
        rows(told["states"], "states", limits.MOST_VALUES, lambda s: _state(s, values)),
        _ports(told["outputs"], "outputs", values))
    _check_names(graph)
    for number, node in enumerate(graph.nodes):
        check_node(node, f"node {number}")
    try:
        check(graph, "reading it from a file")
    except (AssertionError, ArithmeticError, LookupError, TypeError, ValueError) as e:
        raise Suspect(f"its graph is not well-formed: {shown(str(e))}") from e
    return graph


def _values(told: Any) -> dict[int, Value]:
    values: dict[int, Value] = {}
    for one in row(told, "values", limits.MOST_VALUES):
        number, dtype, sizes = row(one, "a value", 3, 3)
        number = whole(number, "the id of a value", 0, _LARGEST_ID)
        what = f"value {number}"
        shape = rows(sizes, f"the shape of {what}", limits.MOST_AXES,
                     lambda n, what=what: whole(  # type: ignore[misc]
                         n, f"a size of {what}", 0, limits.MOST_ELEMENTS))
        if prod(max(n, 1) for n in shape) > limits.MOST_ELEMENTS:
            raise Suspect(f"{what} has shape {list(shape)}, and a tensor has at most "
                          f"{limits.MOST_ELEMENTS} elements")
        if number in values:
            raise Suspect(f"{what} is there twice")
        values[number] = Value(number, shape, one_of(dtype, f"the dtype of {what}", BY_NAME))
    return values


def _value(told: Any, what: str, values: dict[int, Value]) -> Value:
    if type(told) is not int or told not in values:
        raise Suspect(f"{what} names the value {shown(told)}, which is not there")
    return values[told]


def _line(told: Any) -> Where:
    file, number, text = row(told, "a line", 3, 3)
    return Where(word(file, "a line's file", limits.LONGEST_NAME),
                 whole(number, "a line's number", 0, _LARGEST_ID),
                 word(text, "a line's text", limits.LONGEST_LINE))


def _node(told: Any, values: dict[int, Value], lines: tuple[Where, ...]) -> Node:
    told = record(told, "a node", ("op", "in", "out", "attrs", "phase"), ("layer", "line"))
    op = word(told["op"], "an op", limits.LONGEST_WORD)
    inputs, outputs = (rows(told[key], f"{key} of {op}", limits.MOST_INPUTS,
                            lambda n: _value(n, op, values)) for key in ("in", "out"))
    attrs = told["attrs"]
    if type(attrs) is not dict or len(attrs) > limits.MOST_NUMBERS:
        raise Suspect(f"the attributes of {op} are {shown(attrs)}, and must be a small object")
    where = None
    if "line" in told:
        where = lines[whole(told["line"], f"the line of {op}", 0, len(lines) - 1)]
    return Node(op, inputs, outputs, {name: _attr(a, f"{op}.{name}") for name, a in attrs.items()},
                where, word(told.get("layer", ""), f"the layer of {op}", limits.LONGEST_NAME),
                one_of(told["phase"], f"the phase of {op}", PHASES))


def _attr(told: Any, what: str) -> Attr:
    """A flag, a number, a word, or a row of them; which of them it must be the contract knows."""
    if type(told) is list:
        return tuple(_plain(one, what) for one in row(told, what, limits.MOST_NUMBERS))
    return _plain(told, what)


def _plain(told: Any, what: str) -> Attr:
    if type(told) is bool:
        return told
    if type(told) is int:
        return whole(told, what, -_WHOLE, _WHOLE)
    if type(told) is float and isfinite(told):
        return told
    if type(told) is str:
        return word(told, what, limits.LONGEST_WORD)
    if type(told) is dict and len(told) == 1 and type(name := told.get("float")) is str and (
            name in _NOT_FINITE):
        return _NOT_FINITE[name]
    raise Suspect(f"{what} is {shown(told)}, which is no attribute")


def _ports(told: Any, what: str, values: dict[int, Value]) -> tuple[Port, ...]:
    def port(one: Any) -> Port:
        name, number = row(one, what, 2, 2)
        return Port(word(name, f"a name of {what}", limits.LONGEST_NAME),
                    _value(number, what, values))
    return rows(told, what, limits.MOST_PORTS, port)


def _state(told: Any, values: dict[int, Value]) -> State:
    name, role, before, after = row(told, "a state", 4, 4)
    name = word(name, "a state's name", limits.LONGEST_NAME)
    return State(name, one_of(role, f"the role of {name}", ROLES),
                 _value(before, name, values), _value(after, name, values))


def _check_names(graph: Graph) -> None:
    """No two inputs or states have one name, and what comes from outside are different values."""
    for what, names in (("inputs", [p.name for p in graph.inputs]),
                        ("states", [s.name for s in graph.states])):
        if len(set(names)) < len(names):
            raise Suspect(f"two {what} have one name")
    outside = [*(p.value.id for p in graph.inputs), *(s.before.id for s in graph.states)]
    if len(set(outside)) < len(outside):
        raise Suspect("one value comes from outside twice")
