from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handtorch.place.crossover import QUANTITIES, changes, crossover, explained
from handtorch.place.decide import Target, winner
from handtorch.place.rescale import break_even_bps
from handtorch.place.situation import candidates
from tests.place.situations import papers_phone

BY_NAME = {quantity.name: quantity for quantity in QUANTITIES}


@settings(max_examples=10)
@given(st.sampled_from(("wifi", "lte", "3g")), st.floats(0.05, 5),
       st.sampled_from(("latency", "energy")))
def test_at_each_change_the_winner_is_what_was_said_and_before_it_is_not(
        radio: str, compute_s: float, objective: str) -> None:
    at, target = papers_phone(radio, compute_s=compute_s), Target(objective)  # type: ignore[arg-type]
    here = winner(candidates(at), target).name
    for change in changes(at, target):
        quantity = BY_NAME[change.quantity]
        factor = change.at / (quantity.now(at) or 1.0)
        beyond, before = factor, 1 + (factor - 1) * (1 - 1e-6)
        assert winner(candidates(quantity.scaled(at, beyond)), target).name == change.winner
        assert winner(candidates(quantity.scaled(at, before)), target).name == here
        assert change.winner != here


def test_the_rate_at_which_rescaling_ends_is_the_rules_break_even() -> None:
    """Two ways of arithmetic, the same rate: that of the rule, and that of the decision."""
    at = papers_phone("lte", since_s=0.0)
    at = replace(at, picture=replace(at.picture, small_bytes={"png": 172_000}))
    assert at.server is not None
    saved_s = at.server.decode.per_megapixel_s * (8.2944 - 256 * 256 / 1e6)
    rescale_s = at.rescalings["png"].of(8.2944).value
    found = crossover(at, Target(), BY_NAME["up rate"], "above")
    assert found is not None and found[1] == "cloud, original"
    assert 5.64e6 * found[0] == pytest.approx(
        break_even_bps(1_528_000, 172_000, rescale_s or 0.0, saved_s), rel=1e-6)


def test_where_nothing_turns_it_nothing_is_said() -> None:
    at = replace(papers_phone(), link=None)
    assert crossover(at, Target(), BY_NAME["picture"], "above") is None
    assert BY_NAME["up rate"].now(at) is None


def test_sentences_on_what_would_change_it() -> None:
    found = explained(papers_phone(cold=True), Target("energy"))
    assert "with the LTE radio already up cloud, jpeg would win" in found.changes
    assert "for 6 or more pictures, one every 1 s, cloud, jpeg would win" in found.changes
    quick = explained(papers_phone(cold=True), Target("latency"))
    assert quick.changes[0] == "below 0.096 Mb/s up device OpenCL would win"
    private = explained(papers_phone(cold=True), Target("latency", private=True))
    assert "if the picture might leave the device cloud, jpeg would win" in private.changes


def test_a_shorter_tail_is_tried() -> None:
    said = "if the radio's tail were 5 s, not 11.6 s, cloud, jpeg would win"
    assert said in explained(papers_phone(cold=True, compute_s=3.5), Target("energy")).changes
    assert said not in explained(papers_phone(cold=True), Target("energy")).changes
