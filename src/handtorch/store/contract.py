"""What a node from a file must satisfy before a kernel may be made for it.

For each op that capture gives: the types of its inputs, its attributes and no others, each of its
kind, and a rule for the shapes that the op set takes for granted. Words are those of the op's own
vocabulary: no text from a file reaches OpenCL C. Ops that only passes make are not among them, so
no file brings the body of a region."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import isfinite

from handtorch.graph.node import Attr, Node
from handtorch.graph.ops.pointwise import SIMPLE
from handtorch.graph.region import COMPARISONS
from handtorch.store import contract_shapes as shapes
from handtorch.store.suspect import Suspect, shown

_INT32 = 1 << 31
Kind = Callable[[Attr], bool]
Rule = Callable[[Node], bool]


def _flag(a: Attr) -> bool:
    return type(a) is bool


def _whole(a: Attr) -> bool:
    return type(a) is int and -_INT32 <= a < _INT32


def _number(a: Attr) -> bool:
    return type(a) in (int, float) and isfinite(a)  # type: ignore[arg-type]


def _any_number(a: Attr) -> bool:
    return type(a) is float


def _wholes(a: Attr) -> bool:
    return type(a) is tuple and all(map(_whole, a))


def _pair(a: Attr) -> bool:
    return _wholes(a) and len(a) == 2  # type: ignore[arg-type]


def _one_of(*known: str) -> Kind:
    return lambda a: type(a) is str and a in known


def _some_of(*known: str) -> Kind:
    return lambda a: type(a) is tuple and len(set(a)) == len(a) and all(w in known for w in a)


@dataclass(frozen=True)
class Contract:
    """`inputs` are types in order: `T` is one and the same for all, `N` that but f32 or i32, `?`
    marks one that may be missing with all after it, `*` one that comes any number of times."""

    inputs: str
    attrs: Mapping[str, Kind] = field(default_factory=dict)
    maybe: Mapping[str, Kind] = field(default_factory=dict)
    rule: Rule = shapes.anything


# Where neither is said, a point-wise op takes one f32.
_POINTWISE = {
    **dict.fromkeys(("neg", "abs", "square", "sign"), "N"),
    **dict.fromkeys(("add", "sub", "mul", "maximum", "minimum"), "N N"),
    **dict.fromkeys(("div", "pow", "relu_grad"), "f32 f32"),
    **dict.fromkeys(("copy", "to_f32", "to_i32", "to_bool"), "T"),
    **dict.fromkeys(("bool_to_f32", "bool_to_i32", "logical_not"), "bool"),
    **dict.fromkeys(("logical_and", "logical_or", "logical_xor"), "bool bool"),
    **dict.fromkeys(COMPARISONS, "T T"),
    "where": "bool T T"}
_CONV = {"stride": _pair, "padding": _pair, "dilation": _pair, "groups": _whole}
_BIAS = {"epilogue": _some_of("bias")}
_BOX = {"starts": _wholes, "steps": _wholes}
_LOSS = {"ignore": _whole, "reduction": _one_of("mean", "sum", "none")}
_WINDOW = {"kernel": _pair, "stride": _pair, "padding": _pair}
_MEAN = {**_WINDOW, "divisor": _whole, "pad_counts": _flag, "adaptive": _flag}
_AXES = {"axes": _wholes}
_FOLD = {"keepdim": _flag, "of": _one_of("", "abs", "square"), "scale": _number}
_STREAM = {"shape": _wholes, "stream": _whole}
_UPDATE = {"decay": _number, "maximize": _flag}
_LAYER = {"batch_first": _flag, "reverse": _flag, "states": _flag}
_PLACED = {"axis": _whole, "shape": _wholes, "add": _flag}

CONTRACTS: dict[str, Contract] = {
    **{op: Contract(_POINTWISE.get(op, "f32")) for op in SIMPLE},
    "conv": Contract("f32 f32 f32?", _CONV, {"size": _pair, **_BIAS}, shapes.conv),
    "conv_grad_input": Contract("f32 f32 f32?", {**_CONV, "size": _pair}, _BIAS,
                                shapes.conv_grad_input),
    "conv_grad_weight": Contract("f32 f32", {**_CONV, "kernel": _pair}, {},
                                 shapes.conv_grad_weight),
    "take": Contract("T i32", {"axis": _whole, "wrap": _flag}, {}, shapes.axis_of_first),
    "gather": Contract("T i32", {"axis": _whole}, {}, shapes.axis_of_first),
    "put": Contract("i32 T T?", {**_PLACED, "wrap": _flag, "skip": _whole}, {},
                    shapes.axis_of_shape),
    "scatter": Contract("i32 T T?", _PLACED, {}, shapes.axis_of_shape),
    "nll_loss": Contract("f32 i32 f32?", _LOSS, {}, shapes.nll_loss),
    "nll_loss_grad": Contract("f32 i32 f32?", {**_LOSS, "shape": _wholes}, {},
                              shapes.nll_loss_grad),
    "fill": Contract("", {"shape": _wholes, "number": _any_number,
                          "dtype": _one_of("f32", "i32", "bool")}, {}, shapes.fill),
    "arange": Contract("", {"count": _whole, "start": _whole, "step": _whole}),
    "reshape": Contract("T", {"shape": _wholes}),
    "transpose": Contract("T", {"order": _wholes}, {}, shapes.transpose),
    "expand": Contract("T", {"shape": _wholes}),
    "slice": Contract("T", {"shape": _wholes, **_BOX}),
    "pad": Contract("T", {"shape": _wholes, **_BOX, "number": _any_number}, {}, shapes.written),
    "put_slice": Contract("T T", _BOX, {}, shapes.written),
    "cat": Contract("T T*", {"axis": _whole}, {}, shapes.axis_of_all),
    "norm_stats": Contract("f32 f32? f32?", {"split": _wholes, "eps": _number},
                           {"momentum": _number}, shapes.norm_stats),
    "norm_grad_sums": Contract("f32 f32 f32 f32", {"split": _wholes}, {"share": _whole},
                               shapes.norm_grad_sums),
    "layer_norm": Contract("f32 f32? f32?", {"axis": _whole, "eps": _number}, {},
                           shapes.layer_norm),
    "layer_norm_grad": Contract("f32 f32 f32 f32 f32?", {"axis": _whole, "affine": _flag}, {},
                                shapes.layer_norm_grad),
    "tick": Contract("f32 f32", {"beta1": _number, "beta2": _number, "decay": _number,
                                 "lr_decay": _number}, {}, shapes.tick),
    "sgd": Contract("f32 f32 f32 f32?", {**_UPDATE, "momentum": _number, "nesterov": _flag}, {},
                    shapes.sgd),
    "adam": Contract("f32 f32 f32 f32 f32 f32?",
                     {**_UPDATE, "beta1": _number, "beta2": _number, "decoupled": _flag,
                      "eps": _number}, {}, shapes.update),
    "rmsprop": Contract("f32 f32 f32 f32 f32? f32?",
                        {**_UPDATE, "alpha": _number, "centered": _flag, "eps": _number,
                         "momentum": _number}, {}, shapes.rmsprop),
    "adagrad": Contract("f32 f32 f32 f32", {**_UPDATE, "eps": _number}, {}, shapes.update),
    "max_pool": Contract("f32", {**_WINDOW, "dilation": _pair, "size": _pair}, {}, shapes.pool),
    "max_pool_grad": Contract("f32 i32", {**_WINDOW, "dilation": _pair, "shape": _wholes}, {},
                              shapes.max_pool_grad),
    "avg_pool": Contract("f32", {"size": _pair}, _MEAN, shapes.pool),
    "avg_pool_grad": Contract("f32", {"shape": _wholes}, _MEAN, shapes.pool_grad),
    "matmul": Contract("f32 f32 f32?", {}, {"ta": _flag, "tb": _flag, **_BIAS}, shapes.matmul),
    "bmm": Contract("f32 f32", {}, {"ta": _flag, "tb": _flag}, shapes.bmm),
    "rand": Contract("u32", _STREAM, {}, shapes.random),
    "randn": Contract("u32", _STREAM, {}, shapes.random),
    "randint": Contract("u32", {**_STREAM, "low": _whole, "high": _whole}, {}, shapes.random),
    "rng_next": Contract("u32", {}, {}, shapes.random_state),
    **{op: Contract("N", _AXES, _FOLD, shapes.axes) for op in ("sum", "prod", "amax", "amin")},
    "any": Contract("bool", _AXES, {"keepdim": _flag}, shapes.axes),
    **{op: Contract("N", _AXES, {"keepdim": _flag}, shapes.axes)
       for op in ("max_index", "min_index")},
    **{op: Contract("N", {"axis": _whole}, {}, shapes.axis_or_scalar)
       for op in ("cumsum", "cumprod")},
    **{op: Contract("f32", {}, {"axis": _whole}, shapes.axis_or_scalar)
       for op in ("softmax", "log_softmax")},
    **{op: Contract("f32 f32", {}, {"axis": _whole}, shapes.two_alike)
       for op in ("softmax_grad", "log_softmax_grad")},
    "lstm": Contract("f32 f32 f32? f32?", {**_LAYER, "save": _flag}, {}, shapes.recurrent),
    "gru": Contract("f32 f32 f32? f32?", {**_LAYER, "save": _flag, "bias": _flag}, {},
                    shapes.recurrent),
    "rnn": Contract("f32 f32 f32?", {**_LAYER, "relu": _flag}, {}, shapes.recurrent),
    "lstm_grad": Contract("f32 f32 f32 f32 f32* ", {**_LAYER, "grads": _some_of("dy", "dh", "dc")},
                          {}, shapes.recurrent_grad),
    "gru_grad": Contract("f32 f32 f32 f32*", {**_LAYER, "grads": _some_of("dy", "dh")}, {},
                         shapes.recurrent_grad),
    "rnn_grad": Contract("f32 f32 f32*", {**_LAYER, "relu": _flag, "grads": _some_of("dy", "dh")},
                         {}, shapes.recurrent_grad),
}


def check_node(node: Node, what: str) -> None:
    """The node keeps its op's contract; else Suspect. Results are for `graph/check.py`."""
    contract = CONTRACTS.get(node.op)
    if contract is None:
        raise Suspect(f"{what} is {shown(node.op)}, which is no op a file may hold")
    what = f"{what}, {node.op},"
    _check_types(node, contract, what)
    for name, kind in contract.attrs.items():
        if name not in node.attrs:
            raise Suspect(f"{what} has no {name!r}")
        _check_attr(node, name, kind, what)
    for name in node.attrs:
        if name in contract.attrs:
            continue
        if name not in contract.maybe:
            raise Suspect(f"{what} has {shown(name)}, which the op does not know")
        _check_attr(node, name, contract.maybe[name], what)
    try:
        kept = contract.rule(node)
    except (ArithmeticError, AssertionError, LookupError, TypeError, ValueError):
        kept = False               # a shape of another rank than the rule takes apart
    if not kept:
        ins = ", ".join(map(str, node.inputs))
        raise Suspect(f"{what} does not fit its inputs {shown(ins)}")


def _check_attr(node: Node, name: str, kind: Kind, what: str) -> None:
    if not kind(node.attrs[name]):
        raise Suspect(f"{what} has {name}={shown(node.attrs[name])}, which the op does not know")


def _check_types(node: Node, contract: Contract, what: str) -> None:
    found = [v.dtype for v in node.inputs]
    wanted = contract.inputs.split()
    same = {t for t, w in zip(found, wanted, strict=False) if w[0] in "TN"}
    if wanted and wanted[-1].endswith("*"):
        wanted += [wanted[-1]] * (len(found) - len(wanted))
        same |= {t for t, w in zip(found, wanted, strict=False) if w[0] in "TN"}
    least = sum(not w.endswith(("?", "*")) for w in wanted)
    fits = least <= len(found) <= len(wanted) and len(same) <= 1 and all(
        w[0] == "T" or (w[0] == "N" and t in ("f32", "i32")) or t == w.rstrip("?*")
        for t, w in zip(found, wanted, strict=False))
    if not fits:
        raise Suspect(f"{what} has inputs of types {shown(' '.join(found))}, and takes "
                      f"{contract.inputs or 'none'}")
