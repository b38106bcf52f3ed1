"""The SQL text against the dataclasses: same columns, same types, same refusals."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from handtorch.record.row import Row, columns
from handtorch.record.rows import CHILDREN, RunInfo
from handtorch.record.schema import APPLICATION_ID, SCHEMA

SQL_TYPE = {int: "INTEGER", bool: "INTEGER", float: "REAL", str: "TEXT"}
KINDS = [RunInfo, *CHILDREN.values()]


@pytest.fixture
def db() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:")) as db:
        db.executescript(SCHEMA)
        yield db


def test_every_table_has_its_dataclass(db: sqlite3.Connection) -> None:
    tables = {name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    assert tables == {kind.TABLE for kind in KINDS}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.TABLE)
def test_columns_and_types_agree(db: sqlite3.Connection, kind: type[Row]) -> None:
    info = db.execute("SELECT name, type, \"notnull\", pk FROM pragma_table_info(?)", [kind.TABLE])
    found = [(name, sql, bool(notnull or pk)) for name, sql, notnull, pk in info]
    assert found == [(c.name, SQL_TYPE[c.type], not c.optional) for c in columns(kind)]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.TABLE)
def test_keys_and_references_agree(db: sqlite3.Connection, kind: type[Row]) -> None:
    keys = db.execute("SELECT name FROM pragma_table_info(?) WHERE pk ORDER BY pk", [kind.TABLE])
    if kind is not RunInfo:
        assert tuple(name for (name,) in keys) == (kind.KEY or ())
    refers = db.execute("SELECT \"from\", \"table\" FROM pragma_foreign_key_list(?)", [kind.TABLE])
    assert dict(refers.fetchall()) == dict(kind.REFERS)


def test_the_provenance_is_one_of_three_words_in_every_table_of_figures() -> None:
    with_word = {kind.TABLE for kind in KINDS if "provenance" in {c.name for c in columns(kind)}}
    assert with_word == {"clock", "sync", "step", "launch", "gap", "sample", "energy", "memory",
                         "result"}
    assert SCHEMA.count("IN ('measured', 'estimated', 'simulated')") == len(with_word)


def insert(db: sqlite3.Connection, row: Row, change: dict[str, Any]) -> None:
    values = {c.name: getattr(row, c.name) for c in columns(type(row))} | change
    db.execute(f"INSERT INTO {row.TABLE} ({', '.join(values)}) "
               f"VALUES ({', '.join('?' * len(values))})", list(values.values()))


@pytest.mark.parametrize(("table", "change"), [
    ("machine", {"cpu_model_reason": ""}),
    ("machine", {"memory_reason": "given though known"}),
    ("machine", {"cores": 0}),
    ("software", {"version_reason": ""}),
    ("device", {"self_test": "skipped"}),
    ("place", {"device": None}),
    ("place", {"kind": "moon"}),
    ("place", {"cores_reason": ""}),
    ("comparison", {"same_silicon": 2}),
    ("comparison", {"same_silicon": None, "same_silicon_reason": ""}),
    ("clock", {"error_ns": None}),
    ("clock", {"provenance": "guessed"}),
    ("step", {"end_ns": 99}),
    ("launch", {"end_ns": 119}),
    ("launch", {"times_reason": ""}),
    ("launch", {"flops": None}),
    ("launch", {"lane": ""}),
    ("launch", {"quality": "guessed"}),
    ("launch", {"error_ns": -1}),
    ("sync", {"error_ns": -1}),
    ("sync", {"kind": "guess"}),
    ("gap", {"cause": ""}),
    ("gap", {"end_ns": 179}),
    ("sample", {"value": None}),
    ("sample", {"value": float("nan")}),  # SQLite stores it as NULL
    ("sample", {"provenance": "published"}),
    ("memory", {"bytes": None}),
    ("memory", {"moment": "peak"}),
    ("memory", {"launch": -1}),
    ("result", {"value": None}),
    ("result", {"value_reason": "given though known"}),
    ("result", {"spread": None}),
    ("result", {"high": None}),
    ("result", {"low": 14.0}),
    ("result", {"bounds": ""}),
    ("result", {"x_name": ""}),
    ("result", {"better": "bigger"}),
    ("published", {"source": ""}),
    ("published", {"x_value": None}),
    ("verdict", {"answer": ""}),
    ("verdict", {"holds_reason": ""}),
])
def test_the_database_refuses_what_the_dataclass_refuses(
        db: sqlite3.Connection, rows: dict[str, Row], table: str, change: dict[str, Any]) -> None:
    with pytest.raises(sqlite3.IntegrityError, match="constraint failed"):
        insert(db, rows[table], change)
    insert(db, rows[table], {})  # and nothing else was wrong with it


def test_the_application_id_fits_sqlites_header() -> None:
    assert 0 < APPLICATION_ID < 2**31
