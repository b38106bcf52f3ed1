from __future__ import annotations

from pathlib import Path

import handtorch.kernels
from handtorch.place.ours import POINTWISE, PRODUCT, SHARES, work_of


def test_kernels_are_products_or_point_wise() -> None:
    kernels = {p.stem for p in Path(handtorch.kernels.__file__).parent.glob("*.cl")}
    products = {k for k in kernels if work_of(k, 1, 1).kind == PRODUCT}
    assert {"gemm_register", "conv_tile", "conv_weight", "bmm", "lstm_product",
            "winograd"} <= products
    assert {"sgd", "softmax_row", "norm_stats", "move", "copy"} <= kernels - products
    assert work_of("sgd", 1, 1).kind == POINTWISE


def test_each_kind_of_processor_has_shares_with_a_source() -> None:
    assert set(SHARES) == {"gpu", "cpu"}
    assert all(s.source and s.software.overlaps for s in SHARES.values())
