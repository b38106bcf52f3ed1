"""Matrix products: which kernels compute C = f(A B) for a shape on a device.

The family's kernels are in `gemm_specs`, the choice of a tile in `gemm_tiles`, its checks in
`gemm_cases`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from handtorch.graph.device_spec import DeviceSpec
from handtorch.graph.node import Shape, Value
from handtorch.graph.step import Step
from handtorch.kernels.conv_launches import Launches
from handtorch.kernels.conv_shapes import Conv
from handtorch.kernels.gemm_cases import cases
from handtorch.kernels.gemm_specs import DOT, KERNELS, PACK_B, REGISTER, Sgd, tile_width
from handtorch.kernels.gemm_tiles import (
    Form,
    Product,
    split_depth,
    table_variant,
    tuning_for,
)
from handtorch.kernels.reduce import fold_steps
from handtorch.kernels.spec import ceil_div
from handtorch.kernels.variant import Variant, tuned_variant

# Of a product A^T B that conv_weight_packed does: depth, sides and outputs at least, and the length
# of a row of pixels.
LONG, LEAST_SIDE, LEAST_RESULT = 256, 64, 1 << 14
LEAST_WIDTH, MOST_WIDTH = 16, 64

__all__ = ["KERNELS", "Form", "Sgd", "cases", "matmul_steps"]


def matmul_steps(a: Value, b: Value, c: Value, *, ta: bool = False, tb: bool = False,
                 bias: Value | None = None, relu: bool = False, mask: Value | None = None,
                 update: Sgd | None = None, spec: DeviceSpec, node: int = 0,
                 new_value: Callable[[Shape], Value],
                 form: Form | None = None) -> tuple[Step, ...]:
    """The launches that leave f(op(a) op(b)) in `c`: one, or two when B is packed first.

    op transposes where `ta` or `tb` says so; f adds `bias` [N], then applies ReLU if `relu`, then
    keeps only where `mask` [M, N] is above 0 (the gradient of a ReLU whose output it is). With
    `update` the product is a gradient, and `c` the weight that it changes in place. The same
    shape on the same device (`spec.tuned` included) always gives the same launches, and these the
    same bits. `new_value` is asked for scratch space, alive between the two launches only. `form`
    overrides the choice of kernels, for studies and tests."""
    (m, k), (k_b, n) = _turned(a, ta), _turned(b, tb)
    assert k == k_b and c.shape == (m, n), f"{a} {b} -> {c}, ta={ta} tb={tb}"
    assert min(m, n, k) >= 1, f"{a} {b}: nothing to multiply"
    assert bias is None or bias.shape == (n,), f"{bias} for {c}"
    assert mask is None or mask.shape == (m, n), f"{mask} for {c}"
    product = Product(m, n, k, ta, tb)
    assert form is None or form in product.forms(), f"{form} cannot do ta={ta} tb={tb}"
    epilogue = {"BIAS": int(bias is not None), "ACT": int(relu), "MASK": int(mask is not None)}
    if form is None and update is None and not any(epilogue.values()) and (
            tuned_variant(product, spec) is None):
        if depth := split_depth(product, spec):
            return _in_parts(a, b, c, product, depth, spec, node, new_value)
        if _is_long(product, spec):
            return _as_weight_gradient(a, b, c, product, spec, node, new_value)
    variant = _chosen(product, spec, form, update)
    packed, dots = variant.form == "packed", variant.form == "dot"
    assert update is None or not dots, "gemm_dot updates no weights"
    extra = tuple(v for v in (bias, mask) if v is not None)
    defines: dict[str, int | str] = {**dict(variant.defines), **epilogue}
    before: tuple[Step, ...] = ()
    if not dots:
        defines |= {"TA": int(ta), "PB": int(packed)}
    if packed:
        width = tile_width(defines)
        panels = new_value((ceil_div(n, width), k, width))
        before = (PACK_B.step((b, panels), {"N": n, "K": k},
                              {**tuning_for(spec).pack, "W": width, "V": defines["V"],
                               "TB": int(tb)}, node=node),)
        b = panels
    kernel = DOT if dots else REGISTER
    changed = update.operands() if update else {}
    defines |= update.defines() if update else {}
    access = ("r", "r", "rw" if update else "w", *"r" * len(extra), *changed.values())
    return (*before, kernel.step((a, b, c, *extra, *changed), {"M": m, "N": n, "K": k}, defines,
                                 node=node, flops=2 * m * n * k, access=access))


def _is_long(product: Product, spec: DeviceSpec) -> bool:
    """Whether C = A^T B is better gone through block by block on a core with caches. Row by row A
    is read from far away, once for each panel of B; where K or C is short that costs little."""
    m, n, k = product.sizes()
    return (spec.kind == "cpu" and product.ta and not product.tb and k >= LONG
            and min(m, n) >= LEAST_SIDE and m * n >= LEAST_RESULT)


def _as_weight_gradient(a: Value, b: Value, c: Value, product: Product, spec: DeviceSpec,
                        node: int, new_value: Callable[[Shape], Value]) -> tuple[Step, ...]:
    """A^T B is the gradient of the weight of a convolution that sees one pixel: x is A, dy is B.
    Pixels have to lie in rows of equal length for the work to be shared out."""
    m, n, k = product.sizes()
    width = max(w for w in range(1, MOST_WIDTH + 1) if k % w == 0)
    picture = (k // width, width) if width >= LEAST_WIDTH else (1, k)
    conv = Conv(1, 1, m, n, picture, picture, (1, 1), (1, 1), (0, 0), (1, 1))
    return Launches(conv, spec, new_value, node, 2 * m * n * k).grad_weight(b, a, c)


def _in_parts(a: Value, b: Value, c: Value, product: Product, depth: int, spec: DeviceSpec,
              node: int, new_value: Callable[[Shape], Value]) -> tuple[Step, ...]:
    """A product for each part of K, and their sum; the order of the sum is always the same."""
    m, n, k = product.sizes()
    variant = table_variant(replace(product, k=depth), spec, "register")
    parts = new_value((ceil_div(k, depth), m, n))
    first = REGISTER.step((a, b, parts), {"M": m, "N": n, "K": k},
                          {**dict(variant.defines), "TA": int(product.ta), "SPLIT": depth},
                          node=node, flops=2 * m * n * k)
    return (first, *fold_steps(parts, c, (1, ceil_div(k, depth), m * n), "sum",
                               scratch=new_value, node=node))


def _chosen(product: Product, spec: DeviceSpec, form: Form | None, update: Sgd | None
            ) -> Variant:
    """What was tuned on this device, where it is of the asked form and can do it; else the
    table's choice."""
    tuned = tuned_variant(product, spec)
    if tuned is not None and form in (None, tuned.form) and not (update and tuned.form == "dot"):
        return tuned
    return table_variant(product, spec, form)


def _turned(value: Value, transposed: bool) -> tuple[int, int]:
    assert len(value.shape) == 2, f"{value} is not a matrix"
    rows, columns = value.shape
    return (columns, rows) if transposed else (rows, columns)
