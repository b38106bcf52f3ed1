"""Chrome's JSON: valid, exact to the nanosecond, every row there."""

from __future__ import annotations

import gzip
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

from handtorch.report import write_chrome
from tests.report.profiled import T0, profiled_run


def events(path: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    record = json.loads(data, parse_float=Decimal)
    return record["otherData"], record["traceEvents"]


def test_launches_steps_and_gaps_are_spans(tmp_path: Path) -> None:
    about, found = events(write_chrome(profiled_run(), tmp_path / "t.json"))
    assert about["first_ns"] == T0 and about["left_out"] == 1
    assert about["command"] == "handtorch profile \u2028 mlp"
    spans = [e for e in found if e["ph"] == "X"]
    assert len(spans) == 2 + 8 + 4                   # of 9 launches one has no time
    (sgd, _) = (e for e in spans if e["name"] == "sgd")
    assert (sgd["ts"], sgd["dur"], sgd["cat"]) == (
        Decimal("600.001"), Decimal("299.999"), "optimizer")
    assert sgd["args"] == {"op": "matmul", "layer": "fc1", "line": 'train.py:41  p = "é"',
                           "flops": 2000}
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in found if e["name"] == "thread_name"}
    assert names[sgd["pid"], sgd["tid"]] == "queue 2"


def test_memory_and_meters_are_counters(tmp_path: Path) -> None:
    _, found = events(write_chrome(profiled_run(), tmp_path / "t.json.gz"))
    levels = [(e["name"], e["ts"], e["args"]["value"]) for e in found if e["ph"] == "C"]
    assert ("memory: gradients", Decimal("400.000"), 1 << 40) in levels
    assert ("process process_cpu_s", Decimal("0.020"), Decimal("0.5")) in levels
