"""`RunWriter`: one run into one `.htr` file.

It works in `NAME.htr.XXXXXXXX.part` beside the target and renames that when it closes, so what
bears the final name is always whole. After a power cut or SIGKILL the `.part` file holds every row
up to the last `flush`; `read_run` reads it too, and finds its status still `running`.
"""

from __future__ import annotations

import os
import sqlite3
import time
import uuid
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from handtorch.errors import BadInput, StorageError
from handtorch.record.row import Row, columns
from handtorch.record.rows import CHILDREN, RunInfo, Status
from handtorch.record.schema import APPLICATION_ID, SCHEMA, SCHEMA_VERSION

_BATCH_ROWS = 5000  # rows held back before they are written in one transaction


class RunWriter:
    """Writes one run. Use as a context manager: however the block ends, the file is saved whole.

    A row is checked when added (what it refers to must have been added before), written in
    batches, and safe on disk after `flush`. Call `flush` between measurements, never inside one:
    it waits for the disk. If a write fails, the rows not yet written are kept for the next try."""

    def __init__(self, path: Path, info: RunInfo) -> None:
        self.path = path
        self.part = path.with_name(f"{path.name}.{info.id[:8]}.part")
        self.info = info
        self._began_ns = time.monotonic_ns()
        self._took_ns: int | None = None        # of a run that is over
        self._waiting: list[Row] = []
        self._keys: dict[str, set[tuple[object, ...]]] = defaultdict(set)
        self._register(info)
        _create_empty(self.part, path)
        # Autocommit: each transaction is begun and ended by `_insert`, in sight.
        self._db = sqlite3.connect(self.part, isolation_level=None)
        try:
            self._db.executescript(
                f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {SCHEMA_VERSION};"
                f"PRAGMA foreign_keys = ON; BEGIN; {SCHEMA} COMMIT;")
            self._insert([info])
        except sqlite3.Error as error:
            self._db.close()
            self.part.unlink()
            raise StorageError(f"run file {path}", why=f"cannot be created: {error}",
                               fix="make room, or choose another folder") from error

    @classmethod
    def create(cls, path: str | Path, command: str, *, replace: bool = False) -> Self:
        """A writer for a new run; makes the folder if needed and refuses an existing target unless
        told to replace it. The target appears when the writer closes."""
        path = Path(path)
        if not replace:
            _refuse_existing(path)
        # Arguments of a command line may hold bytes that are no text; they must not stop a run.
        text = command.encode("utf-8", "backslashreplace").decode()
        return cls(path, RunInfo(id=uuid.uuid4().hex, command=text,
                                 started_utc=datetime.now(UTC).isoformat(timespec="milliseconds")))

    @classmethod
    def of_past(cls, path: str | Path, info: RunInfo) -> Self:
        """A writer for a run that is over: the file has its id, its start and how long it took."""
        path = Path(path)
        _refuse_existing(path)
        made = cls(path, replace(info, status="running", status_reason="", duration_ns=None))
        made._took_ns = info.duration_ns
        return made

    def add(self, *rows: Row) -> None:
        """Take rows in; they reach the disk with the next flush, at the latest after 5000 rows."""
        for row in rows:
            self._register(row)
            self._waiting.append(row)
        if len(self._waiting) >= _BATCH_ROWS:
            self.flush()

    def flush(self) -> None:
        """All rows added so far are on disk afterwards, in one transaction."""
        if not self._waiting:
            return
        try:
            self._insert(self._waiting)
        except sqlite3.Error as error:
            raise self._failure(error) from error
        self._waiting.clear()

    def close(self, status: Status = "complete", reason: str = "") -> None:
        """Write what is left, say how the run ended, and give the file its final name."""
        took_ns = time.monotonic_ns() - self._began_ns if self._took_ns is None else self._took_ns
        info = replace(self.info, status=status, status_reason=reason, duration_ns=took_ns)
        self.flush()
        try:
            self._db.execute("UPDATE run SET status = ?, status_reason = ?, duration_ns = ?",
                             (info.status, info.status_reason, info.duration_ns))
            self._db.close()
            os.replace(self.part, self.path)
        except (sqlite3.Error, OSError) as error:
            raise self._failure(error) from error
        self.info = info

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        if self.info.status != "running":  # closed by hand inside the block
            return
        try:
            self.close(*_ending(error))
        finally:
            self._db.close()

    def _register(self, row: Row) -> None:
        """Remember the row's key; refuse a second one, and a reference to what is not there."""
        what = f"record {row.TABLE}"
        for field, table in row.REFERS.items():
            name = getattr(row, field)
            if name is not None and (name,) not in self._keys[table]:
                raise BadInput(what, why=f"{field} {name!r} is no {table} of this run",
                               fix=f"add the {table} first")
        if row.KEY is not None:
            key = tuple(getattr(row, field) for field in row.KEY)
            if key in self._keys[row.TABLE]:
                shown = ", ".join(f"{f}={k!r}" for f, k in zip(row.KEY, key, strict=True))
                raise BadInput(what, why=f"{shown or 'a row'} was added before")
            self._keys[row.TABLE].add(key)

    def _insert(self, rows: Sequence[Row]) -> None:
        """Rows grouped by table, in an order in which references come first; all or nothing."""
        order: list[type[Row]] = [RunInfo, *CHILDREN.values()]
        groups: dict[type[Row], list[Row]] = {kind: [] for kind in order}
        for row in rows:
            groups[type(row)].append(row)
        self._db.execute("BEGIN")
        try:
            for kind, same in groups.items():
                names = [c.name for c in columns(kind)]
                self._db.executemany(
                    f"INSERT INTO {kind.TABLE} ({', '.join(names)}) "
                    f"VALUES ({', '.join('?' * len(names))})",
                    ([getattr(row, name) for name in names] for row in same))
            self._db.execute("COMMIT")
        except BaseException:  # Ctrl-C too must not leave the transaction open
            if self._db.in_transaction:  # a full disk may have ended it already
                self._db.execute("ROLLBACK")
            raise

    def _failure(self, error: sqlite3.Error | OSError) -> StorageError:
        return StorageError(
            f"run file {self.path}", why=f"cannot be written: {error}",
            fix=f"make room; the rows written before are safe in {self.part}")


def _refuse_existing(path: Path) -> None:
    if os.path.lexists(path):                   # False, not an error, where we may not look
        raise StorageError(f"run file {path}", why="it already exists",
                           fix="choose another name, or remove it first")


def _create_empty(part: Path, path: Path) -> None:
    """Make the folder and the file through the system's own calls: SQLite hides the reason."""
    try:
        part.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    except OSError as error:
        raise StorageError(f"run file {path}", why=f"cannot be created: {error.strerror}",
                           fix="choose a folder you may write to, with --out or HANDTORCH_RUNS"
                           ) from error


def _ending(error: BaseException | None) -> tuple[Status, str]:
    """How a run ended, told from the exception that left its block."""
    if error is None or (isinstance(error, SystemExit) and not error.code):
        return "complete", ""
    if isinstance(error, KeyboardInterrupt):
        return "interrupted", str(error) or "stopped from the keyboard"
    first = str(error).partition("\n")[0]
    text = f"{type(error).__name__}: {first}" if first else type(error).__name__
    return "failed", text.encode("utf-8", "backslashreplace").decode()
