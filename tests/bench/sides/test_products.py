"""Every side that multiplies matrices, against NumPy in double precision."""

from __future__ import annotations

import ctypes.util
import importlib
from pathlib import Path

import pytest

from handtorch.bench.case import EXPECTED, Asked, Case, read_calls
from handtorch.bench.outcome import checked
from handtorch.bench.prepare import prepare
from handtorch.bench.side import CannotRun
from handtorch.bench.sides import SIDES
from handtorch.runtime.opencl.discover import FoundDevice

pytestmark = pytest.mark.spread


@pytest.mark.parametrize("form", ["nn", "nt", "tn"])
@pytest.mark.parametrize("name", ["handtorch", "torch", "numpy", "clblast"])
def test_a_product_is_right_however_it_lies(tmp_path: Path, name: str, form: str,
                                            opencl_device: FoundDevice) -> None:
    if name == "clblast" and ctypes.util.find_library("clblast") is None:
        pytest.skip("libclblast1 is not installed")
    kind = SIDES["product"][name]
    asked = Asked(Case("product", "", 1, form, sizes=(33, 17, 40)), tmp_path, opencl_device.label,
                  1, {}, kind.options)
    prepare(asked)
    subject = importlib.import_module(kind.module).make(asked)
    subject.run(2)
    found = [tuple(subject.once(i)) for i in range(3)]
    off, why = checked(asked.case, found, read_calls(tmp_path / EXPECTED))
    assert why == "" and max(off) < 1e-5


def test_a_library_that_is_not_there_is_told(tmp_path: Path, opencl_device: FoundDevice) -> None:
    asked = Asked(Case("product", "", 1, "nn", sizes=(2, 2, 2)), tmp_path, opencl_device.label, 1,
                  {}, {"library": str(tmp_path / "libnone.so")})
    prepare(asked)
    with pytest.raises(CannotRun, match="libclblast does not load"):
        importlib.import_module(SIDES["product"]["clblast"].module).make(asked)
