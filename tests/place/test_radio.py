from __future__ import annotations

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handtorch.errors import BadInput
from handtorch.place.link import Exchange
from handtorch.place.radio import SHIPPED, Radio, radio_in, radio_names, read_radio
from handtorch.place.sheet import read_sheet

# 100 KB at 4 Mb/s, 100 ms on the way, 20 ms of a server, and a small answer.
EXCHANGE = Exchange(0.0, 0.0, 0.2, 0.1, 0.001, 4e6, 8e6, there_s=0.02)


def whole_row_j(radio: Radio, exchanges: list[Exchange], gaps_s: list[float]) -> float:
    """The state machine played through once, from idle to idle: no marginal arithmetic."""
    joules, gap_before = 0.0, None
    for number, one in enumerate(exchanges):
        if gap_before is None or gap_before >= radio.tail_s:
            joules += radio.promotion.w * radio.promotion.s
        joules += radio.moving_w(one.up_bps / 1e6, 0)[0] * one.up_s
        joules += radio.moving_w(0, one.down_bps / 1e6)[0] * one.down_s
        joules += radio.base_w * one.waiting_s
        gap_before = gaps_s[number] if number < len(gaps_s) else None
        left = radio.tail_s if gap_before is None else min(gap_before, radio.tail_s)
        for phase in radio.tail:
            joules += phase.w * min(left, phase.s)
            left -= min(left, phase.s)
    return joules


@given(st.sampled_from(radio_names()), st.lists(st.floats(0, 30), max_size=8),
       st.floats(0.1e6, 50e6))
def test_costs_of_a_row_add_up_to_what_the_row_draws(name: str, gaps_s: list[float], bps: float
                                                     ) -> None:
    radio = read_radio(name)
    one = Exchange(0.0, 0.0, 8e5 / bps, 0.1, 0.001, bps, bps, there_s=0.02)
    costs = [radio.exchange_j(one, since).total_j for since in (None, *gaps_s)]
    assert sum(costs) == pytest.approx(whole_row_j(radio, [one] * len(costs), gaps_s))


def test_an_isolated_exchange_by_hand() -> None:
    found = read_radio("lte").exchange_j(EXCHANGE, None)
    assert found.promotion_j == pytest.approx(1.2107 * 0.2601)
    assert found.moving_j == pytest.approx(
        0.2 * (0.43839 * 4 + 1.28804) + 0.001 * (0.05197 * 8 + 1.28804))
    assert found.waiting_j == pytest.approx(1.28804 * 0.12)
    assert found.tail_j == pytest.approx(12.27, abs=0.005)
    assert found.doubts == ()


def test_in_the_tail_nothing_is_woken_and_only_the_prolonging_is_paid() -> None:
    lte = read_radio("lte")
    found = lte.exchange_j(EXCHANGE, 2.0)
    assert found.promotion_j == 0 and lte.wake_s(2.0) == 0 < lte.wake_s(None)
    assert found.tail_j == pytest.approx(2 * 1.06)
    late = lte.exchange_j(EXCHANGE, lte.tail_s + 1)
    assert late == lte.exchange_j(EXCHANGE, None)


def test_a_tail_of_two_parts_is_cut_in_order() -> None:
    umts = read_radio("3g")
    assert umts.tail_j(8.088 + 0.4) == pytest.approx(8.088 * 0.8039 + 0.4 * 0.6013)


@given(st.integers(1, 20), st.floats(0, 20))
def test_a_burst_is_the_mean_of_its_exchanges(count: int, gap_s: float) -> None:
    lte = read_radio("lte")
    one_by_one = [lte.exchange_j(EXCHANGE, None if k == 0 else gap_s).total_j
                  for k in range(count)]
    assert lte.burst_j(EXCHANGE, count, gap_s).total_j == pytest.approx(
        sum(one_by_one) / count)


@given(st.sampled_from(radio_names()), st.floats(1e5, 1e9), st.floats(1.01, 100))
def test_a_faster_link_never_costs_more(name: str, bps: float, faster: float) -> None:
    """More watts for a shorter time: with the clamp as without it."""
    radio = read_radio(name)
    slow, quick = (radio.exchange_j(Exchange(0, 0, 8e5 / b, 0.1, 0, b, b), None).total_j
                   for b in (bps, bps * faster))
    assert quick <= slow * (1 + 1e-9)


def test_where_the_line_leaves_its_range_it_is_clamped_and_that_is_told() -> None:
    wifi = read_radio("wifi")
    watts, said = wifi.moving_w(37.4, 0)
    assert watts == 1.16
    assert said == ("at 37.4 Mb/s up the line of Wi-Fi says 10.7 W, outside what it was fitted to; "
                    "1.16 W is taken")
    fast = Exchange(0.0, 0.0, 0.03, 0.01, 0.001, 37.4e6, 37.4e6)
    assert said in wifi.exchange_j(fast, None).doubts
    assert wifi.moving_w(2, 0) == (pytest.approx(2 * 0.28317 + 0.13286), "")


def test_a_device_that_says_what_its_radio_draws_is_believed() -> None:
    nexus = read_sheet("nexus-5")
    wifi = radio_in(nexus, "wifi")
    assert wifi.moving_w(37.4, 0) == (pytest.approx(73.24e-3 * 3.8, rel=1e-3), "")
    assert "moving bits" not in wifi.unconfirmed[0] and "the tail" in wifi.unconfirmed[0]
    assert radio_in(None, "wifi") == read_radio("wifi")
    assert radio_in(nexus, "lte") == read_radio("lte")      # its maker's current has no tail


@pytest.mark.parametrize("name", radio_names())
def test_every_constant_has_a_source_a_year_and_says_if_it_is_unconfirmed(name: str) -> None:
    tables = tomllib.loads(SHIPPED.read_text())[name]
    for part in (tables["line"], tables["most"], tables["promotion"], *tables["tail"]):
        assert part["source"] and 2000 < part["year"] < 2100
        assert part.get("unconfirmed", True) is True and "confirmed" not in part
    assert bool(read_radio(name).unconfirmed) == (name != "lte")


def test_a_tail_of_another_length() -> None:
    assert read_radio("3g").with_tail(3.0).tail_s == pytest.approx(3.0)


def test_no_such_radio() -> None:
    with pytest.raises(BadInput, match="no radio 'edge': there is lte, 3g, wifi"):
        read_radio("edge")
