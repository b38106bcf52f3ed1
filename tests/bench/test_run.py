"""A whole bench into a run file."""

from __future__ import annotations

from pathlib import Path

import pytest

from handtorch.bench.cases import Wanted
from handtorch.bench.run import Request, run
from handtorch.errors import BadInput
from handtorch.record import RunWriter, read_run
from handtorch.runtime.opencl.discover import FoundDevice

pytestmark = pytest.mark.spread


def test_products_are_compared_and_recorded(opencl_device: FoundDevice, tmp_path: Path) -> None:
    request = Request(Wanted("kernels", quick=True), ("handtorch", "numpy"), rounds=2, warm=True)
    with RunWriter.create(tmp_path / "run.htr", "bench") as record:
        verdicts = run(request, opencl_device, record, lambda text: None)
    found = read_run(tmp_path / "run.htr")
    assert verdicts[0].holds and list(found.verdicts) == verdicts
    kinds = {p.name: (p.kind, p.device) for p in found.places}
    assert kinds["handtorch"] == ("device", 0) and kinds["numpy"] == ("host cpu", None)
    times = [r for r in found.results if r.name == "time of a run"]
    assert [(r.subject, r.place) for r in times] == [
        (f"{n}x{n}x{n} nn", side) for n in (64, 128) for side in ("handtorch", "numpy")]
    assert all(r.value and r.repeats == 2 for r in times)
    assert len([r for r in found.results if r.name == "time of a run, each block"]) == 8
    assert {s.name for s in found.software} >= {"side handtorch", "side numpy"}


@pytest.mark.parametrize("request_, said", [
    (Request(Wanted("train"), ("clblast",)), "none of them does `bench train`"),
    (Request(Wanted("train", ("Model1",)), rounds=0), "every side has one turn or more"),
])
def test_what_cannot_be_compared_is_refused(opencl_device: FoundDevice, tmp_path: Path,
                                            request_: Request, said: str) -> None:
    with (RunWriter.create(tmp_path / "run.htr", "bench") as record,
          pytest.raises(BadInput, match=said)):
        run(request_, opencl_device, record, lambda text: None)
