from __future__ import annotations

import json
from dataclasses import asdict, replace
from math import inf

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from handtorch.errors import BadInput
from handtorch.place.decide import LIMITED, Target, decide, winner
from handtorch.place.known import Known, unknown
from handtorch.place.situation import CLOUD, DEVICE, Candidate, candidates
from tests.place.situations import papers_phone

figure = st.one_of(st.just(0.0), st.floats(0.001, 1000), st.just(None))


def known(value: float | None) -> Known:
    return unknown("nobody knows") if value is None else Known(value, "measured", "test")


@st.composite
def any_candidates(draw: st.DrawFn) -> list[Candidate]:
    rows = draw(st.lists(st.tuples(st.sampled_from((DEVICE, CLOUD)), figure, figure, figure,
                                   figure), min_size=1, max_size=6))
    return [Candidate(f"{place} {number}", place, known(p50), known(p90), known(j), known(size),
                      {}, {}) for number, (place, p50, p90, j, size) in enumerate(rows)]


limit = st.one_of(st.none(), st.floats(0.001, 1000))
targets = st.builds(Target, st.sampled_from(("latency", "energy")), limit, limit, limit, limit,
                    st.booleans())


def figures(one: Candidate) -> list[float]:
    values = [getattr(one, name).value for name in LIMITED]
    return [inf if value is None else value for value in values]


@given(any_candidates(), targets)
def test_what_is_chosen_is_allowed_best_and_dominated_by_none(given_: list[Candidate],
                                                              target: Target) -> None:
    try:
        found = decide(given_, target)
    except BadInput:
        allowed = [c for c in given_ if not (target.private and c.place == CLOUD)]
        assert not allowed or any(target.wanted(c).value is None for c in allowed)
        return
    assert not (target.private and found.chosen.place == CLOUD)
    assert found == decide(given_, target) and found.chosen is winner(given_, target)
    for one in given_:
        if target.private and one.place == CLOUD:
            continue
        mine, theirs = figures(found.chosen), figures(one)
        dominates = all(t <= m for t, m in zip(theirs, mine, strict=True)) and theirs != mine
        assert not dominates, f"{one.name} is better in all than {found.chosen.name}"
        if found.qualified and all(value <= target.limits().get(name, inf) for name, value in
                                   zip(LIMITED, theirs, strict=True)):
            best, other = target.wanted(found.chosen).value, target.wanted(one).value
            assert best is not None and (other is None or best <= other)


@given(st.floats(1e4, 1e8), st.floats(1.0, 100), st.sampled_from(("latency", "energy")),
       st.sampled_from(("wifi", "lte", "3g")), st.floats(0.01, 10), st.booleans(),
       st.one_of(st.none(), st.floats(0.05, 5)))
def test_a_faster_link_never_turns_it_from_the_cloud_to_the_device(
        bps: float, faster: float, objective: str, radio: str, compute_s: float, cold: bool,
        deadline_s: float | None) -> None:
    target = Target(objective, p90_s=deadline_s)        # type: ignore[arg-type]
    slow, quick = (winner(candidates(papers_phone(radio, up_bps=b, compute_s=compute_s,
                                                  cold=cold)), target).place
                   for b in (bps, bps * faster))
    assume(slow == CLOUD)
    assert quick == CLOUD


def test_privacy_comes_before_everything() -> None:
    found = decide(candidates(papers_phone("wifi")), Target(private=True, p90_s=0.5))
    assert found.chosen.place == DEVICE and not found.qualified
    assert all(j.candidate.place == DEVICE for j in found.judged if not j.forbidden)
    assert "cloud, jpeg: the picture must not leave the device" in found.reasons
    with pytest.raises(BadInput, match="no place is left: the picture must not leave the device"):
        decide(candidates(replace(papers_phone(), locals=())), Target(private=True))


def test_latency_and_energy_disagree_over_lte_and_that_is_said() -> None:
    ways = candidates(papers_phone(cold=True))
    quick, cheap = decide(ways, Target("latency")), decide(ways, Target("energy"))
    assert (quick.chosen.name, cheap.chosen.name) == ("cloud, jpeg", "device OpenCL")
    assert "for energy it would be device OpenCL: 4.21 J against 13.2 J" in quick.reasons
    assert cheap.reasons[0] == "device OpenCL costs 4.21 J, 68% less than cloud, jpeg with 13.2 J"
    assert "cloud, jpeg: the largest part of its 13.2 J is the radio's tail with 12.3 J" in \
        cheap.reasons


def test_a_limit_rules_out_what_would_win() -> None:
    ways = candidates(papers_phone(cold=True))
    found = decide(ways, Target("latency", energy_j=5.0))
    assert found.chosen.name == "device OpenCL" and found.qualified
    assert "cloud, jpeg: its energy of 13.2 J is above the limit of 5 J" in found.reasons
    found = decide(ways, Target("energy", p50_s=1.0))
    assert found.chosen.name == "cloud, jpeg"


def test_where_no_candidate_keeps_the_limits_the_least_violation_wins_and_says_so() -> None:
    found = decide(candidates(papers_phone(cold=True)), Target("energy", p50_s=0.5))
    assert not found.qualified and found.chosen.name == "cloud, jpeg"
    assert found.reasons[0].startswith("no candidate keeps every limit; cloud, jpeg breaks them by "
                                       "least: its median time of ")


def test_a_limit_on_what_is_not_known_is_not_kept() -> None:
    ways = candidates(replace(papers_phone(), sheet=None))
    found = decide(ways, Target("latency", memory_bytes=1e9))
    assert found.chosen.place == CLOUD
    assert "device CPU: its memory is not known: nobody measured it" in found.reasons


def test_energy_that_nobody_knows_is_refused_with_a_remedy() -> None:
    with pytest.raises(BadInput) as told:
        decide(candidates(replace(papers_phone(), sheet=None, radio=None)), Target("energy"))
    assert "no sheet says what the device draws" in told.value.why and told.value.fix


def test_doubtful_constants_are_told_where_they_count() -> None:
    ways = candidates(papers_phone("wifi"))
    doubt = "Wi-Fi: the constants of moving bits, promotion, the tail are not confirmed"
    assert doubt in decide(ways, Target("energy")).reasons
    assert doubt not in decide(ways, Target("latency")).reasons


@pytest.mark.parametrize(("words", "said"), [
    ({"objective": "joy"}, "there is latency and energy"),
    ({"p90_s": 0.0}, "a limit is above 0"), ({"energy_j": inf}, "a limit is above 0"),
])
def test_targets_that_make_no_sense(words: dict[str, object], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        Target(**words)     # type: ignore[arg-type]


def test_a_decision_can_be_written_down() -> None:
    text = json.dumps(asdict(decide(candidates(papers_phone()), Target())))
    assert "cloud, jpeg" in text
