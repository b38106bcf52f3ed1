from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handtorch.report.packed import packed


def unpacked(text: str) -> list[tuple[int, int, int]]:
    """As web/packed.js does."""
    numbers, value, scale = [], 0, 1
    for byte in base64.b64decode(text):
        value += (byte & 127) * scale
        scale *= 128
        if byte < 128:
            numbers.append(value)
            value, scale = 0, 1
    spans, reached = [], 0
    for gap, length, label in zip(*[iter(numbers)] * 3, strict=True):
        spans.append((reached + gap, reached + gap + length, label))
        reached += gap + length
    return spans


@given(st.lists(st.tuples(st.integers(0, 2**50), st.integers(0, 2**40), st.integers(0, 2**20))))
def test_what_was_packed_comes_out_again(steps: list[tuple[int, int, int]]) -> None:
    spans, at = [], 0
    for gap, length, label in steps:
        spans.append((at + gap, at + gap + length, label))
        at += gap + length
    assert unpacked(packed(spans)) == spans


def test_a_usual_launch_takes_few_bytes() -> None:
    spans = [(10_000 * i, 10_000 * i + 9_000, i % 50) for i in range(1000)]
    assert len(packed(spans)) < 8 * 1000


def test_spans_out_of_order_are_a_fault_of_ours() -> None:
    with pytest.raises(AssertionError):
        packed([(10, 20, 0), (15, 30, 0)])
