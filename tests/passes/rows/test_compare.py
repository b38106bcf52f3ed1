"""The rules: there is one for each op that capture gives, and they hold on numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from handtorch.graph.node import Attr, Node, Value
from handtorch.graph.opset import OPS, infer_outputs
from handtorch.passes.rows.at import RULES, At
from handtorch.passes.rows.compare import FAMILIES
from handtorch.passes.rows.move import found_axis
from handtorch.passes.rows.relation import Mixed, Relation, Rows, Same, Total
from handtorch.runtime.ref.ops import run_node

MADE_BY_PASSES = {"pointwise", "cross_entropy", "matmul_sgd", "assign", "clear",
                  "lstm_layer", "gru_layer", "rnn_layer", "weights_grad"}


def test_every_op_of_a_captured_graph_has_a_rule() -> None:
    assert len(FAMILIES) == 12
    assert set(OPS) - set(RULES) == MADE_BY_PASSES


@given(st.integers(1, 3), st.integers(2, 4), st.integers(1, 3), st.data())
def test_rows_are_found_again_after_a_reshape(outer: int, rows: int, inner: int, data: st.DataObject
                                              ) -> None:
    """Whatever is claimed of an axis is true of numbers."""
    size = outer * rows * inner
    first = data.draw(st.sampled_from([n for n in range(1, size + 1) if size % n == 0]))
    rest = size // first
    second = data.draw(st.sampled_from([n for n in range(1, rest + 1) if rest % n == 0]))
    shape = (first, second, rest // second)
    known = Rows(0, outer, inner)
    try:
        found = found_axis((outer * rows * inner,), shape, known, rows)
    except Mixed:
        return
    whose = np.arange(outer * rows * inner) // inner % rows       # the row of each element
    seen = whose.reshape(shape)
    want = np.arange(shape[found.axis]) // found.inner % rows
    wide = want.reshape(-1, *(1 for _ in shape[found.axis + 1:]))
    assert (seen == wide).all() and found.outer * rows * found.inner == shape[found.axis]


ROWS, FEW = 6, 2
R, S, T = Rows(0), Same(0), Total(0)
Shapes = tuple[tuple[int | str, ...], ...]
# op, shapes of the inputs ("n" is the number of rows), what is known of them, attributes, result
LINES: list[tuple[str, Shapes, tuple[Relation, ...], dict[str, Attr], Relation | str]] = [
    ("matmul", (("n", 3), (3, 4)), (R, S), {}, R),
    ("matmul", (("n", 3), (4, 3)), (R, S), {"tb": True}, R),
    ("matmul", (("n", 3), ("n", 4)), (R, R), {"ta": True}, T),
    ("matmul", ((3, 4), (4, "n")), (S, Rows(1)), {}, Rows(1)),
    ("matmul", (("n", 3), ("n", 3)), (R, R), {"tb": True}, "a product of rows"),
    ("bmm", (("n", 3, 4), ("n", 4, 5)), (R, R), {}, R),
    ("bmm", ((3, "n", 4), (3, 4, 5)), (Rows(1), S), {}, Rows(1)),
    ("add", (("n", 3), (3,)), (R, S), {}, R),
    ("add", (("n", 3), (3,)), (Rows(0, power=1), S), {}, "terms that grow differently"),
    ("mul", (("n", 3), ()), (R, Same(1)), {}, Rows(0, power=1)),
    ("mul", ((3,), ()), (T, Same(1)), {}, Total(1)),
    ("mul", ((3,), (3,)), (T, S), {}, "not linear in a sum"),
    ("exp", (("n", 3),), (Rows(0, power=1),), {}, "not linear in a number"),
    ("relu", (("n", 3),), (Rows(0, power=1),), {}, Rows(0, power=1)),
    ("sum", (("n", 3),), (R,), {"axes": (0,), "keepdim": False}, T),
    ("sum", ((3, "n"),), (Rows(1),), {"axes": (0,), "keepdim": False}, R),
    ("amax", (("n", 3),), (R,), {"axes": (0,), "keepdim": False}, "largest or smallest"),
    ("softmax", (("n", 3),), (R,), {"axis": 1}, R),
    ("softmax", (("n", 3),), (R,), {"axis": 0}, "softmax over rows"),
    ("transpose", (("n", 3),), (R,), {"order": (1, 0)}, Rows(1)),
    ("cat", (("n", 3), ("n", 3)), (R, R), {"axis": 0}, Rows(0, 2)),
    ("cat", (("n", 3), ("n", 3)), (R, R), {"axis": 1}, R),
    ("take", ((5, 3), ("n",)), (S, R), {"axis": 0, "wrap": False}, R),
    ("take", (("n", 3), (2,)), (R, S), {"axis": 0, "wrap": False}, "picks rows"),
    ("gather", (("n", 3), ("n", 1)), (R, R), {"axis": 1}, R),
    ("put_slice", (("n", 3), (1, 3)), (R, S), {"starts": (0, 0), "steps": (1, 1)},
     "writes to rows of the batch by their place"),
    ("put_slice", (("n", 3), ("n", 1)), (R, R), {"starts": (0, 2), "steps": (1, 1)}, R),
    ("put_slice", ((4, 3), (1, 3)), (S, S), {"starts": (1, 0), "steps": (1, 1)}, S),
    ("layer_norm", (("n", 3),), (R,), {"axis": 1, "eps": 1e-5}, R),
]


@pytest.mark.parametrize(("op", "shapes", "known", "attrs", "want"), LINES,
                         ids=[f"{line[0]} {i}" for i, line in enumerate(LINES)])
def test_a_rule(op: str, shapes: Shapes, known: tuple[Relation, ...], attrs: dict[str, Attr],
                want: Relation | str) -> None:
    """What is claimed holds for numbers: the part's result against the batch's."""
    nodes = [_node(op, shapes, attrs, n) for n in (ROWS, FEW)]
    at = At(nodes[0], nodes[1], known, ROWS, FEW)
    if isinstance(want, str):
        with pytest.raises(Mixed, match=want):
            RULES[op][0](at)
        return
    given = RULES[op][0](at)
    given = given[0] if isinstance(given, tuple) else given
    assert given == want
    if not any(isinstance(r, Total) for r in known):
        _hold(nodes, known, given)


def _node(op: str, shapes: Shapes, attrs: dict[str, Attr], rows: int) -> Node:
    values = tuple(Value(i, tuple(rows if d == "n" else int(d) for d in shape),
                         "i32" if op in ("take", "gather") and i else "f32")
                   for i, shape in enumerate(shapes))
    draft = Node(op, values, (), attrs)
    return Node(op, values, infer_outputs(draft, 100), attrs)


def _part(array: np.ndarray, known: Relation, number: int, times: int) -> np.ndarray:
    if not isinstance(known, Rows):
        assert isinstance(known, Same)
        return np.asarray(array * float(times) ** (known.power or 0), array.dtype)
    shape = array.shape
    split = array.reshape(*shape[:known.axis], known.outer, ROWS, known.inner,
                          *shape[known.axis + 1:])
    here = np.take(split, range(number * FEW, (number + 1) * FEW), axis=known.axis + 1)
    flat = here.reshape(*shape[:known.axis], -1, *shape[known.axis + 1:])
    return np.asarray(flat * float(times) ** (known.power or 0), array.dtype)


def _hold(nodes: list[Node], known: tuple[Relation, ...], claimed: Relation) -> None:
    rng, times = np.random.default_rng(1), ROWS // FEW
    arrays = [rng.integers(0, 1, v.shape).astype("i4") if v.dtype == "i32"
              else rng.normal(size=v.shape).astype("f4") for v in nodes[0].inputs]
    whole = run_node(nodes[0], *arrays)[0]
    parts = [run_node(nodes[1], *(_part(a, k, i, times) for a, k in zip(arrays, known,
                                                                       strict=True)))[0]
             for i in range(times)]
    if isinstance(claimed, Total):
        np.testing.assert_allclose(sum(parts), whole * float(times) ** claimed.power, rtol=1e-5,
                                   atol=1e-6)
        return
    for i, part in enumerate(parts):
        np.testing.assert_allclose(part, _part(whole, claimed, i, times), rtol=1e-5, atol=1e-6)
