"""Which shapes and numbers an op's kernels take for granted beyond what the op set asserts.

A rule gives whether they hold. One that takes apart a shape of another rank raises instead, which
its caller takes for no. Attributes have their kinds already."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from handtorch.graph.node import Node, Shape
from handtorch.graph.ops.losses import class_sizes
from handtorch.graph.ops.norm import row_shape
from handtorch.graph.ops.optimizers import COEFFICIENTS
from handtorch.graph.ops.product import batch, matmul_sizes
from handtorch.graph.ops.random import RNG_SHAPE
from handtorch.graph.ops.rnn import recurrent_sizes
from handtorch.store.limits import MOST_ELEMENTS

_GATES = {"lstm": 4, "gru": 3, "rnn": 1}


def anything(_: Node) -> bool:
    return True


def _some(node: Node) -> bool:
    """Every input holds something."""
    return all(v.size for v in node.inputs)


def _positive(*numbers: int) -> bool:
    return all(n >= 1 for n in numbers)


def _whole_number(node: Node, name: str, default: float | None = None) -> int:
    return int(node.number(name, default))


def _windows(node: Node, size: Sequence[int], out: Sequence[int], kernel: Sequence[int],
             dilation: Sequence[int]) -> bool:
    """Each window of `out` begins before the end of its padded picture and ends after its start."""
    parts = zip(size, out, kernel, dilation, node.numbers("stride"), node.numbers("padding"),
                strict=True)
    return all(_positive(s, o, k, d, step) and 0 <= p <= (k - 1) * d
               and (o - 1) * step - p < s for s, o, k, d, step, p in parts)


def _convolution(node: Node, x: Sequence[int], y: Sequence[int], kernel: Sequence[int],
                 inner: int, outer: int) -> bool:
    """y is at most as large as the convolution of x; padding wider than the window is lawful."""
    groups = _whole_number(node, "groups")
    parts = zip(x, y, kernel, node.numbers("dilation"), node.numbers("stride"),
                node.numbers("padding"), strict=True)
    return (_positive(groups, inner, outer) and inner % groups == 0 and outer % groups == 0
            and all(_positive(s, o, k, d, step) and 0 <= p < MOST_ELEMENTS
                    and o <= (s + 2 * p - d * (k - 1) - 1) // step + 1
                    for s, o, k, d, step, p in parts))


def _bias(node: Node, outer: int) -> bool:
    extra = node.inputs[2:]
    return node.words("epilogue") == ("bias",) * len(extra) and all(
        v.shape == (outer,) for v in extra)


def conv(node: Node) -> bool:
    (n, inner, *x), (outer, own, *kernel) = (v.shape for v in node.inputs[:2])
    groups = _whole_number(node, "groups")
    if not node.outputs:
        return False
    _, _, *y = node.outputs[0].shape
    return (_some(node) and len(x) == len(kernel) == 2 and inner == own * groups and n >= 1
            and _convolution(node, x, y, kernel, inner, outer) and _bias(node, outer))


def conv_grad_input(node: Node) -> bool:
    (_, outer, *y), (outer2, own, *kernel) = (v.shape for v in node.inputs[:2])
    inner, x = own * _whole_number(node, "groups"), node.numbers("size")
    return (_some(node) and outer == outer2 and len(y) == len(kernel) == 2
            and _convolution(node, x, y, kernel, inner, outer) and _bias(node, inner))


def conv_grad_weight(node: Node) -> bool:
    (n, outer, *y), (n2, inner, *x) = (v.shape for v in node.inputs)
    return (_some(node) and n == n2 and len(y) == len(x) == 2
            and _convolution(node, x, y, node.numbers("kernel"), inner, outer))


def _axis_in(node: Node, shape: Shape) -> bool:
    return 0 <= _whole_number(node, "axis") < len(shape)


def axis_of_first(node: Node) -> bool:
    x, index = (v.shape for v in node.inputs)
    return _axis_in(node, x) and (node.op != "gather" or len(x) == len(index))


def axis_of_shape(node: Node) -> bool:
    shape = node.numbers("shape")
    return all(n >= 0 for n in shape) and _axis_in(node, shape) and (
        node.op != "scatter" or len(shape) == len(node.inputs[0].shape))


def axis_of_all(node: Node) -> bool:
    return all(len(v.shape) == len(node.inputs[0].shape) and _axis_in(node, v.shape)
               for v in node.inputs)


def axis_or_scalar(node: Node) -> bool:
    rank = max(1, len(node.inputs[0].shape))
    return -rank <= _whole_number(node, "axis", -1) < rank


def two_alike(node: Node) -> bool:
    return axis_or_scalar(node) and node.inputs[0].shape == node.inputs[1].shape


def axes(node: Node) -> bool:
    given = node.numbers("axes")
    return len(set(given)) == len(given) >= 1 and all(
        0 <= a < len(node.inputs[0].shape) for a in given)


def _labels(node: Node, shape: Shape) -> bool:
    """Classes are the second axis of `shape`, or the only one."""
    _, classes, _ = class_sizes(shape)
    want = (shape[:1] + shape[2:]) if len(shape) > 1 else ()
    return (bool(shape) and node.inputs[1].shape == want and prod(shape) >= 1
            and all(v.shape == (classes,) for v in node.inputs[2:]))


def nll_loss(node: Node) -> bool:
    return _labels(node, node.inputs[0].shape)


def nll_loss_grad(node: Node) -> bool:
    given = node.inputs[1].shape if node.attrs["reduction"] == "none" else ()
    return node.inputs[0].shape == given and _labels(node, node.numbers("shape"))


def fill(node: Node) -> bool:
    """An integer is one that fits, a truth is 0 or 1."""
    number, kind = node.number("number"), node.attrs["dtype"]
    return kind == "f32" or (-2**31 <= number < 2**31 and number == int(number)
                             and (kind == "i32" or number in (0, 1)))


def transpose(node: Node) -> bool:
    return sorted(node.numbers("order")) == list(range(len(node.inputs[0].shape)))


def written(node: Node) -> bool:
    """A box that is written goes forward, so that nothing is written twice."""
    return all(n >= 1 for n in node.numbers("steps"))


def norm_stats(node: Node) -> bool:
    (x, *running), split = node.inputs, node.numbers("split")
    return (len(split) == 3 and _positive(*split) and prod(split) == x.size
            and len(running) in (0, 2) and all(v.shape == (split[1],) for v in running)
            and bool(running) == ("momentum" in node.attrs))


def norm_grad_sums(node: Node) -> bool:
    (g, x, mean, scale), split = node.inputs, node.numbers("split")
    share = _whole_number(node, "share", 1)
    return (len(split) == 3 and _positive(share, *split) and prod(split) == x.size == g.size
            and mean.size * share == split[1] == scale.size * share)


def layer_norm(node: Node) -> bool:
    x, *affine = node.inputs
    return x.size >= 1 and _axis_in(node, x.shape) and all(
        v.shape == x.shape[_whole_number(node, "axis"):] for v in affine)


def layer_norm_grad(node: Node) -> bool:
    g, x, mean, scale, *weight = node.inputs
    return (x.size >= 1 and g.shape == x.shape and _axis_in(node, x.shape)
            and mean.shape == scale.shape == row_shape(node)
            and all(v.shape == x.shape[_whole_number(node, "axis"):] for v in weight))


def tick(node: Node) -> bool:
    steps, rate = node.inputs
    return steps.size == 1 and rate.shape == (1,) and all(
        0 <= node.number(name) <= 1 for name in ("beta1", "beta2"))


def _alike(node: Node, coefficients: int) -> bool:
    weight, grad, given, *moments = node.inputs
    return given.shape == (coefficients,) and all(v.shape == weight.shape
                                                  for v in (grad, *moments))


def sgd(node: Node) -> bool:
    return _alike(node, 1)


def update(node: Node) -> bool:
    return _alike(node, COEFFICIENTS)


def rmsprop(node: Node) -> bool:
    least = 4 + node.flag("centered")
    return update(node) and least <= len(node.inputs) <= least + 1


def _pooled(node: Node, x: Shape, y: Shape) -> bool:
    if len(x) < 3 or len(x) != len(y) or x[:-2] != y[:-2] or not _positive(*x, *y):
        return False
    if node.flag("adaptive"):
        return not set(node.attrs) - {"adaptive", "size", "shape"}
    dilation = node.numbers("dilation") or (1, 1)
    return (_whole_number(node, "divisor", 0) >= 0
            and _windows(node, x[-2:], y[-2:], node.numbers("kernel"), dilation))


def pool(node: Node) -> bool:
    x = node.inputs[0].shape
    return _pooled(node, x, (*x[:-2], *node.numbers("size")))


def pool_grad(node: Node) -> bool:
    return _pooled(node, node.numbers("shape"), node.inputs[0].shape)


def max_pool_grad(node: Node) -> bool:
    return pool_grad(node) and node.inputs[0].shape == node.inputs[1].shape


def _product(node: Node, rank: int) -> bool:
    """A sum over nothing is not made, unless there is nothing to give either."""
    m, n, k = matmul_sizes(node)
    return all(len(v.shape) == rank for v in node.inputs[:2]) and (k >= 1 or not m * n)


def matmul(node: Node) -> bool:
    return _product(node, 2) and _bias(node, matmul_sizes(node)[1])


def bmm(node: Node) -> bool:
    return _product(node, 3) and batch(node) >= 0


def random_state(node: Node) -> bool:
    return node.inputs[0].shape == RNG_SHAPE


def random(node: Node) -> bool:
    least, most = _whole_number(node, "low", 0), _whole_number(node, "high", 1)
    return (random_state(node) and _whole_number(node, "stream") >= 0
            and least < most and most - least < 2**31)


def recurrent(node: Node) -> bool:
    gx, u, *rest = (v.shape for v in node.inputs)
    time, count, h = recurrent_sizes(node)
    wide = _GATES[node.op] * h
    want: list[Shape] = [(count, h)] * (node.flag("states") * (2 if node.op == "lstm" else 1))
    want += [(wide,)] * node.flag("bias")
    return _positive(time, count, h) and gx[2] == wide and u == (wide, h) and rest == want


def recurrent_grad(node: Node) -> bool:
    u, y, *rest = (v.shape for v in node.inputs)
    cell, (time, count, h) = node.op.removesuffix("_grad"), recurrent_sizes(node)
    order = [g for g in ("dy", "dh", "dc") if g in node.words("grads")]
    saved = {"lstm": [(*y[:2], 4 * h), y], "gru": [(*y[:2], 4 * h)], "rnn": []}[cell]
    states = [(count, h)] * (node.flag("states") * (2 if cell == "lstm" else 1))
    given = [y if g == "dy" else (count, h) for g in order]
    return (_positive(time, count, h) and y[2] == h and u == (_GATES[cell] * h, h)
            and list(node.words("grads")) == order and rest == [*saved, *states, *given])
