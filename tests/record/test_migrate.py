from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from handtorch.record import read_run
from handtorch.record.migrate import migrate
from handtorch.record.row import Row, columns
from handtorch.record.schema import APPLICATION_ID, SCHEMA, SCHEMA_VERSION

V1 = (Path(__file__).parent / "schema_v1.sql").read_text()
ADDED = {"result": ("low", "high", "bounds"),
         "launch": ("lane", "node", "quality", "error_ns", "spared_bytes", "spared_reason"),
         "memory": ("launch",), "sample": ("error_ns",)}      # columns by table, since version 1
NEW_TABLES = ("sync", "gap", "signal", "energy", "missing")
Shape = dict[str, set[tuple[object, ...]]]


@pytest.fixture
def old() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:")) as db:
        db.executescript(f"{V1} PRAGMA user_version = 1;")
        yield db


def insert_v1(db: sqlite3.Connection, row: Row) -> None:
    names = [c.name for c in columns(type(row)) if c.name not in ADDED.get(row.TABLE, ())]
    db.execute(f"INSERT INTO {row.TABLE} ({', '.join(names)}) "
               f"VALUES ({', '.join('?' * len(names))})", [getattr(row, n) for n in names])


def shape(db: sqlite3.Connection) -> Shape:
    """Columns of every table with type, NOT NULL, default and key."""
    tables = [name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
    return {name: {row[1:] for row in db.execute(f"PRAGMA table_info({name})")} for name in tables}


def test_a_migrated_file_has_the_tables_of_a_new_one(old: sqlite3.Connection) -> None:
    with closing(sqlite3.connect(":memory:")) as new:
        new.executescript(SCHEMA)
        assert shape(old) != shape(new)
        migrate(old)
        assert shape(old) == shape(new)
    assert old.execute("PRAGMA user_version").fetchone() == (SCHEMA_VERSION,)


def test_rows_of_version_1_survive_and_get_no_bounds(
        old: sqlite3.Connection, rows: dict[str, Row]) -> None:
    insert_v1(old, rows["result"])
    migrate(old)
    assert old.execute("SELECT value, spread, low, high, bounds FROM result").fetchall() == [
        (12.5, 0.5, None, None, "")]


@pytest.mark.parametrize("change", ["low = 1", "high = 1", "bounds = 'min to max'",
                                    "low = 2, high = 1, bounds = 'min to max'"])
def test_a_migrated_file_keeps_the_new_rules(
        old: sqlite3.Connection, rows: dict[str, Row], change: str) -> None:
    insert_v1(old, rows["result"])
    migrate(old)
    with pytest.raises(sqlite3.IntegrityError, match="CHECK constraint failed"):
        old.execute(f"UPDATE result SET {change}")
    old.execute("UPDATE result SET low = 1, high = 2, bounds = 'min to max'")


def test_a_current_file_is_left_alone(old: sqlite3.Connection) -> None:
    migrate(old)
    before = shape(old)
    migrate(old)
    assert shape(old) == before


def test_read_run_reads_version_1_and_does_not_touch_the_file(
        tmp_path: Path, rows: dict[str, Row]) -> None:
    path = tmp_path / "old.htr"
    with closing(sqlite3.connect(path)) as db:
        db.executescript(f"{V1} PRAGMA user_version = 1; PRAGMA application_id = {APPLICATION_ID};")
        db.execute("INSERT INTO run VALUES ('1', 'handtorch study sgemm', '2025-11-15T12:00:00Z', "
                   "5, 'complete', '')")
        for row in rows.values():
            if row.TABLE not in NEW_TABLES:
                insert_v1(db, row)
        db.commit()
    before = path.read_bytes()
    run = read_run(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
    assert (run.results[0].value, run.results[0].low, run.results[0].bounds) == (12.5, None, "")
    assert run.launches == (
        replace(rows["launch"], lane="queue", node="", quality="stamped", error_ns=0),)
    assert run.memory == (replace(rows["memory"], launch=None),)
    assert run.syncs == () == run.gaps


@pytest.mark.parametrize("change", ["lane = ''", "quality = 'guessed'", "error_ns = -1"])
def test_launches_of_version_1_take_new_columns_and_their_rules(
        old: sqlite3.Connection, rows: dict[str, Row], change: str) -> None:
    insert_v1(old, rows["launch"])
    migrate(old)
    with pytest.raises(sqlite3.IntegrityError, match="CHECK constraint failed"):
        old.execute(f"UPDATE launch SET {change}")
    old.execute("UPDATE launch SET lane = 'host', quality = 'bounded', error_ns = 5, node = '3'")
