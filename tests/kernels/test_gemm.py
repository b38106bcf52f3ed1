"""Matrix products on every device: `matmul_steps` on random shapes and forms."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from handtorch.graph.device_spec import GENERIC, DeviceSpec
from handtorch.graph.node import Shape, Value
from handtorch.graph.step import Step
from handtorch.kernels.case import Array, Case
from handtorch.kernels.catalog import all_cases
from handtorch.kernels.gemm import Form, cases, matmul_steps
from handtorch.kernels.gemm_cases import reference
from handtorch.kernels.gemm_tiles import tuning_for
from handtorch.runtime.opencl.context import OpenCLContext
from handtorch.runtime.opencl.discover import FoundDevice
from handtorch.selftest import run_case

pytestmark = pytest.mark.spread
A, B, C, BIAS, MASK, SCRATCH = range(6)
CPU = replace(GENERIC, kind="cpu", float_width=16, max_work_group=4096)
EPILOGUES = ("none", "bias relu", "mask", "bias")


@functools.cache
def context(device: FoundDevice) -> OpenCLContext:
    return OpenCLContext(device)


def test_its_cases_are_in_the_self_test() -> None:
    """Which tests/test_selftest.py runs on every device."""
    assert {c.name for c in cases()} <= {c.name for c in all_cases()}


def product(size: tuple[int, int, int], turned: str, epilogue: str, spec: DeviceSpec,
            form: Form | None = None) -> Case:
    """A case for `matmul_steps`; `turned` names the transposed operands."""
    m, n, k = size
    rng = np.random.default_rng(m * n + k)
    a, b = (rng.normal(size=s).astype("f4") for s in ((m, k), (k, n)))
    bias = rng.normal(size=n).astype("f4") if "bias" in epilogue else None
    mask = rng.normal(size=(m, n)).astype("f4") if "mask" in epilogue else None
    held: dict[int, Array | None] = {A: a.T.copy() if "a" in turned else a,
                                     B: b.T.copy() if "b" in turned else b, BIAS: bias, MASK: mask}
    data = {i: x for i, x in held.items() if x is not None}
    values = {i: Value(i, x.shape) for i, x in data.items()}
    steps = matmul_steps(values[A], values[B], Value(C, (m, n)), ta="a" in turned,
                         tb="b" in turned, bias=values.get(BIAS), relu="relu" in epilogue,
                         mask=values.get(MASK), spec=spec, form=form,
                         new_value=lambda shape: Value(SCRATCH, shape))
    want = reference(a, b, bias, "relu" in epilogue, mask)
    # K rounding errors of random sign, each relative to a product of normal numbers.
    return Case(f"{size} {turned} {epilogue}", steps, data, {C: want}, 1e-6 * max(4, k) ** 0.5)


@settings(max_examples=25, deadline=None,
          suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(m=st.integers(1, 140), n=st.integers(1, 140), k=st.integers(1, 40),
       turned=st.sampled_from(("", "a", "b", "ab")), epilogue=st.sampled_from(EPILOGUES))
def test_any_shape_and_form(opencl_device: FoundDevice, m: int, n: int, k: int, turned: str,
                            epilogue: str) -> None:
    on = context(opencl_device)
    case = product((m, n, k), turned, epilogue, on.spec)
    assert case.error(run_case(on, case)) <= 1


@pytest.mark.parametrize("size", [(65, 67, 33), (3, 1, 5), (1, 130, 7)], ids=str)
@pytest.mark.parametrize("turned, form", [("", "packed"), ("a", "packed"), ("", "register"),
                                          ("b", "dot"), ("b", "packed")])
def test_every_form_can_do_every_shape(opencl_device: FoundDevice, size: tuple[int, int, int],
                                       turned: str, form: Form) -> None:
    on = context(opencl_device)
    case = product(size, turned, "none", on.spec, form)
    assert case.error(run_case(on, case)) <= 1


def test_the_tiles_for_a_phone_run_too(opencl_device: FoundDevice) -> None:
    on = context(opencl_device)
    for size, turned in (((70, 70, 9), ""), ((9, 33, 5), "b"), ((130, 66, 5), "b")):
        case = product(size, turned, "bias relu", GENERIC)
        assert case.error(run_case(on, case)) <= 1, case.name


def test_the_same_bits_each_time(opencl_device: FoundDevice) -> None:
    on = context(opencl_device)
    case = product((96, 130, 300), "", "none", on.spec, "packed")
    first = run_case(on, case)[C]
    assert all(np.array_equal(first, run_case(on, case)[C]) for _ in range(5))


def test_a_long_gradient_is_summed_in_parts(opencl_device: FoundDevice) -> None:
    """A whole number of parts, and one more of a single row; the same bits each time."""
    on = context(opencl_device)
    depth = tuning_for(on.spec).split
    for k in (4 * depth, 4 * depth + 1) if depth else ():
        case = product((10, 9, k), "a", "none", on.spec)
        assert list(names(case.steps)) == ["gemm_register", "reduce_axis"]
        first = run_case(on, case)
        assert case.error(first) <= 1
        assert all(np.array_equal(first[C], run_case(on, case)[C]) for _ in range(3))


@pytest.mark.parametrize("size, turned, epilogue, parts", [
    ((128, 32, 4096), "a", "none", 16), ((128, 9, 4097), "a", "none", 17),
    ((128, 32, 1024), "a", "none", 4), ((128, 32, 1023), "a", "none", 0),
    ((128, 32, 4096), "", "none", 0), ((128, 32, 4096), "ab", "none", 0),
    ((128, 32, 4096), "a", "bias", 0),
    ((512, 512, 4096), "a", "none", 0),                       # the parts would be more than A and B
])
def test_which_products_are_summed_in_parts(size: tuple[int, int, int], turned: str, epilogue: str,
                                            parts: int) -> None:
    for spec, want in ((CPU, parts), (GENERIC, 0)):
        steps = product(size, turned, epilogue, spec).steps
        split = [s for s in steps if dict(s.defines).get("SPLIT")]
        assert [s.global_size[2] for s in split] == ([want] if want else [])


def test_not_a_number_survives_relu_and_mask(opencl_device: FoundDevice) -> None:
    on = context(opencl_device)
    for turned, epilogue in (("", "bias relu"), ("b", "bias relu"), ("", "mask"), ("b", "mask")):
        case = product((8, 32, 16), turned, epilogue, on.spec)
        case.given[A][0, 0] = np.nan
        assert np.isnan(run_case(on, case)[C][0]).any(), (turned, epilogue)


def names(steps: tuple[Step, ...]) -> Iterator[str]:
    yield from (step.kernel for step in steps)


@pytest.mark.parametrize("size, turned, kernels", [
    ((512, 512, 512), "", ["gemm_register"]),                 # B stays in the cache
    ((1024, 1024, 1024), "", ["pack_b", "gemm_register"]),
    ((32, 1024, 1024), "", ["gemm_register"]),                # too few rows share a packed B
    ((32, 256, 784), "b", ["gemm_dot"]),
    ((128, 256, 784), "b", ["gemm_dot"]),                     # transposing costs more than it gains
    ((512, 256, 784), "b", ["pack_b", "gemm_register"]),
    ((256, 784, 32), "a", ["gemm_register"]),
    ((32, 16, 8), "ab", ["pack_b", "gemm_register"]),         # no other kernel can
])
def test_which_kernels_are_chosen_on_a_cpu(size: tuple[int, int, int], turned: str,
                                           kernels: list[str]) -> None:
    m, n, k = size
    made: list[Shape] = []

    def scratch(shape: Shape) -> Value:
        made.append(shape)
        return Value(SCRATCH, shape)

    a = Value(A, (k, m) if "a" in turned else (m, k))
    b = Value(B, (n, k) if "b" in turned else (k, n))
    steps = matmul_steps(a, b, Value(C, (m, n)), ta="a" in turned, tb="b" in turned, spec=CPU,
                         node=7, new_value=scratch)
    assert list(names(steps)) == kernels
    assert len(made) == len(kernels) - 1
    assert [s.flops for s in steps][-1] == 2 * m * n * k
    assert {s.node for s in steps} == {7}
    assert [o.access for o in steps[-1].operands] == ["r", "r", "w"]


def test_operands_and_their_access_follow_the_epilogue() -> None:
    case = product((8, 32, 16), "", "bias mask", CPU)
    (step,) = case.steps
    assert [(o.value.id, o.access) for o in step.operands] == [
        (A, "r"), (B, "r"), (C, "w"), (BIAS, "r"), (MASK, "r")]
    assert dict(step.defines)["BIAS"] == dict(step.defines)["MASK"] == 1


def test_a_form_that_cannot_transpose_is_our_bug() -> None:
    with pytest.raises(AssertionError, match="register cannot do ta=False tb=True"):
        product((8, 32, 16), "b", "none", CPU, "register")
