from __future__ import annotations

from pathlib import Path
from statistics import mean, stdev

import pytest

from handtorch.errors import BadInput, StorageError
from handtorch.place.transfers import TABLE, Transfers, read_transfers

CAMPUS = Transfers("Campus", 57.873475, 30.787465, True)


def test_a_network_carries_the_picture_in_the_mean_time() -> None:
    network = CAMPUS.network(150_000)
    assert 150_000 * 8 / network.up_bps == pytest.approx(0.057873475)
    assert network.up_bps == network.down_bps and network.rtt_ms == 0 and network.radio == "wifi"
    assert "150000 B by assumption" in network.source
    assert network.unconfirmed == ("up", "down", "rtt")
    assert CAMPUS.network(1000, 8.0).up_bps == pytest.approx(1e6)


def test_times_are_drawn_as_the_table_says() -> None:
    drawn = CAMPUS.drawn_ms(4000, seed=1)
    assert drawn == CAMPUS.drawn_ms(4000, seed=1) != CAMPUS.drawn_ms(4000, seed=2)
    assert min(drawn) > 0
    # Without what is drawn below 0 (3 %), the mean is 2 ms more and the deviation 2 less.
    assert mean(drawn) == pytest.approx(CAMPUS.mean_ms + 2, abs=2.5)
    assert stdev(drawn) == pytest.approx(CAMPUS.std_ms - 2, abs=2)


def test_what_was_made_up_is_no_network() -> None:
    with pytest.raises(BadInput, match="it was not measured"):
        Transfers("Perfect", 50.0, 0.0, False).network(1000)
    with pytest.raises(BadInput, match="0 B in 57"):
        CAMPUS.network(0)


def test_the_table_itself(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HANDTORCH_SHARED", str(shared))
    found = {t.name: t for t in read_transfers()}
    assert found["Campus"] == CAMPUS and not found["Perfect"].measured
    assert [t.name for t in found.values() if t.measured] == ["Home", "Campus", "LTE SIM"]
    assert all(t.network(100_000).up_bps > 0 for t in found.values() if t.measured)


def test_no_table_no_networks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HANDTORCH_SHARED", "")
    with pytest.raises(StorageError, match="HANDTORCH_SHARED names no folder with"):
        read_transfers()
    monkeypatch.setenv("HANDTORCH_SHARED", str(tmp_path))
    (tmp_path / TABLE).parent.mkdir(parents=True)
    (tmp_path / TABLE).write_text("network,transfer_mean_ms\nHome,x\n")
    with pytest.raises(StorageError, match="ValueError"):
        read_transfers()
