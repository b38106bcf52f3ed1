"""Rows as a run, and a run as a file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from handtorch.errors import StorageError
from handtorch.profile.rows import as_run, write_run
from handtorch.record import Clock, RunInfo, read_run

INFO = RunInfo(id="1", command="handtorch profile", started_utc="2026-01-02T03:04:05.678+00:00",
               duration_ns=7_000_000_000, status="complete")
CLOCK = Clock(name="a", offset_ns=0, error_ns=0, provenance="measured")


def test_rows_of_all_tables_keep_their_order(tmp_path: Path) -> None:
    run = as_run(INFO, [replace(CLOCK, name="b"), CLOCK])
    assert [c.name for c in run.clocks] == ["b", "a"] and run.machine is None
    write_run(run, tmp_path / "a.htr")
    assert read_run(tmp_path / "a.htr") == run      # not when and how long it was written
    with pytest.raises(StorageError):
        write_run(run, tmp_path / "a.htr")
