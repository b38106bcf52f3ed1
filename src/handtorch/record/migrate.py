"""Older run files brought to the current schema, one version at a time.

Runs on a copy in memory: a run file on disk is never rewritten by reading it.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from handtorch.record.schema import SCHEMA_VERSION


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
