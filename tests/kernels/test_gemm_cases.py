"""The cases themselves: they cover every kernel, and their references are right."""

from __future__ import annotations

from collections import Counter

import numpy as np

from handtorch.kernels.gemm_cases import cases, packed, reference
from handtorch.kernels.gemm_specs import KERNELS

MACROS = {"gemm_register": ("TA", "PB", "BIAS", "ACT", "MASK"),
          "gemm_dot": ("BIAS", "ACT", "MASK"), "pack_b": ("TB",)}


def test_every_kernel_and_every_switch_has_a_case() -> None:
    steps = [step for case in cases() for step in case.steps]
    assert {s.kernel for s in steps} == {k.name for k in KERNELS}
    for kernel, macros in MACROS.items():
        for macro in macros:
            settings = {dict(s.defines)[macro] for s in steps if s.kernel == kernel}
            assert settings == {0, 1}, (kernel, macro)


def test_names_are_unique_and_cases_small_and_legal_on_a_phone() -> None:
    assert max(Counter(case.name for case in cases()).values()) == 1
    for case in cases():
        for step in case.steps:
            assert step.flops < 20_000, case.name
            assert np.prod(step.local_size) <= 256, case.name
    local = {k.name: k.local_bytes for k in KERNELS}
    assert all(local[s.kernel](dict(s.defines)) <= 32768 for c in cases() for s in c.steps)


def test_packed_moves_the_last_panel_left() -> None:
    b = np.arange(10).reshape(2, 5)
    assert packed(b, 2).tolist() == [[[0, 1], [5, 6]], [[2, 3], [7, 8]], [[3, 4], [8, 9]]]


def test_reference_applies_bias_then_relu_then_mask() -> None:
    a, b = np.array([[1.0, 2.0]]), np.array([[1.0, -4.0, 3.0], [1.0, 1.0, 1.0]])
    bias, mask = np.array([-1.0, 1.0, 1.0]), np.array([[2.0, 1.0, 0.0]])
    assert reference(a, b, bias, True, mask).tolist() == [[2.0, 0.0, 0.0]]
    assert reference(a, b).tolist() == [[3.0, -2.0, 5.0]]
