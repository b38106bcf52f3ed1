"""A look at a run file without reading all of it: how it stands, and what is new since last time.

For lists of many runs, and for who follows a run while it is being written."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from handtorch.errors import StorageError
from handtorch.record.read import check_header, check_version, load_info, load_rows, read_run
from handtorch.record.rows import Result, RunInfo, Verdict
from handtorch.record.schema import SCHEMA_VERSION

_WAIT_S = 2.0               # for a writer that is just at it


@dataclass(frozen=True)
class Glance:
    """How a run stands; `results` and `verdicts` are those that were asked for, in order."""

    info: RunInfo
    result_count: int
    verdict_count: int
    results: tuple[Result, ...] = ()
    verdicts: tuple[Verdict, ...] = ()


def glance(path: Path, results_after: int = 0, verdicts_after: int = 0, most: int = 0) -> Glance:
    """Counts, and up to `most` rows of each kind after the first so many.

    Damaged pages that hold other rows are not noticed: `read_run` does that."""
    check_header(path)
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True,
                                     timeout=_WAIT_S)) as db:
            db.execute("BEGIN")                 # one state of the file, whatever is written next
            if check_version(path, db) == SCHEMA_VERSION:
                return Glance(load_info(path, db), _count(db, "result"), _count(db, "verdict"),
                              tuple(load_rows(path, db, Result, results_after, most)),
                              tuple(load_rows(path, db, Verdict, verdicts_after, most)))
    except sqlite3.OperationalError as e:
        if not path.with_name(f"{path.name}-journal").exists():
            raise _unreadable(path, e) from e
        # Its writer was killed inside a transaction: `read_run` undoes that half on a copy.
    except sqlite3.Error as e:
        raise _unreadable(path, e) from e
    run = read_run(path)                        # older schemas too
    return Glance(run.info, len(run.results), len(run.verdicts),
                  run.results[results_after:results_after + most],
                  run.verdicts[verdicts_after:verdicts_after + most])


def _count(db: sqlite3.Connection, table: str) -> int:
    (found,) = db.execute(f"SELECT count(*) FROM {table}").fetchone()
    return int(found)


def _unreadable(path: Path, error: sqlite3.Error) -> StorageError:
    return StorageError(f"run file {path}", why=str(error),
                        fix="it is damaged; use another copy, or run the command again")
