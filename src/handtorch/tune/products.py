"""Matrix products and batches of them, as families to tune."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from handtorch.graph.device_spec import DeviceSpec
from handtorch.graph.node import Node
from handtorch.kernels.bmm import BMM, BMM_DOT
from handtorch.kernels.bmm_tiles import Batch
from handtorch.kernels.gemm_specs import DOT, DOT_COLUMNS, REGISTER, tile_width
from handtorch.kernels.gemm_tiles import Product, tuning_for
from handtorch.kernels.variant import Variant
from handtorch.tune.family import EPILOGUE, PLAIN, UPDATE, Family, cheapest, make_node

_SQUARES = (64, 128, 256, 512, 1024)
_BATCH, _WIDTHS = 32, (784, 256, 128, 16)
_MOMENTUM, _DECAY = 0.5, 0.25               # exact in float32


def item_columns(variant: Variant) -> int:
    """How many columns an item computes."""
    return DOT_COLUMNS if "NV" not in dict(variant.defines) else tile_width(dict(variant.defines))


class Products(Family[Product]):
    def usual(self) -> tuple[Product, ...]:
        """Squares, and a training step of a perceptron on MNIST: forward, and both gradients."""
        layers = list(pairwise(_WIDTHS))
        return (*(Product(n, n, n) for n in _SQUARES),
                *(Product(_BATCH, out, into, tb=True) for into, out in layers),
                *(Product(_BATCH, into, out) for into, out in layers[1:]),
                *(Product(out, into, _BATCH, ta=True) for into, out in layers))

    def node(self, problem: Product, work: str) -> Node:
        m, n, k, ta, tb = problem.m, problem.n, problem.k, problem.ta, problem.tb
        a, b, c = (k, m) if ta else (m, k), (n, k) if tb else (k, n), (m, n)
        if work == UPDATE:
            return make_node("matmul_sgd", (c, a, b, (1,), c), (c, c), ta=ta, tb=tb,
                             momentum=_MOMENTUM, decay=_DECAY, maximize=False, nesterov=False)
        if work == EPILOGUE:
            return make_node("matmul", (a, b, (n,), c), (c,), ta=ta, tb=tb,
                             epilogue=("bias", "relu", "relu_grad"))
        return make_node("matmul", (a, b), (c,), ta=ta, tb=tb)

    def works(self, variant: Variant) -> tuple[str, ...]:
        return (PLAIN, EPILOGUE) if variant.form == "dot" else (PLAIN, EPILOGUE, UPDATE)

    def from_table(self, form: str, problem: Product, spec: DeviceSpec) -> Iterable[Variant]:
        tuning = tuning_for(spec)
        tiles = tuning.dots if form == "dot" else tuning.tiles
        return [Variant.of(form, macros)
                for macros in cheapest(tiles, problem.m, problem.n, spec, problem.k)]

    def space(self, form: str) -> Mapping[str, Sequence[int]]:
        return (DOT if form == "dot" else REGISTER).space

    def groups(self, form: str, spec: DeviceSpec) -> Sequence[tuple[int, int]]:
        return tuning_for(spec).groups

    def outputs(self, problem: Product) -> tuple[int, int]:
        return problem.m, problem.n

    def smallest(self, problem: Product, variant: Variant) -> Product:
        """One item's work, no larger than the product itself."""
        return replace(problem, m=min(problem.m, dict(variant.defines)["R"]),
                       n=min(problem.n, item_columns(variant)), k=min(problem.k, 8))


class Batches(Family[Batch]):
    def usual(self) -> tuple[Batch, ...]:
        """Attention: 4 heads of 32 numbers, 16 sequences of 64 words; scores, values, gradients."""
        return (Batch(64, 64, 64, 32, tb=True), Batch(64, 64, 32, 64),
                Batch(64, 64, 32, 64, ta=True))

    def node(self, problem: Batch, work: str) -> Node:
        p = problem
        a = (1 if p.one_a else p.count, *((p.k, p.m) if p.ta else (p.m, p.k)))
        b = (1 if p.one_b else p.count, *((p.n, p.k) if p.tb else (p.k, p.n)))
        return make_node("bmm", (a, b), ((p.count, p.m, p.n),), ta=p.ta, tb=p.tb)

    def from_table(self, form: str, problem: Batch, spec: DeviceSpec) -> Iterable[Variant]:
        tuning = tuning_for(spec)
        tiles = tuning.dots if form == "bmm_dot" else tuning.tiles
        found = cheapest(tiles, problem.count * problem.m, problem.n, spec, problem.k)
        return [Variant.of(form, {k: v for k, v in macros.items() if k != "KU"})
                for macros in found]

    def space(self, form: str) -> Mapping[str, Sequence[int]]:
        return (BMM_DOT if form == "bmm_dot" else BMM).space

    def groups(self, form: str, spec: DeviceSpec) -> Sequence[tuple[int, int]]:
        return tuning_for(spec).groups

    def outputs(self, problem: Batch) -> tuple[int, int]:
        return problem.count * problem.m, problem.n

    def smallest(self, problem: Batch, variant: Variant) -> Batch:
        return replace(problem, count=1, m=min(problem.m, dict(variant.defines)["R"]),
                       n=min(problem.n, item_columns(variant)), k=min(problem.k, 8), one_a=False,
                       one_b=False)
