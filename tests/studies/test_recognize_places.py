"""Places over networks: rows and words from made-up cells, and one network in earnest."""

from __future__ import annotations

from pathlib import Path

import pytest

from handtorch.cloud.local_server import LocalServer
from handtorch.cloud.scenes import make_scenes
from handtorch.place.network import Network
from handtorch.runtime.opencl.discover import FoundDevice
from handtorch.studies.recognize_modes import DEVICE_CL, DEVICE_CPU, ModeRun
from handtorch.studies.recognize_places import FITTED, MADE, Effort, Places, effort, run_places
from handtorch.studies.recognize_places_findings import judge, results, text
from handtorch.studies.recognize_regret import Cell


def cell(kind: str, device: float, cloud: float, auto: float) -> Cell:
    return Cell("lte-far", "scene 1, 960 x 540", kind, "s" if kind == "latency" else "J",
                {"device CPU": [device] * 2, "cloud, jpeg": [cloud] * 2}, [auto] * 2,
                ["cloud, jpeg"] * 2, [device])


def found(auto: float = 0.3) -> Places:
    return Places("squeezenet", [cell("latency", 0.7, 0.3, auto),
                                 cell("energy, alone", 1.3, 13.0, 1.3)], ["a sentence"])


def test_rows_are_simulated_and_words_have_the_figures() -> None:
    rows = list(results(found()))
    assert {row.provenance for row in rows} == {"simulated"}
    assert {row.name for row in rows} == {"cost: device CPU", "cost: cloud, jpeg", "cost: auto",
                                          "regret of auto"}
    shown = text(found(), judge(found(), None))
    assert "300 ms" in shown and "1.3 J" in shown and "a sentence" in shown
    assert "+0.0% of s and +0.0% of J" in shown and "*" not in shown
    busy = text(found(), judge(found(), 0.5), 0.5)
    assert "+0.0% *" in busy and "+0.0% of s" not in busy
    assert "\n(*) Other programs used 50 % of this machine's cores while " in busy


def test_a_verdict_needs_a_quiet_machine_and_little_regret() -> None:
    assert judge(found(), 0.01).holds
    assert not judge(found(auto=0.33), 0.01).holds
    assert judge(found(), 0.5).holds is None
    assert judge(Places("x"), 0.01).holds is None


def test_networks_that_were_seen_before_are_left_out() -> None:
    for quick in (True, False):
        names = [network.name for network in effort(quick).networks]
        assert not set(names) & set(FITTED) and set(names) >= {n.name for n in MADE}


@pytest.mark.slow
def test_one_network_in_earnest(opencl_device: FoundDevice, tmp_path: Path) -> None:
    """A quick network and a slow phone: the cloud wins in time, and `auto` finds that out."""
    from tests.cloud.small_net import saved_net
    runs = [ModeRun("net", mode, tuple({"steps_ms": {"compute": 60.0}} for _ in range(3)))
            for mode in (DEVICE_CPU, DEVICE_CL)]
    scenes = [s for s in make_scenes(tmp_path, [], 1) if s.size == 2]
    quick = Network("quick", 30e6, 30e6, 8.0, "lte", "made up")
    options = ["--model", str(saved_net(tmp_path, opencl_device.label)), "--device",
               opencl_device.label, "--rows", "1"]
    with LocalServer(options) as server:
        places = run_places("net", runs, server.url, scenes, Effort((quick,), 3, 5.0, 8.0),
                            lambda _: None)
    latency, alone, burst = places.cells
    assert latency.place == "cloud" and {u[:5] for u in latency.used} == {"cloud"}
    assert alone.place == "device" and {u[:6] for u in alone.used} == {"device"}
    assert len(burst.auto) == 3 and len(latency.first) == 3
    assert any("radio already up" in line for line in places.crossovers)
