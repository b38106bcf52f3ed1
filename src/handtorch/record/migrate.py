"""Older run files brought to the current schema, one version at a time.

Runs on a copy in memory: a run file on disk is never rewritten by reading it.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from handtorch.record.schema import PROVENANCE, SCHEMA_VERSION


@dataclass(frozen=True)
class Migration:
    """The statements that turn version `to - 1` into version `to`."""

    to: int
    why: str
    statements: tuple[str, ...]


MIGRATIONS = (
    Migration(2, "a result carries bounds and says what they are", (
        "ALTER TABLE result ADD COLUMN low REAL",
        "ALTER TABLE result ADD COLUMN high REAL"
        " CHECK ((low IS NULL) = (high IS NULL) AND (low IS NULL OR low <= high))",
        "ALTER TABLE result ADD COLUMN bounds TEXT NOT NULL DEFAULT ''"
        " CHECK ((bounds = '') = (low IS NULL))",
    )),
    Migration(3, "a profile: clocks that drift, gaps with a cause, memory over a step", (
        "CREATE TABLE sync ("
        " clock TEXT NOT NULL REFERENCES clock (name), device_ns INTEGER NOT NULL,"
        " monotonic_ns INTEGER NOT NULL, error_ns INTEGER NOT NULL CHECK (error_ns >= 0),"
        " kind TEXT NOT NULL CHECK (kind IN ('timer', 'write', 'events')),"
        f" {PROVENANCE})",
        "CREATE TABLE gap ("
        " step INTEGER NOT NULL REFERENCES step (id),"
        " number INTEGER NOT NULL CHECK (number >= 0),"
        " cause TEXT NOT NULL CHECK (cause <> ''),"
        " clock TEXT NOT NULL REFERENCES clock (name),"
        f" start_ns INTEGER NOT NULL, end_ns INTEGER NOT NULL, {PROVENANCE},"
        " CHECK (start_ns <= end_ns), PRIMARY KEY (step, number))",
        "ALTER TABLE launch ADD COLUMN lane TEXT NOT NULL DEFAULT 'queue' CHECK (lane <> '')",
        "ALTER TABLE launch ADD COLUMN node TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE launch ADD COLUMN quality TEXT NOT NULL DEFAULT 'stamped'"
        " CHECK (quality IN ('stamped', 'bounded'))",
        "ALTER TABLE launch ADD COLUMN error_ns INTEGER NOT NULL DEFAULT 0 CHECK (error_ns >= 0)",
        "ALTER TABLE memory ADD COLUMN launch INTEGER"
        " CHECK (launch >= 0 AND moment = 'launch' OR launch IS NULL)",
    )),
    Migration(4, "signals and how they are read, joules, and what was not sensed", (
        "CREATE TABLE signal ("
        " meter TEXT NOT NULL,"
        " quantity TEXT NOT NULL,"
        " kind TEXT NOT NULL CHECK (kind IN ('instant', 'window', 'lowpass', 'counter', 'gauge')),"
        " part TEXT NOT NULL,"
        " parent TEXT NOT NULL,"
        " every_ns INTEGER NOT NULL CHECK (every_ns >= 0),"
        " span_ns INTEGER NOT NULL CHECK (span_ns >= 0),"
        " step REAL NOT NULL CHECK (step >= 0),"
        " wraps_at REAL,"
        " basis TEXT NOT NULL CHECK (basis IN ('captured', 'documented')),"
        " source TEXT NOT NULL,"
        " PRIMARY KEY (meter, quantity)"
        " )",
        "ALTER TABLE sample ADD COLUMN error_ns INTEGER NOT NULL DEFAULT 0 CHECK (error_ns >= 0)",
        "CREATE TABLE energy ("
        " place TEXT NOT NULL REFERENCES place (name),"
        " subject TEXT NOT NULL,"
        " meter TEXT NOT NULL,"
        " quantity TEXT NOT NULL,"
        " level TEXT NOT NULL CHECK (level IN ("
        " 'rail', 'idle', 'unattributed', 'step', 'phase', 'layer', 'op')),"
        " name TEXT NOT NULL,"
        " instances INTEGER NOT NULL CHECK (instances >= 0),"
        " seconds REAL NOT NULL CHECK (seconds >= 0),"
        " readings INTEGER NOT NULL CHECK (readings >= 0),"
        " total_j REAL,"
        " total_reason TEXT NOT NULL,"
        " low_j REAL,"
        " high_j REAL,"
        " dynamic_j REAL,"
        " dynamic_reason TEXT NOT NULL,"
        " how TEXT NOT NULL CHECK (how <> ''),"
        f" {PROVENANCE},"
        " CHECK ((low_j IS NULL) = (high_j IS NULL) AND (low_j IS NULL OR low_j <= high_j)),"
        " CHECK ((total_j IS NULL) = (total_reason <> '')),"
        " CHECK ((dynamic_j IS NULL) = (dynamic_reason <> '')),"
        " PRIMARY KEY (place, subject, meter, quantity, level, name)"
        " )",
        "CREATE TABLE missing ("
        " source TEXT NOT NULL,"
        " why TEXT NOT NULL CHECK (why <> ''),"
        " fix TEXT NOT NULL,"
        " time_ns INTEGER"
        " )",
    )),
    Migration(5, "what two launches in a row would not move as one", (
        "ALTER TABLE launch ADD COLUMN spared_bytes INTEGER CHECK (spared_bytes >= 0)",
        "ALTER TABLE launch ADD COLUMN spared_reason TEXT NOT NULL DEFAULT 'not worked out'"
        " CHECK ((spared_bytes IS NULL) = (spared_reason <> ''))",
    )),
)
assert [m.to for m in MIGRATIONS] == list(range(2, SCHEMA_VERSION + 1)), "a version lacks its step"


def migrate(db: sqlite3.Connection) -> None:
    """Bring `db`, of any version from 1 on, to SCHEMA_VERSION; a current one is left alone."""
    (version,) = db.execute("PRAGMA user_version").fetchone()
    for migration in MIGRATIONS[version - 1:]:
        for statement in migration.statements:
            db.execute(statement)
        db.execute(f"PRAGMA user_version = {migration.to}")
    db.commit()
