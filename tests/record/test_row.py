from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from handtorch.errors import BadInput
from handtorch.record.row import Column, Row, columns
from handtorch.record.rows import Comparison, Result

GFLOPS = "record result(study='sgemm', name='gflops', subject='naive'): "


def test_columns_come_from_the_annotations() -> None:
    first, second, same, reason = columns(Comparison)
    assert first == Column("first", str, False, ())
    assert second.name == "second"
    assert same == Column("same_silicon", bool, True, ())
    assert reason.optional is False
    words = next(c.words for c in columns(Result) if c.name == "provenance")
    assert words == ("measured", "estimated", "simulated")


@pytest.mark.parametrize(("field", "value", "why"), [
    ("provenance", "guessed", "provenance is 'guessed', not one of measured, estimated, simulated"),
    ("value", float("nan"), "value is nan; unknown is None and a reason"),
    ("value", float("-inf"), "value is -inf; unknown is None and a reason"),
    ("value", "12", "value is str '12', not float"),
    ("value", True, "value is bool True, not float"),
    ("value", None, "value is unknown and value_reason does not say why"),
    ("value_reason", "too slow", "value_reason is given, yet value known"),
    ("repeats", 2.0, "repeats is float 2.0, not int"),
    ("repeats", 2**63, "repeats is 9223372036854775808, which does not fit 64 bits"),
    ("repeats", -1, "repeats is -1, less than 0"),
    ("unit", None, "unit is missing"),
    ("unit", "\udc80", "unit is '\\udc80', which is not valid Unicode"),
    ("spread", None, "the median of 500 repeats needs its spread"),
    ("high", None, "low, high and bounds go together"),
    ("bounds", "", "low, high and bounds go together"),
    ("low", 14.0, "low 14.0 is above high 13.0"),
    ("x_value", None, "x_name and x_value go together"),
])
def test_a_bad_field_is_refused_where_the_row_is_made(
        rows: dict[str, Row], field: str, value: Any, why: str) -> None:
    with pytest.raises(BadInput) as caught:
        replace(rows["result"], **{field: value})  # type: ignore[type-var]
    assert str(caught.value) == GFLOPS + why


def test_an_integer_may_stand_where_a_float_is_asked(rows: dict[str, Row]) -> None:
    assert replace(rows["result"], value=12).value == 12  # type: ignore[type-var]


def test_text_beyond_ascii_is_fine(rows: dict[str, Row]) -> None:
    assert replace(rows["result"], unit="µs").unit == "µs"  # type: ignore[type-var]
