"""Products."""

from __future__ import annotations

from handtorch.graph.node import Node
from handtorch.graph.step import Alias, Lowered
from handtorch.kernels.bmm import bmm_steps
from handtorch.kernels.gemm import Sgd, matmul_steps
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


@lowers("bmm")
def bmm(node: Node, target: Target) -> Lowered:
    (a, b), (c,) = node.inputs, node.outputs
    if not c.size:
        return Lowered(())
    return Lowered(bmm_steps(a, b, c, ta=node.flag("ta"), tb=node.flag("tb"), spec=target.spec,
                             node=target.node, new_value=target.scratch))
