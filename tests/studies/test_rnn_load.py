"""The load figure: rows that a run file takes, the paper's order beside ours, silence on a tie."""

from __future__ import annotations

from pathlib import Path

import pytest

from handtorch.offload.table import Level
from handtorch.record import Result, RunWriter
from handtorch.record.read import read_run
from handtorch.runtime.opencl.discover import FoundDevice
from handtorch.studies.rnn_load import (
    BANDS,
    HELD,
    TIME,
    WINS,
    _winner,
    judge_load,
    load_figure,
    load_table,
)
from handtorch.studies.study import record_setting


@pytest.mark.timed
def test_the_figure_is_measured_and_kept(opencl_device: FoundDevice, tmp_path: Path) -> None:
    rows = load_figure(True, lambda text: None, opencl_device.label)
    with RunWriter.create(tmp_path / "run.htr", "test") as record:
        record_setting(record, opencl_device)
        record.add(*rows)
    run = read_run(tmp_path / "run.htr")
    named = {name: [r for r in run.results if r.name == name] for name in (TIME, HELD, WINS)}
    assert [len(found) for found in named.values()] == [8, 8, 4]
    held = [r for r in named[HELD] if r.value is not None and r.x_value is not None]
    assert all(abs((r.value or 0) - (r.x_value or 0)) <= 5 for r in held)
    assert {"cpu", "device"} <= {place.name for place in run.places}
    (pair,) = (c for c in run.comparisons if c.first == "cpu")
    if opencl_device.spec.kind == "cpu":
        assert pair.same_silicon and "different cores of one CPU" in pair.same_silicon_reason
    taken = {r.subject: r.value for r in named[TIME]}
    for place in ("cpu", "device"):
        none, high = taken[f"{place}, no load"], taken[f"{place}, high load"]
        if none is not None and high is not None:       # a machine that others use holds no load
            assert high > 1.5 * none
    assert len(load_table(rows).splitlines()) == 1 + len(BANDS)


def test_the_papers_order_stands_beside() -> None:
    from handtorch.studies.rnn_load import _published
    assert [(p.subject, p.value) for p in _published()] == [
        ("low load", 1.0), ("medium load", 1.0), ("high load", 0.0)]


def test_who_is_quicker_is_not_said_within_the_spread() -> None:
    def level(*ms: float) -> Level:
        return Level(0.2, 0.2, tuple(x / 1e3 for x in ms))
    assert _winner("low", level(9, 10, 11), level(4, 5, 6)).value == 1.0
    assert _winner("low", level(4, 5, 6), level(9, 10, 11)).value == 0.0
    tie = _winner("low", level(4, 5, 9, 10), level(5, 6, 9, 11))
    assert tie.value is None and tie.value_reason == (
        "the medians differ by 0.5 ms, less than half their spread of 5 ms")
    refused = _winner("high", Level(0.8, None, refused="a load of 80% came to 50%"), level(5, 6, 7))
    assert refused.value is None and refused.value_reason == "a load of 80% came to 50%"


def test_the_verdict_is_the_papers_order_or_unknown() -> None:
    def winners(**wins: bool | None) -> list[Result]:
        return [Result(study="rnn", name=WINS, subject=f"{band} load", unit="1 = yes",
                       value=None if won is None else float(won), better="neither", repeats=1,
                       value_reason="a tie" if won is None else "", provenance="measured")
                for band, won in wins.items()]
    papers = {"no": True, "low": True, "medium": True, "high": False}
    assert judge_load(winners(**papers), "?").holds is True
    other = judge_load(winners(**papers | {"high": True}), "?")
    assert other.holds is False and other.answer == (
        "Quicker here: device under every load.")
    tie = judge_load(winners(**papers | {"low": None}), "?")
    assert tie.answer == ("Quicker here: device under no, medium load; unknown under low load; "
                          "cpu under high load.")
    assert tie.holds is None and tie.holds_reason == "low load: a tie"
