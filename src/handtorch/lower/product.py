"""Products."""

from __future__ import annotations

from handtorch.graph.node import Node
from handtorch.graph.step import Alias, Lowered
from handtorch.kernels.bmm import bmm_steps
from handtorch.kernels.gemm import Sgd, matmul_steps
from handtorch.kernels.weights_grad import tile_for, weights_steps
from handtorch.lower.reduce import reduction
from handtorch.lower.registry import Target, lowers


@lowers("matmul")
def matmul(node: Node, target: Target) -> Lowered:
    """One launch, two where packing pays; the epilogue rides along. A transposed B that is the same
    in every run is packed once, so always."""
    a, b, *extra = node.inputs
    does = node.words("epilogue")
    bias = extra.pop(0) if "bias" in does else None
    mask = extra.pop(0) if "relu_grad" in does else None
    return Lowered(matmul_steps(
        a, b, node.outputs[0], ta=node.flag("ta"), tb=node.flag("tb"), bias=bias,
        relu="relu" in does, mask=mask, spec=target.spec, node=target.node,
        new_value=target.scratch,
        form="packed" if node.flag("tb") and b.id in target.constants else None))


@lowers("matmul_sgd")
def matmul_sgd(node: Node, target: Target) -> Lowered:
    """The launch of the gradient also moves the weight; both changes are in place."""
    weight, a, b, rate, *moments = node.inputs
    new, *moved = node.outputs
    update = Sgd(rate, moved[0] if moved else None, node.number("momentum"), node.number("decay"),
                 node.flag("maximize"), node.flag("nesterov"))
    steps = matmul_steps(a, b, new, ta=node.flag("ta"), tb=node.flag("tb"), update=update,
                         spec=target.spec, node=target.node, new_value=target.scratch,
                         form="packed" if node.flag("tb") else None)
    old = (weight, *moments)
    return Lowered(steps, tuple(Alias(n, o) for n, o in zip(node.outputs, old, strict=True)))


@lowers("weights_grad")
def weights_grad(node: Node, target: Target) -> Lowered:
    """All at once where the device gains; else each by itself."""
    d, *xs = node.inputs
    grads, sums = node.outputs[:len(xs)], node.outputs[len(xs):]
    tile = tile_for(d, xs, target.spec)
    if tile is not None:
        return Lowered(weights_steps(d, xs, grads, sums[0] if sums else None, tile=tile,
                                     units=target.spec.compute_units, node=target.node,
                                     scratch=target.scratch))
    each = [matmul(Node("matmul", (d, x), (grad,), {"ta": True}), target)
            for x, grad in zip(xs, grads, strict=True)]
    each += [reduction(Node("sum", (d,), (total,), {"axes": (0,)}), target) for total in sums]
    return Lowered(tuple(s for one in each for s in one.steps))


@lowers("bmm")
def bmm(node: Node, target: Target) -> Lowered:
    (a, b), (c,) = node.inputs, node.outputs
    if not c.size:
        return Lowered(())
    return Lowered(bmm_steps(a, b, c, ta=node.flag("ta"), tb=node.flag("tb"), spec=target.spec,
                             node=target.node, new_value=target.scratch))
