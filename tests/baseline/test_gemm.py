"""The CPU's products are what they are compared as."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from handtorch.baseline import gemm


def test_numpy_multiplies_as_often_as_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    real = np.dot
    monkeypatch.setattr(gemm.np, "dot", lambda a, b, out: calls.append(real(a, b, out=out)))
    a = np.arange(6, dtype="f4").reshape(2, 3)
    gemm.numpy_product(a, a.T.copy())(4)
    assert len(calls) == 4
    assert calls[0].tolist() == [[5.0, 14.0], [14.0, 50.0]]


def test_torch_multiplies_as_often_as_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    calls = []
    real = torch.mm
    monkeypatch.setattr(torch, "mm", lambda a, b, out: calls.append(real(a, b, out=out)))
    a = np.arange(6, dtype="f4").reshape(2, 3)
    gemm.torch_product(a, a.T.copy())(3)
    assert len(calls) == 3
    assert calls[0].tolist() == [[5.0, 14.0], [14.0, 50.0]]


def test_torch_is_looked_for_without_loading_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setattr(gemm, "find_spec", lambda name: None)
    assert not gemm.has_torch()
