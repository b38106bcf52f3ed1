"""The reference against PyTorch in float64, and every device against the reference."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from handtorch.graph.node import Attr, Graph, Node, Port, Value
from handtorch.graph.opset import OPS, infer_outputs
from handtorch.pipeline import compile_graph
from handtorch.runtime.choose import open_executor
from handtorch.runtime.host import RefExecutor
from handtorch.runtime.ref.ops import run_node

KINDS = {"float64": "f32", "float32": "f32", "int32": "i32", "uint32": "u32", "bool": "bool"}


def made(op: str, arrays: list[Any], attrs: dict[str, Attr]) -> Node:
    values = tuple(Value(i, a.shape, KINDS[a.dtype.name]) for i, a in enumerate(arrays))
    draft = Node(op, values, (), attrs)
    return Node(op, values, infer_outputs(draft, len(values)), attrs)


def _normal(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).normal(size=shape)


LABELS = np.array([1, -100, 4, 0, 2], "i4")
CLASS = {"reduction": "mean", "ignore": -100}


def _t(x: Any) -> torch.Tensor:
    return torch.from_numpy(np.asarray(x))


def _ce_grad(x: Any, y: Any, reduction: str) -> tuple[torch.Tensor, torch.Tensor]:
    t = _t(x).requires_grad_()
    loss = F.cross_entropy(t, _t(y).long(), reduction=reduction)
    loss.backward()
    return loss.detach(), t.grad


def _nll_grad(g: Any, y: Any) -> torch.Tensor:
    t = torch.zeros(5, 7, dtype=torch.float64, requires_grad=True)
    F.nll_loss(t, _t(y).long()).backward(_t(g))
    return t.grad


def _log_softmax_grad(g: Any, y: Any) -> torch.Tensor:
    x = _t(y).requires_grad_()
    F.log_softmax(x, -1).backward(_t(g))
    return x.grad


def _sgd(w: Any, g: Any, lr: Any, m: Any) -> tuple[torch.Tensor, torch.Tensor]:
    p = torch.nn.Parameter(_t(w).clone())
    p.grad = _t(g)
    opt = torch.optim.SGD([p], float(lr[0]), momentum=0.9, weight_decay=0.01, nesterov=True)
    opt.state[p]["momentum_buffer"] = _t(m).clone()
    opt.step()
    return p.detach(), opt.state[p]["momentum_buffer"]


_logp = torch.log_softmax(_t(_normal(5, 7)), -1).numpy()
Case = tuple[str, list[Any], dict[str, Attr], Callable[..., Any]]
CASES: list[Case] = [
    ("matmul", [_normal(5, 7), _normal(7, 3)], {}, lambda a, b: _t(a) @ _t(b)),
    ("matmul", [_normal(7, 5), _normal(3, 7), _normal(3)],
     {"ta": True, "tb": True, "epilogue": ("bias", "relu")},
     lambda a, b, c: torch.relu(_t(a).T @ _t(b).T + _t(c))),
    ("matmul", [_normal(5, 7), _normal(7, 3), _normal(5, 3)], {"epilogue": ("relu_grad",)},
     lambda a, b, y: (_t(a) @ _t(b)) * (_t(y) > 0)),
    ("weights_grad", [_normal(9, 8), _normal(9, 5), _normal(9, 2)], {"sums": True},
     lambda d, a, b: (_t(d).T @ _t(a), _t(d).T @ _t(b), _t(d).sum(0))),
    ("weights_grad", [_normal(150, 32), _normal(150, 7)], {"sums": False},
     lambda d, a: (_t(d).T @ _t(a),)),
    ("pointwise", [_normal(5, 7), _normal(7)],
     {"body": "mul(x0,x1);sub(t0,0.25f);gt(t1,0.0f);where(t2,t1,x0)", "shape": (5, 7)},
     lambda a, b: torch.where(_t(a) * _t(b) > 0.25, _t(a) * _t(b) - 0.25, _t(a))),
    ("sum", [_normal(5, 7, 2)], {"axes": (0, 2), "keepdim": True},
     lambda a: _t(a).sum((0, 2), keepdim=True)),
    ("sum", [_normal(5, 7)], {"axes": (1,)}, lambda a: _t(a).sum(1)),
    ("sum", [_normal(5, 7)], {"axes": (0, 1)}, lambda a: _t(a).sum()),
    ("softmax", [_normal(5, 7)], {}, lambda a: torch.softmax(_t(a), -1)),
    ("log_softmax", [_normal(5, 7)], {}, lambda a: torch.log_softmax(_t(a), -1)),
    ("log_softmax_grad", [_normal(5, 7), _logp], {}, _log_softmax_grad),
    ("nll_loss", [_logp, LABELS], CLASS, lambda p, y: F.nll_loss(_t(p), _t(y).long())),
    ("nll_loss_grad", [_normal(), LABELS], {**CLASS, "shape": (5, 7)}, _nll_grad),
    ("cross_entropy", [_normal(5, 7), LABELS], CLASS, lambda x, y: _ce_grad(x, y, "mean")),
    ("cross_entropy", [_normal(5, 7), LABELS], {**CLASS, "reduction": "sum"},
     lambda x, y: _ce_grad(x, y, "sum")),
    ("sgd", [_normal(5, 7), _normal(5, 7), np.array([0.1]), _normal(5, 7)],
     {"momentum": 0.9, "decay": 0.01, "nesterov": True, "maximize": False}, _sgd),
    ("fill", [], {"shape": (3,), "number": 2.5}, lambda: torch.full((3,), 2.5)),
    ("reshape", [_normal(6, 2)], {"shape": (3, 4)}, lambda a: _t(a).reshape(3, 4)),
    ("transpose", [_normal(5, 7)], {"order": (1, 0)}, lambda a: _t(a).T),
    ("assign", [_normal(5, 7), _normal(7, 5).T], {}, lambda old, new: _t(new)),
]
_A, _B = _normal(6, 33), _normal(33) + 0.1
_MASK, _INTS = _A > 0.2, (_normal(6, 33) * 10).astype("i4")
_SAME: tuple[str, ...] = (
    "neg", "abs", "exp", "expm1", "sin", "cos", "tanh", "erf", "sign", "floor", "ceil", "relu",
    "sigmoid", "square", "reciprocal", "isnan")
_POSITIVE = ("log", "log1p", "sqrt", "rsqrt")
_PAIRS = ("add", "sub", "mul", "div", "maximum", "minimum", "eq", "ne", "lt", "le", "gt", "ge")
POINTWISE: dict[str, tuple[list[Any], Callable[..., torch.Tensor]]] = {
    **{op: ([_A], getattr(torch, op)) for op in _SAME},
    **{op: ([np.abs(_A) + 0.1], getattr(torch, op)) for op in _POSITIVE},
    **{op: ([_A, _B], getattr(torch, op)) for op in _PAIRS},
    **{op: ([_MASK, _B > 0], getattr(torch, op)) for op in
       ("logical_and", "logical_or", "logical_xor")},
    "logical_not": ([_MASK], torch.logical_not), "where": ([_MASK, _A, _B], torch.where),
    "pow": ([np.abs(_A) + 0.1, _B], torch.pow), "copy": ([_A], torch.clone),
    "relu_grad": ([_A, _B], lambda g, y: g * (y > 0)), "to_bool": ([_INTS], torch.Tensor.bool),
    "to_f32": ([_INTS], torch.Tensor.float), "to_i32": ([_A], torch.Tensor.int),
    "bool_to_f32": ([_MASK], torch.Tensor.float), "bool_to_i32": ([_MASK], torch.Tensor.int),
}


@pytest.mark.parametrize("op", POINTWISE)
def test_pointwise_reference_equals_torch(op: str) -> None:
    arrays, fn = POINTWISE[op]
    (got,) = run_node(made(op, arrays, {}), *arrays)
    np.testing.assert_allclose(got, fn(*map(_t, arrays)).numpy(), rtol=1e-7, atol=1e-12)


def one_program(drafts: list[tuple[str, list[Any], dict[str, Attr]]]) -> tuple[Graph, list[Any]]:
    """A graph of all of them, none of which knows of the others, and its batch in float32."""
    nodes, given, fresh = [], [], 0
    for op, arrays, attrs in drafts:
        arrays = [np.asarray(a, "f4" if a.dtype.kind == "f" else a.dtype, order="C")
                  for a in arrays]
        values = tuple(Value(fresh + i, a.shape, KINDS[a.dtype.name]) for i, a in enumerate(arrays))
        fresh += len(values)
        outs = infer_outputs(Node(op, values, (), attrs), fresh)
        fresh += len(outs)
        nodes.append(Node(op, values, outs, attrs))
        given += arrays
    graph = Graph(tuple(nodes), tuple(Port(f"x{v.id}", v) for n in nodes for v in n.inputs), (),
                  tuple(Port(f"y{v.id}", v) for n in nodes for v in n.outputs))
    return graph, given


def on_both(graph: Graph, given: list[Any], device: str) -> tuple[list[Any], list[Any]]:
    """What the reference makes of it, and the device."""
    results = []
    for executor in (RefExecutor(), open_executor(device)):
        resident = executor.load(compile_graph(graph, executor.spec), {})
        results.append(list(resident.submit(given).result()))
        resident.close()
    return results[0], results[1]


def test_pointwise_ops_on_a_device_equal_the_reference(opencl_device: Any) -> None:
    """All of them as the outputs of one program, which is compiled once."""
    graph, given = one_program([(op, arrays, {}) for op, (arrays, _) in POINTWISE.items()])
    want, got = on_both(graph, given, opencl_device.label)
    for op, w, g in zip(POINTWISE, want, got, strict=True):
        np.testing.assert_allclose(g, w, rtol=4e-6, atol=1e-6, err_msg=op)


for _file in sorted(Path(__file__).parent.glob("cases_*.py")):
    CASES += runpy.run_path(str(_file))["CASES"]          # one file per further op family
IDS = [f"{c[0]}-{i}" for i, c in enumerate(CASES)]


def test_every_op_has_a_case() -> None:
    assert {c[0] for c in CASES} | set(POINTWISE) == set(OPS)


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_reference_equals_torch(case: Case) -> None:
    op, arrays, attrs, torch_fn = case
    want = torch_fn(*arrays)
    got = run_node(made(op, arrays, attrs), *arrays)
    for g, w in zip(got, want if isinstance(want, tuple) else (want,), strict=True):
        np.testing.assert_allclose(g, w.numpy(), rtol=1e-12, atol=1e-12)   # float64 throughout


# What writes its input in place is tested by whole steps, in tests/api.
ON_A_DEVICE = [(name, case) for name, case in zip(IDS, CASES, strict=True)
               if not OPS[case[0]].in_place]
PARTS = 6


@pytest.mark.parametrize("part", range(PARTS))
def test_device_equals_reference(part: int, opencl_device: Any) -> None:
    """Many in one program: most of the time is the compiler's, and it likes one large text more
    than many small ones."""
    chosen = ON_A_DEVICE[part::PARTS]
    graph, given = one_program([(op, arrays, attrs) for _, (op, arrays, attrs, _) in chosen])
    want, got = on_both(graph, given, opencl_device.label)
    names = [name for (name, _), node in zip(chosen, graph.nodes, strict=True)
             for _ in node.outputs]
    for name, w, g in zip(names, want, got, strict=True):
        scale = np.abs(w).max(initial=1e-3)
        np.testing.assert_allclose(g, w, rtol=0, atol=4e-6 * scale, err_msg=name)


@pytest.mark.parametrize("label", [7, -1])
def test_a_label_that_is_no_class_cannot_pass_unnoticed(label: int, opencl_device: Any) -> None:
    arrays = [_normal(5, 7).astype("f4"), np.array([1, 2, label, 0, 0], "i4")]
    node = made("cross_entropy", arrays, CLASS)
    graph = Graph((node,), tuple(Port(f"x{v.id}", v) for v in node.inputs), (),
                  tuple(Port(f"y{v.id}", v) for v in node.outputs))
    for executor in (RefExecutor(), open_executor(opencl_device.label)):
        loss, grad = executor.load(compile_graph(graph, executor.spec), {}).submit(arrays).result()
        assert np.isnan(loss) and np.isnan(grad[2]).all() and np.isfinite(grad[1]).all()
