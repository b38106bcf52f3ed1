"""The child that tries variants: it may die of one, and its parent goes on.

Takes requests as lines of JSON on standard input, answers each with one on what was standard
output; what a driver prints there goes to standard error instead."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache
from math import ceil
from typing import Any

import numpy as np

from handtorch.errors import HandTorchError, OutOfMemory
from handtorch.graph.device_spec import DeviceSpec
from handtorch.graph.node import Value
from handtorch.kernels.case import Array, Case
from handtorch.kernels.gemm import Sgd, matmul_steps
from handtorch.kernels.gemm_cases import reference
from handtorch.kernels.gemm_tiles import Product, Variant, as_product, as_variant
from handtorch.runtime.opencl.bare import BareSteps
from handtorch.runtime.opencl.context import OpenCLContext
from handtorch.runtime.opencl.discover import choose

SAMPLES = 5
BLOCK_NS, WARM_UP_NS = 8_000_000, 16_000_000
_A, _B, _C, _BIAS, _MASK, _RATE, _PANELS = range(7)      # the mask is the moment of an update
_LR, _MOMENTUM, _DECAY = 0.125, 0.5, 0.25                # exact in float32
Reply = dict[str, Any]


@lru_cache(maxsize=2)
def data(product: Product) -> tuple[dict[int, Array], dict[str, dict[int, Array]]]:
    """Random operands by value id, and for each kind of work the right answers."""
    m, n, k = product.sizes()
    rng = np.random.default_rng(m + n + k)
    a, b, bias, mask, weight = (rng.standard_normal(s, np.float32)
                                for s in ((m, k), (k, n), (n,), (m, n), (m, n)))
    given = {_A: np.ascontiguousarray(a.T) if product.ta else a,
             _B: np.ascontiguousarray(b.T) if product.tb else b, _BIAS: bias, _MASK: mask,
             _C: weight, _RATE: np.array([_LR], "f4")}
    plain = reference(a, b)
    moved = _MOMENTUM * mask.astype("f8") + plain + _DECAY * weight.astype("f8")
    return given, {
        "product": {_C: plain},
        "epilogue": {_C: np.maximum(plain + bias, 0.0) * (mask > 0)},
        "update": {_C: weight - _LR * moved, _MASK: moved}}


def check_room(product: Product, spec: DeviceSpec) -> None:
    """Refuse before NumPy and the driver take the machine's memory."""
    m, n, k = product.sizes()
    need, limit = 4 * (m * k + k * n + m * n), spec.global_bytes // 2
    if need > limit or 4 * max(m * k, k * n, m * n) > spec.largest_allocation_bytes:
        raise OutOfMemory(f"the product takes {need} B, twice that with its answer",
                          why=f"{spec.name} has {spec.global_bytes} B, "
                              f"{spec.largest_allocation_bytes} B in one allocation")


def case_of(product: Product, variant: Variant, spec: DeviceSpec, work: str) -> Case:
    """The product by this very variant, lowered as any program's would be that it is chosen for:
    alone, with bias, ReLU and mask, or as the gradient of a weight that it updates."""
    given, want = data(product)
    values = {i: Value(i, x.shape) for i, x in given.items()}
    chosen = replace(spec, tuned=((str(product), str(variant)),), avoid=())
    rule = Sgd(values[_RATE], values[_MASK], _MOMENTUM, _DECAY, maximize=False, nesterov=False)
    extras: dict[str, dict[str, Any]] = {
        "product": {},
        "epilogue": {"bias": values[_BIAS], "relu": True, "mask": values[_MASK]},
        "update": {"update": rule}}
    steps = matmul_steps(values[_A], values[_B], values[_C], ta=product.ta, tb=product.tb,
                         spec=chosen, new_value=lambda shape: Value(_PANELS, shape),
                         **extras[work])
    used = {o.value.id for s in steps for o in s.operands if o.reads}
    # K rounding errors of random sign, each relative to a product of normal numbers.
    return Case(f"{product} {variant} {work}", steps,
                {i: x for i, x in given.items() if i in used}, want[work],
                1e-6 * max(4, product.k) ** 0.5)


def attempt(on: OpenCLContext, case: Case, stop_ns: int | None, timed: bool) -> Reply:
    """Run the case; only if its numbers are right, time it if asked to, and stop early once a
    run takes longer than `stop_ns`."""
    bare = BareSteps(on, case.steps, case.given)
    try:
        bare.enqueue()
        bare.finish()
        values = {o.value.id: o.value for s in case.steps for o in s.operands}
        off = case.error({key: bare.read(values[key]) for key in case.expected})
        if off > 1:
            return {"state": "wrong", "why": f"off by {off:.3g} times the tolerance"}
        return {"state": "right", "times_ns": list(_times(bare, stop_ns)) if timed else []}
    finally:
        bare.close()


def _times(bare: BareSteps, stop_ns: int | None) -> Iterator[int]:
    """Nanoseconds of one run, the mean of each block."""
    once_ns = max(1, _timed(bare, 1))
    if once_ns < BLOCK_NS:                  # a single short run is mostly the cost of waiting
        several = ceil(WARM_UP_NS / once_ns)
        once_ns = max(1, _timed(bare, several) // several)
    count = ceil(BLOCK_NS / once_ns)
    for _ in range(SAMPLES):
        time_ns = max(1, _timed(bare, count) // count)
        yield time_ns
        if stop_ns is not None and time_ns > stop_ns:
            return


def _timed(bare: BareSteps, count: int) -> int:
    start_ns = time.perf_counter_ns()
    bare.enqueue(count)
    bare.finish()
    return time.perf_counter_ns() - start_ns


def serve(on: OpenCLContext, say: Callable[[Reply], None]) -> None:
    """Answer requests until there are no more, or the driver has failed."""
    say({"state": "ready"})
    for line in sys.stdin:
        asked = json.loads(line)
        product, variant = as_product(asked["product"]), as_variant(asked["variant"])
        try:
            check_room(product, on.spec)
            case = case_of(product, variant, on.spec, asked["work"])
            say(attempt(on, case, asked["stop_ns"], asked["timed"]))
        except OutOfMemory as e:
            say({"state": "no room", "why": e.message().splitlines()[0]})
        except HandTorchError as e:
            say({"state": "refused", "why": e.message().splitlines()[0]})
        except on.cl.Error as e:            # at a launch: this context may be lost for good
            say({"state": "crashed", "why": f"the driver said: {str(e).splitlines()[0]}"})
            return


def main(label: str) -> None:
    private = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def say(reply: Reply) -> None:
        private.write(json.dumps(reply) + "\n")
        private.flush()

    try:
        on = OpenCLContext(choose(label))
    except HandTorchError as e:
        say({"state": "closed", "why": e.message().splitlines()[0]})
        return
    serve(on, say)


if __name__ == "__main__":
    main(sys.argv[1])
