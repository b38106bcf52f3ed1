"""A run as one JSON record: what `--json` prints."""

from __future__ import annotations

import json
from dataclasses import asdict

from handtorch.record.rows import Run
from handtorch.record.schema import SCHEMA_VERSION


def to_json(run: Run) -> str:
    """One JSON object on one line; keys are the table and column names, unknown is null.

    Equal runs give equal text. A device's `facts` stand in it as an object, not as text."""
    tables = asdict(run)
    for device in tables["devices"]:
        device["facts"] = json.loads(device["facts"])
    return json.dumps({"schema_version": SCHEMA_VERSION, "run": tables.pop("info"), **tables},
                      allow_nan=False, ensure_ascii=False)
