from __future__ import annotations

from dataclasses import FrozenInstanceError, fields, replace
from typing import Any

import pytest

from handtorch.errors import BadInput
from handtorch.record.row import Row, columns
from handtorch.record.rows import CHILDREN, Run, RunInfo

INFO = {"id": "1", "command": "handtorch devices", "started_utc": "2026-01-01T00:00:00+00:00"}


@pytest.mark.parametrize(("table", "change", "why"), [
    ("machine", {"cpu_model_reason": ""}, "cpu_model is unknown and cpu_model_reason does not say"),
    ("machine", {"cores": 0}, "cores is 0, less than 1"),
    ("software", {"version_reason": ""}, "version is unknown and version_reason does not say why"),
    ("device", {"facts": "{"}, "facts is not JSON: Expecting property name"),
    ("device", {"facts": "[]"}, "facts is not a JSON object"),
    ("device", {"self_test": "skipped"}, "self_test is 'skipped', not one of passed, failed, not"),
    ("place", {"device": None}, "kind is 'device' and device is None"),
    ("place1", {"device": 1}, "kind is 'host cpu' and device is 1"),
    ("comparison", {"same_silicon": None, "same_silicon_reason": ""},
     "same_silicon is unknown and same_silicon_reason does not say why"),
    ("clock", {"error_ns": None}, "error_ns is unknown and offset_reason does not say why"),
    ("step", {"end_ns": 99}, "it ends at 99 ns, before it starts at 100 ns"),
    ("launch", {"end_ns": 119}, "it ends at 119 ns, before it starts at 120 ns"),
    ("launch", {"times_reason": ""}, "queued_ns is unknown and times_reason does not say why"),
    ("launch", {"work_reason": "?"}, "work_reason is given, yet flops and moved_bytes known"),
    ("launch", {"lane": ""}, "lane is empty"),
    ("sync", {"error_ns": -1}, "error_ns is -1, less than 0"),
    ("gap", {"cause": ""}, "it has no cause"),
    ("gap", {"end_ns": 179}, "it ends at 179 ns, before it starts at 180 ns"),
    ("memory", {"moment": "peak"}, "moment is 'peak' and launch is 3"),
    ("sample", {"value": None}, "value is unknown and value_reason does not say why"),
    ("memory", {"bytes": -1}, "bytes is -1, less than 0"),
    ("published", {"source": ""}, "source does not say where it was printed"),
    ("published", {"x_name": ""}, "x_name and x_value go together"),
    ("verdict", {"answer": ""}, "the answer is empty"),
    ("verdict", {"holds_reason": ""}, "holds is unknown and holds_reason does not say why"),
])
def test_each_table_refuses_its_own_faults(
        rows: dict[str, Row], table: str, change: dict[str, Any], why: str) -> None:
    with pytest.raises(BadInput) as caught:
        replace(rows[table], **change)  # type: ignore[type-var]
    assert caught.value.why.startswith(why)


@pytest.mark.parametrize("change", [
    {"status": "complete"},
    {"duration_ns": 5},
    {"status": "failed", "duration_ns": 5},
    {"status_reason": "why not"},
])
def test_a_run_says_how_it_ended_when_it_ended(change: dict[str, Any]) -> None:
    with pytest.raises(BadInput, match="status is"):
        RunInfo(**INFO | change)


def test_rows_are_frozen(rows: dict[str, Row]) -> None:
    for row in rows.values():
        with pytest.raises(FrozenInstanceError):
            setattr(row, columns(type(row))[0].name, None)


def test_a_run_holds_every_table(rows: dict[str, Row]) -> None:
    assert [f.name for f in fields(Run)] == ["info", *CHILDREN]
    assert {type(row) for row in rows.values()} == set(CHILDREN.values())
