"""Loading in a process of its own: what it takes, within a heap, and after it was killed."""

from __future__ import annotations

import gc
from pathlib import Path

from handtorch.cloud.loading_child import Phase
from handtorch.cloud.offers import Given
from handtorch.cloud.pictures import encode
from handtorch.cloud.pressure import Way
from handtorch.cloud.scenes import generated
from tests.cloud.small_net import saved_net


def test_a_phase_counts_its_own_collections() -> None:
    gc.collect()
    with Phase() as phase:
        gc.collect()
        gc.collect()
    gc.collect()
    assert phase.told["collections"] == 2
    assert 0 < phase.told["longest_pause_ms"] <= phase.told["collecting_ms"] <= phase.told["ms"]


def test_a_heap_that_is_large_enough_one_that_is_not_and_a_kill(tmp_path: Path) -> None:
    picture = tmp_path / "a.jpg"
    picture.write_bytes(encode(generated(0), "JPEG"))
    way = Way(str(saved_net(tmp_path, "ref")), Given("opencl", "ref"), mapped=True)
    fits = way.loaded([picture], 512 << 20)
    assert not fits.failed and fits.load is not None and fits.use is not None
    assert fits.answer_ms > fits.load.ms > 0 and fits.load.minor_faults > 0
    assert 10e6 < fits.peak_bytes < 1e9
    small = way.loaded([picture], 4 << 20)      # the picture alone has 6 MB of pixels
    # Who asks last decides how it ends: Python raises, OpenBLAS ends the process.
    assert small.load is None
    assert "memory" in small.failed.lower() or small.failed == "the process ended with exit code 1"
    killed = way.loaded([picture], kill=True)
    assert not killed.failed and killed.load is None and killed.answer_ms > 0


def test_what_is_no_model_is_told(tmp_path: Path) -> None:
    (tmp_path / "x.ht").write_bytes(b"no model")
    found = Way(str(tmp_path / "x.ht"), Given("opencl", "ref")).loaded()
    assert "x.ht cannot be used: it begins with" in found.failed
