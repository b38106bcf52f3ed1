from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from handtorch.errors import StorageError
from handtorch.record import RunWriter, read_run
from handtorch.record.row import Row
from handtorch.record.schema import APPLICATION_ID

DAMAGED = "\n  try: it is damaged; use another copy, or run the command again"


@pytest.fixture
def path(tmp_path: Path, rows: dict[str, Row]) -> Path:
    """A good file of one run."""
    with RunWriter.create(tmp_path / "one.htr", "x") as writer:
        writer.add(*rows.values())
    return tmp_path / "one.htr"


def refusal(path: Path) -> str:
    with pytest.raises(StorageError) as caught:
        read_run(path)
    assert not path.is_file() or list(path.parent.iterdir()) == [path]  # left nothing behind
    return str(caught.value).removeprefix(f"run file {path}: ")


def test_no_such_file(tmp_path: Path) -> None:
    assert refusal(tmp_path / "none.htr") == (
        "No such file or directory\n"
        "  try: name a .htr file; runs lie in the folder HANDTORCH_RUNS")


def test_a_folder(tmp_path: Path) -> None:
    assert refusal(tmp_path).startswith("Is a directory\n")


def test_an_empty_file(path: Path) -> None:
    path.write_bytes(b"")
    assert refusal(path) == "not a run file: it is empty\n  try: name a .htr file"


def test_a_file_of_another_format(path: Path) -> None:
    path.write_bytes(b"\x89PNG\r\n\x1a\n" * 100)
    assert refusal(path) == ("not a run file: it begins with b'\\x89PNG\\r\\n\\x1a\\n'\n"
                             "  try: name a .htr file")


def test_somebody_elses_database(path: Path) -> None:
    path.unlink()
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE result (value)")
    assert refusal(path) == ("an SQLite file of another application\n  try: name a .htr file")


@pytest.mark.parametrize("kept_bytes", [16, 99, 100, 4096, 8192, -1])
def test_a_truncated_file(path: Path, kept_bytes: int) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole[:kept_bytes])
    size = kept_bytes % len(whole)
    assert refusal(path) == f"cut short: {size} of {len(whole) if size > 31 else 0} bytes{DAMAGED}"


def test_pages_of_64_kib_whose_size_sqlite_writes_as_1(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.executescript("PRAGMA page_size = 65536; VACUUM;")
    whole = path.read_bytes()
    assert whole[16:18] == b"\x00\x01" and read_run(path).info.command == "x"
    path.write_bytes(whole[:-65536])
    assert refusal(path) == f"cut short: {len(whole) - 65536} of {len(whole)} bytes{DAMAGED}"


def test_every_damaged_page_is_noticed_or_harmless(path: Path) -> None:
    """Zeroes over one page at a time: a refusal, or (a page without data) the same run."""
    whole, good = path.read_bytes(), read_run(path)
    refused = 0
    for at in range(4096, len(whole), 4096):
        path.write_bytes(whole[:at] + bytes(4096) + whole[at + 4096:])
        try:
            assert read_run(path) == good
        except StorageError as error:
            assert str(error).endswith(DAMAGED)
            refused += 1
    assert refused >= 16  # at least each table's own page


def test_noise_after_the_header(path: Path) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole[:100] + b"\xa5" * (len(whole) - 100))
    assert refusal(path) == f"database disk image is malformed{DAMAGED}"


def test_a_version_to_come(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA user_version = 99")
    assert refusal(path) == ("its schema is version 99, this HandTorch reads up to 5\n"
                             "  try: upgrade HandTorch")


def test_our_mark_without_a_version(path: Path) -> None:
    path.unlink()
    with closing(sqlite3.connect(path)) as db:
        db.executescript(f"PRAGMA application_id = {APPLICATION_ID}; CREATE TABLE run (id);")
    assert refusal(path) == f"its schema is version 0{DAMAGED}"


@pytest.mark.parametrize(("sql", "why"), [
    ("DROP TABLE verdict", "no such table: verdict"),
    ("ALTER TABLE result RENAME COLUMN unit TO units", "no such column: unit"),
    ("DELETE FROM run", "table run has 0 rows, not one"),
    ("INSERT INTO run SELECT 'two', command, started_utc, duration_ns, status, status_reason "
     "FROM run", "table run has 2 rows, not one"),
    ("PRAGMA ignore_check_constraints = 1; UPDATE result SET provenance = 'guessed'",
     "CHECK constraint failed in result"),
    ("UPDATE result SET value = 'many' WHERE value IS NOT NULL",
     "row 1: record result(study='sgemm', name='gflops', subject='naive'): "
     "value is str 'many', not float"),
    ("UPDATE device SET facts = '['", "row 1: record device(name='Adreno 640', vendor='QUALCOMM', "
     "platform='Snapdragon'): facts is not JSON: Expecting value: line 1 column 2 (char 1)"),
])
def test_a_file_altered_by_hand(path: Path, sql: str, why: str) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.executescript(sql)
    assert refusal(path) == f"{why}{DAMAGED}"


def test_a_name_with_spaces_and_signs(path: Path) -> None:
    odd = path.rename(path.with_name("a run? 100%#.htr"))
    assert read_run(odd).info.command == "x"


def test_reading_leaves_the_file_as_it_was(path: Path) -> None:
    before = path.read_bytes(), path.stat().st_mtime_ns
    read_run(path)
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before
