from __future__ import annotations

from pathlib import Path

import pytest

from handtorch.cloud.headers import read_header
from handtorch.cloud.local_server import LocalServer
from handtorch.cloud.measured import make_photo, measure_here, measure_there, picture_of
from handtorch.cloud.offers import Given, offer_of
from handtorch.cloud.recipes import TORCHVISION
from handtorch.runtime.opencl.discover import FoundDevice
from tests.cloud.small_net import saved_net


@pytest.mark.parametrize("megapixels", [0.01, 0.5, 4.0])
def test_a_picture_of_so_many_pixels(tmp_path: Path, megapixels: float) -> None:
    path = make_photo(tmp_path, megapixels)
    assert read_header(path.read_bytes()).pixels / 1e6 == pytest.approx(megapixels, rel=0.01)
    found = picture_of(path, TORCHVISION)
    assert found.file_bytes == path.stat().st_size
    assert 1000 < found.small_bytes["jpeg"] < found.small_bytes["png"] < 256 * 256 * 3 * 1.1


def test_here_and_there(tmp_path: Path, opencl_device: FoundDevice) -> None:
    """The same net by the same clock: computing has a spread, and a larger picture takes longer."""
    net, path = saved_net(tmp_path, opencl_device.label), make_photo(tmp_path, 1.0)
    offer = offer_of("net", "1", str(net), Given("opencl", opencl_device.label))
    here, recipe = measure_here(offer, path, tmp_path, runs=4)
    assert recipe.crop == (24, 24) and here.local.name == "device OpenCL"
    assert here.local.compute_s.provenance == "measured" and (here.local.tail or 0) >= 1
    assert here.rescaling.per_megapixel_s > 0 and here.local.cores > 0
    assert "stands for the server" in here.as_server().compute_s.how
    with LocalServer(["--model", str(net), "--device", opencl_device.label]) as server:
        there = measure_there(server.url, "net", path, None, runs=3)
    assert there.decode.per_megapixel_s > 0 and (there.compute_s.value or 0) > 0
    assert server.url in there.compute_s.how
