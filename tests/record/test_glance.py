from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from handtorch.errors import StorageError
from handtorch.record import Result, RunWriter, Verdict, read_run
from handtorch.record.glance import glance
from handtorch.record.schema import APPLICATION_ID, SCHEMA_VERSION


def figure(number: int) -> Result:
    return Result(study="s", name="rate", subject="a", x_name="n", x_value=number, value=1.0,
                  unit="x", better="higher", repeats=1, provenance="measured")


def test_a_run_that_is_being_written_row_by_row(tmp_path: Path) -> None:
    with RunWriter.create(tmp_path / "run.htr", "handtorch study s") as record:
        seen = glance(record.part)
        assert (seen.info.status, seen.result_count, seen.results) == ("running", 0, ())
        record.add(*map(figure, range(5)))
        record.flush()
        seen = glance(record.part, 3, most=10)
        assert seen.result_count == 5 and [r.x_value for r in seen.results] == [3, 4]
        record.add(Verdict(study="s", question="?", answer="Yes.", holds=True), figure(5))
        record.flush()
        seen = glance(record.part, 5, 0, most=1)
        assert ([r.x_value for r in seen.results], [v.answer for v in seen.verdicts]) == (
            [5], ["Yes."])
    assert glance(tmp_path / "run.htr").info.status == "complete"


def test_a_writer_in_the_middle_of_a_transaction_does_not_hide_the_rest(tmp_path: Path) -> None:
    with RunWriter.create(tmp_path / "run.htr", "c") as record:
        record.add(figure(0))
        record.flush()
        with closing(sqlite3.connect(record.part, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            other.execute("DELETE FROM result")
            assert glance(record.part, most=5).result_count == 1
            other.execute("ROLLBACK")


def test_an_older_file_is_seen_as_it_reads(tmp_path: Path) -> None:
    path = tmp_path / "old.htr"
    with closing(sqlite3.connect(path)) as db:
        db.executescript(Path(__file__).with_name("schema_v1.sql").read_text())
        db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        db.execute("PRAGMA user_version = 1")
        db.execute("INSERT INTO run VALUES ('1', 'c', '2025-01-01', 5, 'complete', '')")
        db.commit()
    assert glance(path).info == read_run(path).info


@pytest.mark.parametrize(("data", "said"), [
    (None, "No such file"), (b"", "it is empty"), (b"<html>", "not a run file"),
    (b"SQLite format 3\0", "cut short")])
def test_what_is_no_run_file_is_refused(tmp_path: Path, data: bytes | None, said: str) -> None:
    path = tmp_path / "run.htr"
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(StorageError, match=said):
        glance(path)


def test_a_newer_schema_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.htr"
    RunWriter.create(path, "c").close()
    with closing(sqlite3.connect(path)) as db:
        db.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    with pytest.raises(StorageError, match="upgrade HandTorch"):
        glance(path)
