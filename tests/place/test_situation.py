from __future__ import annotations

from dataclasses import replace

import pytest

from handtorch.place.known import unknown
from handtorch.place.situation import CLOUD, DEVICE, Candidate, Situation, candidates
from tests.place.situations import papers_phone


def named(at: Situation) -> dict[str, Candidate]:
    return {one.name: one for one in candidates(at)}


def test_every_way_there_is() -> None:
    found = named(papers_phone())
    assert [(one.name, one.place) for one in found.values()] == [
        ("device CPU", DEVICE), ("device OpenCL", DEVICE), ("cloud, original", CLOUD),
        ("cloud, png", CLOUD), ("cloud, jpeg", CLOUD)]
    assert list(named(replace(papers_phone(), link=None))) == ["device CPU", "device OpenCL"]
    assert list(named(replace(papers_phone(), server=None))) == ["device CPU", "device OpenCL"]


def test_parts_add_up() -> None:
    for one in candidates(papers_phone(cold=True)):
        assert sum(one.seconds.values()) == pytest.approx(one.p50_s.value)
        assert sum(one.joules.values()) == pytest.approx(one.energy_j.value)


def test_the_phones_own_power_is_met() -> None:
    """2962.58 mW while CNNDroid computes, 1081.24 mW idle: the difference for its time."""
    one = named(papers_phone())["device OpenCL"]
    assert one.joules["compute"] == pytest.approx(2.1317 * (2.96258 - 1.08124), rel=0.02)


def test_an_isolated_request_over_lte_costs_more_than_computing_on_the_phone() -> None:
    """And a request while the radio is up costs a tenth of it."""
    found, awake = named(papers_phone(cold=True)), named(papers_phone(since_s=0.0))
    there, here = found["cloud, jpeg"], found["device OpenCL"]
    assert there.p50_s.value and here.p50_s.value and there.p50_s.value < here.p50_s.value / 3
    assert there.energy_j.value and here.energy_j.value
    assert there.energy_j.value == pytest.approx(13.2, abs=0.2)
    assert here.energy_j.value == pytest.approx(4.2, abs=0.1)
    up = awake["cloud, jpeg"].energy_j.value
    assert up and up < here.energy_j.value / 5


def test_a_burst_is_between_one_alone_and_a_radio_that_is_up() -> None:
    joules = [named(papers_phone(burst=n))["cloud, jpeg"].energy_j.value or 0.0
              for n in (1, 4, 100)]
    assert joules[0] > joules[1] > joules[2]
    assert joules[2] == pytest.approx(
        named(papers_phone(since_s=1.0))["cloud, jpeg"].energy_j.value, rel=0.1)


def test_an_isolated_request_waits_for_the_radio() -> None:
    alone, awake = (named(papers_phone(since_s=s))["cloud, jpeg"] for s in (None, 1.0))
    assert alone.seconds["promotion"] == 0.2601 and awake.seconds["promotion"] == 0
    measured = named(replace(papers_phone(), radio_in_link=True))["cloud, jpeg"]
    assert measured.seconds["promotion"] == 0 < measured.joules["promotion"]


def test_one_in_ten_takes_longer() -> None:
    at = papers_phone()
    one = named(at)["cloud, png"]
    assert one.p90_s.value and one.p50_s.value
    assert one.p90_s.value == pytest.approx(one.p50_s.value + one.seconds["upload"] + 0.5 * (
        one.seconds["decode"] + one.seconds["compute"]))
    bare = replace(at, locals=[replace(at.locals[0], tail=None)],
                   server=replace(at.server, tail=None) if at.server else None)
    assert all(c.p90_s == unknown("a single figure tells no spread") for c in candidates(bare))


def test_what_is_not_known_is_not_guessed() -> None:
    at = papers_phone()
    no_sheet = named(replace(at, sheet=None))
    assert no_sheet["device CPU"].energy_j == unknown("no sheet says what the device draws")
    assert no_sheet["cloud, jpeg"].energy_j.value is None
    assert no_sheet["cloud, original"].energy_j.value is not None       # needs no rescaling
    no_radio = named(replace(at, radio=None))
    assert no_radio["cloud, jpeg"].energy_j == unknown("nobody said which radio carries it")
    assert no_radio["device CPU"].energy_j.value is not None


def test_provenance_is_that_of_the_worst_figure() -> None:
    found = named(papers_phone())
    assert found["device CPU"].p50_s.provenance == "estimated"
    assert found["cloud, jpeg"].p50_s.provenance == "simulated"
    assert found["cloud, jpeg"].energy_j.provenance == "estimated"
