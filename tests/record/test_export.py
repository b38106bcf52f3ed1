from __future__ import annotations

import json
from pathlib import Path

from handtorch.record import RunWriter, read_run, to_json
from handtorch.record.row import Row


def test_one_json_record_with_every_table(tmp_path: Path, rows: dict[str, Row]) -> None:
    with RunWriter.create(tmp_path / "one.htr", "handtorch <study> µ") as writer:
        writer.add(*rows.values())
    text = to_json(read_run(tmp_path / "one.htr"))
    assert "\n" not in text
    assert text == to_json(read_run(tmp_path / "one.htr"))
    record = json.loads(text)
    assert record["schema_version"] == 5
    assert record["run"]["command"] == "handtorch <study> µ"
    assert record["devices"][0]["facts"] == {"fp16": True}
    assert record["machine"]["cpu_model"] is None
    assert record["results"][1]["value"] is None
    assert record["results"][1]["value_reason"] == "torch is not installed"
    assert set(record) == {
        "schema_version", "run", "machine", "software", "devices", "places", "comparisons",
        "clocks", "syncs", "steps", "launches", "gaps", "signals", "samples", "energies", "missing",
        "memory", "results", "published", "verdicts"}


def test_a_run_without_a_machine(tmp_path: Path) -> None:
    with RunWriter.create(tmp_path / "one.htr", "x"):
        pass
    record = json.loads(to_json(read_run(tmp_path / "one.htr")))
    assert record["machine"] is None and record["results"] == []
