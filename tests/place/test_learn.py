from __future__ import annotations

from dataclasses import replace

import pytest

from handtorch.place.decide import Target, winner
from handtorch.place.learn import Given, Learner, Mean, SeenHere, SeenThere
from handtorch.place.link import Link
from handtorch.place.radio import read_radio
from handtorch.place.situation import candidates

HERE = SeenHere("device OpenCL", 2.0, 0.030, 0.200, 1.5, 0.0, 3e8)
THERE = SeenThere("png", 2.0, 100_000, 0.035, 0.004, 0.020, 0.170, 0.095)


def learnt(rtt_s: float = 0.070) -> Learner:
    """A device of 200 ms, and a network of 8 Mb/s: 100 KB in 100 ms and a round trip."""
    learner = Learner(("device OpenCL",), Given())
    for k in range(8):
        learner.network.answered(rtt_s, float(k))
        learner.saw_here(HERE)
        learner.saw_there(THERE, float(k))
    return learner


def test_what_was_seen_is_foretold() -> None:
    at = learnt().situation(2.0, 600_000, 8.0)
    found = {one.name: one for one in candidates(at)}
    assert found["device OpenCL"].p50_s.value == pytest.approx(0.230)
    assert found["cloud, png"].p50_s.value == pytest.approx(0.035 + 0.170 + 0.024, abs=0.001)
    assert {one.p50_s.provenance for one in found.values()} == {"measured"}


def test_ways_never_taken_are_foretold_from_their_parts() -> None:
    """A file six times as long takes six times as long to send; nothing is rescaled for it."""
    found = {one.name: one for one in candidates(learnt().situation(2.0, 600_000, 8.0))}
    original = found["cloud, original"]
    assert original.seconds["rescale"] == 0
    assert original.seconds["upload"] == pytest.approx(0.600, rel=0.01)
    assert found["cloud, jpeg"].seconds["upload"] == pytest.approx(0.030, rel=0.05)


def test_a_short_request_tells_a_rate_by_what_passed_between_its_ends() -> None:
    """20 KB in 20 ms, though the request waited for 50 ms more than a round trip."""
    learner = Learner((), Given())
    learner.network.answered(0.070, 0.0)
    short = replace(THERE, sending="jpeg", sent_bytes=20_000, network_s=0.140, upload_s=0.020)
    learner.saw_there(short, 0.0)
    link = learner.situation(2.0, 10**5, 0.0).link
    assert link is not None and link.up_bps == pytest.approx(8e6)
    hopeful = Learner((), Given())
    hopeful.network.answered(0.070, 0.0)
    hopeful.saw_there(replace(short, upload_s=0.0001), 0.0)
    link = hopeful.situation(2.0, 10**5, 0.0).link
    assert link is not None and link.up_bps == pytest.approx(4 * 8 * 20_000 / 0.070)
    learner.saw_there(replace(short, sending="png", sent_bytes=100_000, network_s=0.270), 1.0)
    link = learner.situation(2.0, 10**5, 1.0).link
    assert link is not None and link.up_bps == pytest.approx(4e6)      # the long one is believed


def test_decoding_on_the_server_grows_with_the_picture() -> None:
    learner = learnt()
    learner.saw_there(replace(THERE, sending="original", sent_bytes=600_000, decode_s=0.020,
                              network_s=0.670), 9.0)
    small, large = (candidates(learner.situation(mp, 600_000, 9.0))[1] for mp in (1.0, 8.0))
    assert small.name == large.name == "cloud, original"
    assert large.seconds["decode"] > 4 * small.seconds["decode"]


def test_what_is_not_known_yet_is_no_candidate() -> None:
    learner = Learner(("device OpenCL", "device CPU"), Given())
    assert learner.unseen() == ("device OpenCL", "device CPU") and not learner.knows_server()
    learner.saw_here(HERE)
    assert learner.unseen() == ("device CPU",)
    assert [one.name for one in candidates(learner.situation(2.0, 10**5, 0.0))] == [
        "device OpenCL"]
    assert [one.name for one in candidates(learnt().situation(2.0, 10**5, 8.0, cloud=False))
            ] == ["device OpenCL"]


def test_only_ways_of_sending_that_are_allowed() -> None:
    learner = Learner((), Given(sendings=("png",)))
    learner.saw_there(THERE, 0.0)
    names = [one.name for one in candidates(learner.situation(2.0, 10**5, 0.0))]
    assert names == ["cloud, png"]


def test_an_old_network_is_not_fresh_but_better_than_none() -> None:
    learner = learnt()
    assert learner.is_fresh(60.0) and not learner.is_fresh(100.0)
    at = learner.situation(2.0, 600_000, 100.0)
    assert at.link is not None and "93 s ago" in at.link.how
    named = Learner((), Given(link=Link(1e6, 1e6, 0.1, "simulated", "named", 1e6)))
    named.saw_there(THERE, 0.0)
    assert named.situation(2.0, 10**5, 0.0).link != named.given.link
    assert named.situation(2.0, 10**5, 100.0).link == named.given.link


def test_a_change_of_the_network_is_followed() -> None:
    learner = learnt()
    at = learner.situation(2.0, 600_000, 8.0)
    assert winner(candidates(at), Target()).place == "cloud"
    for k in range(8):
        learner.saw_there(replace(THERE, network_s=2.0), 8.0 + k)
    assert winner(candidates(learner.situation(2.0, 600_000, 16.0)), Target()).place == "device"


def test_since_when_the_radio_rests() -> None:
    learner = Learner((), Given())
    assert learner.since_s(5.0) is None
    learner.used_radio(5.0)
    assert learner.since_s(7.5) == 2.5


def test_the_first_of_all_is_forgotten_and_the_rest_is_followed() -> None:
    mean = Mean()
    for value in (9.0, 1.0, 1.0):
        mean.saw(value)
    assert mean.value == 1.0 and mean.tail() is None
    for value in (1.0, 1.0, 1.0, 1.0, 2.0):
        mean.saw(value)
    assert mean.value == pytest.approx(1.2)
    assert mean.tail() == 2.0 and mean.tail(0.5) == 1.0


def test_a_burst_is_expected_to_last_as_long_again() -> None:
    learner = Learner((), Given(radio=read_radio("lte")))

    def burst_at(now_s: float) -> tuple[int, float]:
        learner.asked(now_s)
        at = learner.situation(2.0, 10**5, now_s)
        learner.ended(now_s + 0.5)                      # half of it was work
        return at.burst, at.gap_s
    assert [burst_at(t)[0] for t in (0.0, 2.0, 4.0, 6.0)] == [1, 2, 3, 4]
    assert burst_at(8.0) == (5, 1.5)
    assert burst_at(30.0)[0] == 1                       # its tail of 11.6 s was over
    wired = Learner((), Given())
    wired.asked(0.0)
    wired.ended(0.05)
    wired.asked(0.1)
    assert wired.situation(2.0, 10**5, 0.1).burst == 1
