from __future__ import annotations

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handtorch.place.rescale import PAPERS_PHONE, break_even_bps, fitted, is_worth_it

# Table II of the paper, KB by megapixels.
PICTURES = ((8.2944, (785, 1362, 1396, 1528, 2599)), (2.0736, (251, 479, 547, 739, 576)),
            (0.5184, (82, 146, 165, 196, 226)))


def test_two_values_of_the_paper_are_met() -> None:
    small, mean = PAPERS_PHONE.of(0.5184).value, PAPERS_PHONE.of((8.2944 + 2.0736 + 0.5184) / 3)
    assert small == pytest.approx(0.038, abs=5e-4)
    assert mean.value == pytest.approx(0.07616, abs=5e-4)


def test_the_papers_conclusion_at_its_own_rate() -> None:
    """Images one to five, those of the third set, are sent as they are; the large ones are not."""
    bps = 8 * 172e3 / 0.03683

    def worth_it(megapixels: float, kb: float) -> bool:
        return is_worth_it(PAPERS_PHONE.of(megapixels).value or 0.0, 8 * 172e3 / bps,
                           8 * kb * 1e3 / bps, margin=0.0)
    (large, large_kb), _, (small, small_kb) = PICTURES
    assert not any(worth_it(small, kb) for kb in small_kb)
    assert all(worth_it(large, kb) for kb in large_kb[1:])


@given(st.floats(1e3, 1e7), st.floats(1e3, 1e7), st.floats(1e-4, 1), st.floats(0, 0.5),
       st.floats(1e4, 1e9))
def test_below_the_break_even_rate_it_is_worth_it_and_above_it_is_not(
        original: float, small: float, rescale_s: float, saved_s: float, bps: float) -> None:
    found = break_even_bps(original, small, rescale_s, saved_s)
    worth_it = is_worth_it(rescale_s, 8 * small / bps, 8 * original / bps + saved_s, margin=0.0)
    if found is None:
        assert not worth_it or original == small or rescale_s == saved_s
    elif abs(bps / found - 1) > 1e-6 and original > small:
        assert worth_it == (bps < found)


@pytest.mark.parametrize(("original", "small", "rescale_s", "saved_s", "bps"), [
    (1_528_000, 172_000, 0.1333, 0.0, 81.4e6),      # the paper's fourth large picture
    (82_000, 172_000, 0.038, 0.0, None),            # made larger by making it small
    (172_000, 172_000, 0.038, 0.1, inf),
    (1_528_000, 172_000, 0.05, 0.06, inf),          # the server saves more than it costs
])
def test_break_even(original: float, small: float, rescale_s: float, saved_s: float,
                    bps: float | None) -> None:
    assert break_even_bps(original, small, rescale_s, saved_s) == (
        None if bps is None else pytest.approx(bps, rel=0.01))


def test_who_is_in_doubt_sends_it_as_it_is() -> None:
    assert is_worth_it(0.5, 0.44, 1.0) and not is_worth_it(0.5, 0.46, 1.0)
    assert is_worth_it(0.5, 0.46, 1.0, margin=0.0)


@given(st.floats(0, 0.2), st.floats(0, 0.1),
       st.lists(st.floats(0.3, 12), min_size=2, max_size=9, unique=True))
def test_a_line_is_found_again(base_s: float, slope: float, sizes: list[float]) -> None:
    found = fitted([(mp, base_s + slope * mp) for mp in sizes], "test")
    mean = sum(sizes) / len(sizes)
    assert found.of(mean).value == pytest.approx(base_s + slope * mean)
    if max(sizes) > 2 * min(sizes):
        assert found.of(20).value == pytest.approx(base_s + slope * 20, abs=1e-6)


def test_one_size_alone_tells_no_slope_and_nothing_is_negative() -> None:
    found = fitted([(2.0, 0.02), (2.0, 0.03)], "test")
    assert (found.base_s, found.per_megapixel_s) == (0.0, pytest.approx(0.0125))
    known = fitted([(2.0, 0.02), (2.0, 0.03)], "test", slope=0.01)
    assert (known.base_s, known.per_megapixel_s) == (pytest.approx(0.005), 0.01)
    falling = fitted([(1.0, 0.03), (8.0, 0.02)], "test")
    assert (falling.base_s, falling.per_megapixel_s) == (pytest.approx(0.025), 0.0)
    steep = fitted([(1.0, 0.001), (2.0, 0.1)], "test")
    assert steep.base_s == pytest.approx(0) and steep.per_megapixel_s > 0
