"""Matrix products: which kernels compute C = f(A B) for a shape on a device.

The family's kernels are in `gemm_specs`, the choice of a tile in `gemm_tiles`, its checks in
`gemm_cases`."""

from __future__ import annotations

from collections.abc import Callable

from handtorch.graph.device_spec import DeviceSpec
from handtorch.graph.node import Shape, Value
from handtorch.graph.step import Step
from handtorch.kernels.gemm_cases import cases
from handtorch.kernels.gemm_specs import DOT, KERNELS, PACK_B, REGISTER, tile_width
from handtorch.kernels.gemm_tiles import best_tile, tuning_for
from handtorch.kernels.spec import ceil_div

__all__ = ["KERNELS", "cases", "matmul_steps"]

_PANEL_ROWS = 16                            # rows of a panel that one item packs


def matmul_steps(a: Value, b: Value, c: Value, *, ta: bool = False, tb: bool = False,
                 bias: Value | None = None, relu: bool = False, mask: Value | None = None,
                 spec: DeviceSpec, node: int = 0,
                 new_value: Callable[[Shape], Value]) -> tuple[Step, ...]:
    """The launches that leave f(op(a) op(b)) in `c`: one, or two when B is packed first.

    op transposes where `ta` or `tb` says so; f adds `bias` [N], then applies ReLU if `relu`, then
    keeps only where `mask` [M, N] is above 0 (the gradient of a ReLU whose output it is). The same
    shape on the same device always gives the same launches, and these the same bits. `new_value`
    is asked for scratch space, alive between the two launches only."""
    (m, k), (k_b, n) = _turned(a, ta), _turned(b, tb)
    assert k == k_b and c.shape == (m, n), f"{a} {b} -> {c}, ta={ta} tb={tb}"
    assert min(m, n, k) >= 1, f"{a} {b}: nothing to multiply"
    assert bias is None or bias.shape == (n,), f"{bias} for {c}"
    assert mask is None or mask.shape == (m, n), f"{mask} for {c}"
    tuning = tuning_for(spec)
    extra = tuple(v for v in (bias, mask) if v is not None)
    access = ("r", "r", "w", *("r" for _ in extra))
    forms = {"BIAS": int(bias is not None), "ACT": int(relu), "MASK": int(mask is not None)}
    sizes, flops = {"M": m, "N": n, "K": k}, 2 * m * n * k
    if tb and not ta and m < tuning.pack_rows:
        dot = best_tile(tuning.dots, m, n, spec)
        return (DOT.step((a, b, c, *extra), sizes, {**dict(dot.defines), **forms}, node=node,
                         flops=flops, access=access),)
    tile = best_tile(tuning.tiles, m, n, spec)
    defines = {**dict(tile.defines), **forms, "TA": int(ta)}
    if not tb and (m < tuning.pack_rows or b.nbytes < tuning.pack_bytes):
        return (REGISTER.step((a, b, c, *extra), sizes, defines, node=node, flops=flops,
                              access=access),)
    width = tile_width(defines)
    panels = new_value((ceil_div(n, width), k, width))
    pack = PACK_B.step((b, panels), {"N": n, "K": k},
                       {"W": width, "V": defines["V"], "KB": _PANEL_ROWS, "TB": int(tb)},
                       node=node)
    return pack, REGISTER.step((a, panels, c, *extra), sizes, {**defines, "PB": 1}, node=node,
                               flops=flops, access=access)


def _turned(value: Value, transposed: bool) -> tuple[int, int]:
    assert len(value.shape) == 2, f"{value} is not a matrix"
    rows, columns = value.shape
    return (columns, rows) if transposed else (rows, columns)
