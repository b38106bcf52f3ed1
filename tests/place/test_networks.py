from __future__ import annotations

from pathlib import Path

import pytest

from handtorch.errors import BadInput, HandTorchError
from handtorch.place.networks import RADIOS, SHIPPED, read_network, shipped
from handtorch.place.trace import read_trace

WHOLE = """
name = "mine"
radio = "lte"
[up]
mbps = 2.5
source = "a speed test"
[down]
mbps = 10
source = "a speed test"
unconfirmed = true
[rtt]
ms = 40
source = "ping"
[jitter]
ms = 3
source = "ping"
[loss]
share = 0.01
source = "ping"
[queue]
bytes = 65536
source = "a guess"
unconfirmed = true
[[outage]]
begin_s = 1
end_s = 2.5
[[outage]]
begin_s = 3
end_s = 4
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "mine.toml"
    path.write_text(text)
    return path


def test_a_whole_network(tmp_path: Path) -> None:
    network = read_network(written(tmp_path, WHOLE))
    assert (network.name, network.radio) == ("mine", "lte")
    assert (network.up_bps, network.down_bps, network.rtt_ms) == (2.5e6, 10e6, 40)
    assert (network.jitter_ms, network.loss, network.queue_bytes) == (3, 0.01, 65536)
    assert network.outages_s == ((1, 2.5), (3, 4))
    assert network.source.startswith("up: a speed test; down: a speed test; rtt: ping; ")
    assert network.unconfirmed == ("down", "queue")


@pytest.mark.parametrize("name", shipped())
def test_those_that_ship_can_be_read(name: str) -> None:
    network = read_network(name)
    assert network.name == name and network.radio in RADIOS
    assert 0.1e6 < network.up_bps <= network.down_bps < 100e6 and 5 <= network.rtt_ms <= 400
    assert read_network(SHIPPED / f"{name}.toml") == network


def test_what_was_not_read_in_its_source_is_marked() -> None:
    assert read_network("lte").unconfirmed == ("up", "down")
    assert "rtt" in read_network("wifi-campus").unconfirmed
    assert read_network("3g").unconfirmed == ()


def test_rates_by_the_second_are_a_trace(tmp_path: Path) -> None:
    network = read_network(written(tmp_path, WHOLE.replace(
        "mbps = 2.5", "mbps_by_second = [1.2, 0, 3.6]")))
    trace = network.up_trace
    assert trace is not None and network.down_trace is None and trace.span_ms == 3000
    by_second = [sum(1000 * s < at <= 1000 * (s + 1) for at in trace.at_ms) for s in range(3)]
    assert by_second == [100, 0, 300]
    assert network.up_bps == trace.mean_bps == pytest.approx(1.6e6)


def test_a_trace_file_lies_beside_its_network(tmp_path: Path) -> None:
    (tmp_path / "drive.up").write_text("3\n3\n10\n")
    network = read_network(written(tmp_path, WHOLE.replace("mbps = 2.5", 'trace = "drive.up"')))
    assert network.up_trace == read_trace(tmp_path / "drive.up")
    assert network.up_bps == 3 * 1500 * 8 / 0.01


@pytest.mark.parametrize("change, why", [
    (("mbps = 2.5", "mbps = 0"), "up.mbps is 0: nothing would ever arrive"),
    (("mbps = 2.5", "mbps = -1"), "up.mbps is -1, not a number of at least 0"),
    (("mbps = 2.5", "kbps = 2.5"), "up has 'kbps'; known are mbps, mbps_by_second"),
    (("mbps = 2.5", 'mbps = 1\ntrace = "x"'), "up does not have one of mbps, mbps_by_second, tr"),
    (("mbps = 2.5", "mbps_by_second = []"), "up.mbps_by_second: nothing could ever leave"),
    (("mbps = 2.5", "mbps_by_second = [0, 0]"), "up.mbps_by_second: nothing could ever leave"),
    (("mbps = 2.5", "mbps_by_second = [-1]"), "up.mbps_by_second is -1, not a number"),
    (("mbps = 2.5", "mbps_by_second = 3"), "up.mbps_by_second is not a list"),
    (('radio = "lte"', 'radio = "5g"'), "radio is '5g'; known are wifi, lte, 3g"),
    (('radio = "lte"', ""), "the network does not say its radio"),
    (('ms = 40\nsource = "ping"', "ms = 40"), "rtt does not say its source"),
    (("[rtt]\nms = 40", "[rtt]"), "rtt.ms is None, not a number of at least 0"),
    (("share = 0.01", "share = 0.6"), "loss.share is 0.6, more than 0.5"),
    (("bytes = 65536", "bytes = 0"), "queue.bytes is 0"),
    (("unconfirmed = true", "unconfirmed = 0"), "down.unconfirmed is 0, neither true nor false"),
    (("begin_s = 3", "begin_s = 2"), "an outage from 2 to 4 s: outages have a length"),
    (("end_s = 2.5", "end_s = 1"), "an outage from 1 to 1 s: outages have a length"),
    (("end_s = 2.5", "stop_s = 1"), "outage has 'stop_s'; known are begin_s, end_s"),
    (("[[outage]]\nbegin_s = 1\nend_s = 2.5\n[[outage]]", "[outage]"), "outage is not a list"),
    (("[up]", "[up"), "not TOML: "),
])
def test_what_is_wrong_is_said(tmp_path: Path, change: tuple[str, str], why: str) -> None:
    path = written(tmp_path, WHOLE.replace(*change, 1))
    with pytest.raises(BadInput) as refused:
        read_network(path)
    assert refused.value.why.startswith(why)
    assert str(path) in refused.value.what and "docs/networks.md" in refused.value.fix


@pytest.mark.parametrize("named, what", [
    ("5g", "no network '5g'"), ("none/such.toml", "network none/such.toml")])
def test_one_that_is_not_there(named: str, what: str) -> None:
    with pytest.raises(HandTorchError) as refused:
        read_network(named)
    assert refused.value.what == what and refused.value.fix
