from __future__ import annotations

import pytest

import handtorch as ht
from handtorch.errors import BadInput
from handtorch.place.ask import typical_bytes
from handtorch.place.networks import read_network

PHONE = {"device CPU": 8910.64, "device OpenCL": 2131.7}


def test_the_papers_phone_over_its_wifi_and_over_lte() -> None:
    """Guo 2018 found the cloud ahead in all; over LTE one picture alone is cheaper on the phone."""
    for network, target, wanted in (("wifi-campus", "latency", "cloud"),
                                    ("wifi-campus", "energy", "cloud"),
                                    ("lte", "latency", "cloud"), ("lte", "energy", "device")):
        found = ht.place(PHONE, server_ms=18.6, network=network, megapixels=8.3, sheet="nexus-5",
                         gpu=("device OpenCL",), target=target)
        assert found.chosen.place == wanted, (network, target)
        assert found.reasons and found.changes


def test_a_target_of_several_parts() -> None:
    found = ht.place(PHONE, server_ms=18.6, network=read_network("3g-fast"),
                     target=ht.Target("latency", private=True))
    assert found.chosen.name == "device OpenCL"
    assert ht.place(PHONE, server_ms=18.6, network="lte", private=True).chosen.name == \
        "device OpenCL"


def test_a_burst_pays_for_the_radio_together() -> None:
    def chosen(**more: object) -> str:
        return str(ht.place(PHONE, server_ms=18.6, network="lte", sheet="nexus-5",
                            gpu=("device OpenCL",), target="energy", **more).chosen.place)
    assert (chosen(), chosen(burst=50), chosen(radio_up=True)) == ("device", "cloud", "cloud")


def test_without_a_cloud_there_is_the_device() -> None:
    found = ht.place(100.0)
    assert found.chosen.name == "device"
    assert found.reasons[0].endswith("and nothing else is left")


def test_files_as_large_as_those_of_the_paper() -> None:
    for megapixels, kb in ((8.2944, 1396), (2.0736, 547), (0.5184, 165)):
        assert typical_bytes(megapixels) == pytest.approx(1000 * kb, rel=0.1)


@pytest.mark.parametrize(("options", "said"), [
    ({"server_ms": 5.0}, "a server without a network"),
    ({"network": "lte"}, "a network without a server"),
    ({"server_ms": -1.0, "network": "lte"}, "server_ms of -1.0: it is a number above 0"),
    ({"megapixels": 0.0}, "megapixels of 0.0"),
    ({"burst": 0}, "a burst of 0 pictures"),
    ({"target": "joy"}, "a target of 'joy'"),
])
def test_what_is_refused(options: dict[str, object], said: str) -> None:
    with pytest.raises(BadInput) as told:
        ht.place(100.0, **options)
    assert said in str(told.value) and "test_ask.py" in told.value.where
