"""Large buffers ask for huge pages, from their first byte on."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from handtorch.runtime.opencl.context import OpenCLContext
from handtorch.runtime.opencl.discover import FoundDevice
from handtorch.runtime.opencl.huge_pages import HUGE_PAGE, huge_pages

SMAPS = Path("/proc/self/smaps")
pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or not Path("/sys/kernel/mm/transparent_hugepage").exists(),
    reason="this system has no huge pages")


def advised() -> list[tuple[int, int]]:
    """The stretches of this process that asked for huge pages: flag `hg`."""
    found, span = [], (0, 0)
    for line in SMAPS.read_text().splitlines():
        word = line.split(maxsplit=1)[0]
        if "-" in word and not word.endswith(":"):
            start, end = (int(part, 16) for part in word.split("-"))
            span = (start, end)
        elif word == "VmFlags:" and "hg" in line.split():
            found.append(span)
    return found


def is_advised(start: int, end: int) -> bool:
    """Neighbouring stretches may be listed in parts."""
    for low, high in sorted(advised()):
        if low <= start < high:
            start = high
    return start >= end


@pytest.mark.parametrize(("nbytes", "pages"), [
    (0, 0), (HUGE_PAGE // 2 - 1, 0), (HUGE_PAGE // 2, 1), (HUGE_PAGE, 1),
    (3 * HUGE_PAGE // 2 - 1, 1), (3 * HUGE_PAGE // 2, 2), (9 * HUGE_PAGE + 1, 9)])
def test_no_page_is_asked_for_that_is_not_half_used(nbytes: int, pages: int) -> None:
    assert huge_pages(nbytes) == pages


@pytest.mark.parametrize("nbytes", [HUGE_PAGE // 2, HUGE_PAGE, 3 * HUGE_PAGE + 128])
def test_a_large_buffer_starts_on_one(opencl_device: FoundDevice, nbytes: int) -> None:
    on = OpenCLContext(opencl_device)
    buffer = on.buffer(nbytes)
    seen, _ = on.cl.enqueue_map_buffer(
        on.queue, buffer, on.cl.map_flags.WRITE, 0, (nbytes,), np.uint8)
    start = seen.ctypes.data
    seen.base.release(on.queue)
    assert buffer.size == nbytes and start % HUGE_PAGE == 0
    # The last page may reach beyond what is mapped.
    assert is_advised(start, start + min(nbytes, huge_pages(nbytes) * HUGE_PAGE))
