"""A torch of another release is refused; its patches are not."""

from __future__ import annotations

import pytest
import torch

from handtorch.capture.torch_version import READS, check_torch
from handtorch.errors import CannotCapture


def test_the_release_counts_and_not_the_patch(monkeypatch: pytest.MonkeyPatch) -> None:
    check_torch()
    for version in (f"{READS}.9", f"{READS}.0+cpu"):
        monkeypatch.setattr(torch, "__version__", version)
        check_torch()
    for version in ("2.1.3", "2.130.0", "3.13.0", "unknown"):
        monkeypatch.setattr(torch, "__version__", version)
        with pytest.raises(CannotCapture, match=f"^torch {version}: a model is captured with"):
            check_torch()
