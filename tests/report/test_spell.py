from __future__ import annotations

import pytest

from handtorch.report.spell import column, duration, esc, joules, number, quantity, size, tick

NBSP = "\N{NO-BREAK SPACE}"


def test_text_of_a_record_is_only_ever_text() -> None:
    assert esc("<b a=\"'\">&") == "&lt;b a=&quot;&#x27;&quot;&gt;&amp;"
    assert esc("a\x00b\x1b[31m\u202ecod.exe\n\t") == "a\ufffdb\ufffd[31m\ufffdcod.exe\n\t"


@pytest.mark.parametrize(("value", "text"), [
    (0, "0"), (0.5, "0.5"), (12.345, "12.3"), (999.4, "999"), (999.6, "1,000"), (1024, "1,024"),
    (123456.7, "123,457"), (1e6, "1.00 \N{MULTIPLICATION SIGN} 10⁶"), (-2.5, "-2.5"),
    (0.001, "0.001"), (0.000123, "1.23 \N{MULTIPLICATION SIGN} 10⁻⁴"),
])
def test_a_number_has_three_digits(value: float, text: str) -> None:
    assert number(value) == text


@pytest.mark.parametrize(("value", "digits", "text"), [
    (4.4, 3, "4.40"), (138.2, 3, "138"), (12, 3, "12.0"), (0, 3, "0"), (0.00951, 2, "0.0095"),
    (1024.3, 3, "1,024"), (99.7, 2, "100"), (0.1, 2, "0.10"),
])
def test_a_column_keeps_its_zeros(value: float, digits: int, text: str) -> None:
    assert column(value, digits) == text


@pytest.mark.parametrize(("value", "text"), [
    (0, "0"), (0.25, "0.25"), (1024, "1,024"), (10000, "10,000"), (250000, "2.5e5"), (1e6, "1e6"),
    (0.0005, "5e-4"), (-1.5, "-1.5"),
])
def test_a_tick_is_short(value: float, text: str) -> None:
    assert tick(value) == text


def test_a_quantity_escapes_its_unit() -> None:
    assert quantity(1.5, "<ms>") == f"1.5{NBSP}&lt;ms&gt;"
    assert quantity(1.5, "") == "1.5"


@pytest.mark.parametrize(("ns", "text"), [
    (0, "0 ns"), (840, "840 ns"), (1200, "1.2 µs"), (1.5e6, "1.5 ms"), (14.2e9, "14.2 s"),
    (119e9, "119 s"), (200e9, "3 min 20 s"), (3600e9, "1 h"), (7325e9, "2 h 2 min 5 s"),
])
def test_a_duration_takes_its_unit(ns: float, text: str) -> None:
    assert duration(ns).replace(NBSP, " ") == text


@pytest.mark.parametrize(("size_bytes", "text"), [
    (0, "0 B"), (1023, "1,023 B"), (1024, "1 KiB"), (1536 << 10, "1.5 MiB"), (8 << 30, "8 GiB")])
def test_a_size_counts_in_1024(size_bytes: int, text: str) -> None:
    assert size(size_bytes).replace(NBSP, " ") == text


@pytest.mark.parametrize(("value", "text"), [
    (0.0, "0 nJ"), (2.5e-8, "25 nJ"), (7.36e-4, "736 µJ"), (0.0233, "23.3 mJ"), (1.5, "1.5 J"),
    (-0.002, "-2 mJ")])
def test_joules(value: float, text: str) -> None:
    assert joules(value).replace(NBSP, " ") == text
