"""`read_run`: a run file back as frozen rows, or a refusal that says what the file is instead."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from shutil import copyfile
from typing import Any, TypeVar

from handtorch.errors import BadInput, StorageError
from handtorch.record.migrate import migrate
from handtorch.record.row import Row, columns
from handtorch.record.rows import CHILDREN, Machine, Run, RunInfo
from handtorch.record.schema import APPLICATION_ID, SCHEMA_VERSION

_MAGIC = b"SQLite format 3\0"
_DAMAGED = "it is damaged; use another copy, or run the command again"
AnyRow = TypeVar("AnyRow", bound=Row)


def read_run(path: str | Path) -> Run:
    """The run in `path`, whatever version wrote it; the file itself is not touched.

    Every row is checked again as it is read. Holds the whole run in memory, twice for a moment."""
    path = Path(path)
    check_header(path)
    try:
        with closing(_into_memory(path)) as db:
            check_version(path, db)
            _check_pages(path, db)
            migrate(db)
            return _load(path, db)
    except sqlite3.Error as error:
        raise StorageError(f"run file {path}", why=str(error), fix=_DAMAGED) from error


def check_header(path: Path) -> None:
    """Refuse what is no SQLite file, or is shorter than its own header says."""
    what = f"run file {path}"
    try:
        with path.open("rb") as file:
            head = file.read(100)
            size = file.seek(0, 2)
    except OSError as error:
        raise StorageError(what, why=error.strerror or str(error),
                           fix="name a .htr file; runs lie in the folder HANDTORCH_RUNS") from error
    if not head.startswith(_MAGIC):
        begins = f"it begins with {head[:8]!r}" if head else "it is empty"
        raise StorageError(what, why=f"not a run file: {begins}", fix="name a .htr file")
    page_bytes = int.from_bytes(head[16:18], "big")
    page_bytes = 65536 if page_bytes == 1 else page_bytes  # SQLite's spelling of 64 KiB
    whole = page_bytes * int.from_bytes(head[28:32], "big")
    if len(head) < 100 or size < whole:
        raise StorageError(what, why=f"cut short: {size} of {whole} bytes", fix=_DAMAGED)


def _into_memory(path: Path) -> sqlite3.Connection:
    """A consistent copy in memory; works while a writer is at it, and after a writer was killed."""
    memory = sqlite3.connect(":memory:")
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as db:
            db.backup(memory)
    except sqlite3.OperationalError:
        journal = path.with_name(f"{path.name}-journal")
        if not journal.exists():
            memory.close()
            raise
        # A writer was killed inside a transaction. Undoing its half means writing, so on a copy.
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder) / "run.htr"
            copyfile(path, copy)
            copyfile(journal, f"{copy}-journal")
            with closing(sqlite3.connect(copy)) as db:
                db.backup(memory)
    return memory


def check_version(path: Path, db: sqlite3.Connection) -> int:
    """The version of its schema; refuses other people's databases and versions to come."""
    what = f"run file {path}"
    (application,) = db.execute("PRAGMA application_id").fetchone()
    if application != APPLICATION_ID:
        raise StorageError(what, why="an SQLite file of another application",
                           fix="name a .htr file")
    (version,) = db.execute("PRAGMA user_version").fetchone()
    if version > SCHEMA_VERSION:
        raise StorageError(what, why=f"its schema is version {version}, this HandTorch reads up to "
                           f"{SCHEMA_VERSION}", fix="upgrade HandTorch")
    if version < 1:
        raise StorageError(what, why=f"its schema is version {version}", fix=_DAMAGED)
    return int(version)


def _check_pages(path: Path, db: sqlite3.Connection) -> None:
    (found,) = db.execute("PRAGMA quick_check(1)").fetchone()
    if found != "ok":
        raise StorageError(f"run file {path}", why=found, fix=_DAMAGED)


def _load(path: Path, db: sqlite3.Connection) -> Run:
    info = load_info(path, db)
    tables: dict[str, Any] = {name: tuple(load_rows(path, db, kind))
                              for name, kind in CHILDREN.items() if kind is not Machine}
    machine = next(load_rows(path, db, Machine), None)
    return Run(info=info, machine=machine, **tables)


def load_info(path: Path, db: sqlite3.Connection) -> RunInfo:
    infos = tuple(load_rows(path, db, RunInfo))
    if len(infos) != 1:
        raise StorageError(f"run file {path}", why=f"table run has {len(infos)} rows, not one",
                           fix=_DAMAGED)
    return infos[0]


def load_rows(path: Path, db: sqlite3.Connection, kind: type[AnyRow], after: int = 0,
              most: int = -1) -> Iterator[AnyRow]:
    """Rows in the order in which they were written, at most so many, without the first `after`."""
    fields = columns(kind)
    flags = [f.name for f in fields if f.type is bool]
    names = [f.name for f in fields]
    query = f"SELECT {', '.join(names)} FROM {kind.TABLE} ORDER BY rowid LIMIT {most:d} "
    query += f"OFFSET {after:d}"
    for number, values in enumerate(db.execute(query), after + 1):
        made = dict(zip(names, values, strict=True))
        for flag in flags:  # SQLite has no booleans: 0, 1 or NULL
            made[flag] = bool(made[flag]) if made[flag] in (0, 1) else made[flag]
        try:
            yield kind(**made)
        except BadInput as error:
            raise StorageError(f"run file {path}", why=f"row {number}: {error}",
                               fix=_DAMAGED) from error
