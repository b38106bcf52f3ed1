"""What the zoo's tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(autouse=True)
def one_thread(request: pytest.FixtureRequest) -> Iterator[None]:
    """Narrow nets gain nothing from a second thread, and lose much on a busy machine.

    The slow tests choose for themselves: torch as it comes is part of their yardstick."""
    before = torch.get_num_threads()
    if request.node.get_closest_marker("slow") is None:
        torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
