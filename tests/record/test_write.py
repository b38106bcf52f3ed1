from __future__ import annotations

import errno
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from handtorch.errors import BadInput, StorageError
from handtorch.record import Clock, Place, Result, RunInfo, RunWriter, Sample, read_run
from handtorch.record.row import Row

CLOCK = Clock(name="host", offset_ns=0, error_ns=0, provenance="measured")


def sample(time_ns: int) -> Sample:
    return Sample(time_ns=time_ns, clock="host", meter="fake", quantity="power_w", value=1.0,
                  provenance="simulated")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs" / "one.htr"


@pytest.fixture
def stranger(path: Path) -> Iterator[None]:
    """For the test's time a user without rights here, also when root runs the tests."""
    path.parent.mkdir(mode=0o500)
    was = os.geteuid()
    if was == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(was)


def test_what_is_written_is_read_back(path: Path, rows: dict[str, Row]) -> None:
    with RunWriter.create(path, "handtorch study sgemm --quick") as writer:
        writer.add(*rows.values())
    run = read_run(path)
    assert run.info == writer.info
    assert (run.info.command, run.info.status) == ("handtorch study sgemm --quick", "complete")
    assert run.info.duration_ns is not None and 0 < run.info.duration_ns < 60e9
    assert run.machine == rows["machine"]
    assert run.places == (rows["place"], rows["place1"])
    assert run.results == (rows["result"], rows["result1"])
    read = {row for name in ("software", "devices", "comparisons", "clocks", "syncs", "steps",
                             "launches", "gaps", "signals", "samples", "energies",
                             "missing", "memory", "published", "verdicts")
            for row in getattr(run, name)}
    assert read | {run.machine, *run.places, *run.results} == set(rows.values())


def test_the_target_appears_only_when_it_is_whole(path: Path) -> None:
    with RunWriter.create(path, "x") as writer:
        writer.add(CLOCK)
        assert not path.exists()
        writer.flush()
        assert read_run(writer.part).clocks == (CLOCK,)  # a live run can be followed
        assert read_run(writer.part).info.status == "running"
    assert list(path.parent.iterdir()) == [path]


def test_a_long_run_reaches_the_disk_in_batches(path: Path) -> None:
    with RunWriter.create(path, "x") as writer:
        writer.add(CLOCK, *map(sample, range(4998)))
        assert read_run(writer.part).samples == ()
        writer.add(sample(4998))
        assert len(read_run(writer.part).samples) == 4999
        writer.add(sample(4999))
    assert [s.time_ns for s in read_run(path).samples] == list(range(5000))


@pytest.mark.parametrize(("error", "status", "reason"), [
    (KeyboardInterrupt(), "interrupted", "stopped from the keyboard"),
    (ValueError("bad\nlong story"), "failed", "ValueError: bad"),
    (ZeroDivisionError(), "failed", "ZeroDivisionError"),
    (SystemExit(3), "failed", "SystemExit: 3"),
    (SystemExit(0), "complete", ""),
])
def test_however_the_run_ends_the_file_is_saved(
        path: Path, error: BaseException, status: str, reason: str) -> None:
    with pytest.raises(type(error)), RunWriter.create(path, "x") as writer:
        writer.add(CLOCK, sample(1))
        raise error
    run = read_run(path)
    assert (run.info.status, run.info.status_reason) == (status, reason)
    assert run.samples == (sample(1),)
    assert list(path.parent.iterdir()) == [path]


def test_ctrl_c_while_rows_are_written_loses_none(
        path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(KeyboardInterrupt), RunWriter.create(path, "x") as writer:
        writer.add(CLOCK, sample(1), sample(2))
        real = getattr

        def interrupted(row: object, name: str) -> object:
            if name == "time_ns":
                monkeypatch.undo()  # once
                raise KeyboardInterrupt
            return real(row, name)

        monkeypatch.setattr("handtorch.record.write.getattr", interrupted, raising=False)
        writer.flush()
    run = read_run(path)
    assert run.info.status == "interrupted"
    assert run.samples == (sample(1), sample(2))


def test_closing_by_hand_inside_the_block_is_fine(path: Path) -> None:
    with RunWriter.create(path, "x") as writer:
        writer.close("failed", "no device")
    assert read_run(path).info.status_reason == "no device"


def test_an_existing_run_is_kept_unless_told(path: Path) -> None:
    with RunWriter.create(path, "first"):
        pass
    with pytest.raises(StorageError) as caught:
        RunWriter.create(path, "second")
    assert str(caught.value) == (f"run file {path}: it already exists\n"
                                 "  try: choose another name, or remove it first")
    assert read_run(path).info.command == "first"
    with RunWriter.create(path, "third", replace=True):
        assert read_run(path).info.command == "first"
    assert read_run(path).info.command == "third"


def test_a_run_that_is_over_keeps_its_start_and_its_length(path: Path) -> None:
    info = RunInfo(id="abc", command="c", started_utc="2026-01-02", duration_ns=5,
                   status="complete")
    with RunWriter.of_past(path, info):
        pass
    assert read_run(path).info == info
    with pytest.raises(StorageError, match="it already exists"):
        RunWriter.of_past(path, info)


def test_bytes_that_are_no_text_on_the_command_line(path: Path) -> None:
    with RunWriter.create(path, "study \udcff"):
        pass
    assert read_run(path).info.command == "study \\udcff"


def test_a_folder_without_permission(path: Path, stranger: None) -> None:
    with pytest.raises(StorageError) as caught:
        RunWriter.create(path, "x")
    assert str(caught.value) == (f"run file {path}: cannot be created: Permission denied\n"
                                 "  try: choose a folder you may write to, with --out or "
                                 "HANDTORCH_RUNS")


def test_a_read_only_file_system(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(StorageError) as caught:
        RunWriter.create(path, "x")
    assert str(caught.value) == (f"run file {path}: cannot be created: Read-only file system\n"
                                 "  try: choose a folder you may write to, with --out or "
                                 "HANDTORCH_RUNS")


def test_a_folder_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("")
    with pytest.raises(StorageError, match="cannot be created: "):
        RunWriter.create(tmp_path / "runs" / "one.htr", "x")


def test_a_full_disk_keeps_what_was_written_and_what_waits(path: Path) -> None:
    with RunWriter.create(path, "x") as writer:
        writer.add(CLOCK, sample(0))
        writer.flush()
        (pages,) = writer._db.execute("PRAGMA page_count").fetchone()
        writer._db.execute(f"PRAGMA max_page_count = {pages}")  # SQLite's own full disk
        writer.add(*map(sample, range(1, 4000)))
        with pytest.raises(StorageError) as caught:
            writer.flush()
        assert str(caught.value) == (
            f"run file {path}: cannot be written: database or disk is full\n"
            f"  try: make room; the rows written before are safe in {writer.part}")
        assert read_run(writer.part).samples == (sample(0),)
        writer._db.execute("PRAGMA max_page_count = 100000")  # somebody made room
    assert len(read_run(path).samples) == 4000


def test_a_disk_that_stays_full_leaves_the_part_readable(path: Path) -> None:
    with pytest.raises(StorageError, match="database or disk is full"), \
            RunWriter.create(path, "x") as writer:
        writer.add(CLOCK)
        writer.flush()
        writer._db.execute("PRAGMA max_page_count = 1")
        writer.add(*map(sample, range(4000)))
    assert not path.exists()
    assert read_run(writer.part).clocks == (CLOCK,)


def test_no_room_even_for_the_tables(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("handtorch.record.write.SCHEMA", "PRAGMA max_page_count = 1;"
                        "CREATE TABLE run (id); CREATE TABLE more (id);")
    with pytest.raises(StorageError) as caught:
        RunWriter.create(path, "x")
    assert str(caught.value) == (f"run file {path}: cannot be created: database or disk is full\n"
                                 "  try: make room, or choose another folder")
    assert list(path.parent.iterdir()) == []


def test_a_row_may_refer_only_to_what_was_added(path: Path, rows: dict[str, Row]) -> None:
    with RunWriter.create(path, "x") as writer:
        with pytest.raises(BadInput) as caught:
            writer.add(rows["result"])
        assert str(caught.value) == ("record result: place 'gpu' is no place of this run\n"
                                     "  try: add the place first")
        writer.add(rows["result1"])  # it names no place
    assert read_run(path).results == (rows["result1"],)


@pytest.mark.parametrize(("table", "why"), [
    ("clock", "name='opencl 1' was added before"),
    ("launch", "step=7, number=0 was added before"),
    ("machine", "a row was added before"),
])
def test_a_second_row_of_the_same_key(
        path: Path, rows: dict[str, Row], table: str, why: str) -> None:
    with RunWriter.create(path, "x") as writer:
        writer.add(*rows.values())
        with pytest.raises(BadInput) as caught:
            writer.add(rows[table])
        assert str(caught.value) == f"record {table}: {why}"


def test_the_writer_alone_writes_the_table_run(path: Path) -> None:
    with RunWriter.create(path, "x") as writer, pytest.raises(BadInput) as caught:
        writer.add(RunInfo(id="2", command="y", started_utc="now"))
    assert str(caught.value) == "record run: a row was added before"


def test_two_writers_of_one_target_do_not_meet_before_the_end(path: Path) -> None:
    with RunWriter.create(path, "a") as a, RunWriter.create(path, "b") as b:
        a.add(Place(name="a", kind="host cpu", cores="0"))
        b.add(Place(name="b", kind="host cpu", cores="1"))
        assert a.part != b.part
    assert read_run(path).places[0].name == "a"  # closed last


def test_a_numpy_like_number_that_is_no_float_is_refused_at_once(rows: dict[str, Row]) -> None:
    class Float32:
        def __float__(self) -> float:
            return 1.0

    with pytest.raises(BadInput, match="value is Float32"):
        Result(study="s", name="n", subject="x", value=Float32(),  # type: ignore[arg-type]
               unit="s", better="lower", repeats=1, provenance="measured")


KILLED = """
import os, signal, sys
from handtorch.record import Clock, RunWriter, Sample
writer = RunWriter.create(sys.argv[1], "x")
clock = Clock(name="host", offset_ns=0, error_ns=0, provenance="measured")
writer.add(clock)
writer.flush()
writer._db.execute("PRAGMA cache_size = 2")  # so that half a transaction reaches the disk
writer._db.execute("BEGIN")
writer._db.executemany(
    "INSERT INTO sample VALUES (?, 'host', 'm', 'power_w', 1.0, '', 'measured', 0)",
    ((i,) for i in range(20000)))
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_run_killed_while_it_writes_can_be_read_up_to_the_last_flush(path: Path) -> None:
    source = Path(sys.modules[RunWriter.__module__].__file__ or "").parents[2]
    done = subprocess.run([sys.executable, "-c", KILLED, str(path)],
                          env={"PYTHONPATH": str(source)})
    assert done.returncode == -signal.SIGKILL
    part, journal = sorted(path.parent.iterdir())
    assert journal.name == f"{part.name}-journal"
    before = part.read_bytes()
    run = read_run(part)
    assert (run.info.status, run.clocks, run.samples) == ("running", (CLOCK,), ())
    assert part.read_bytes() == before and journal.exists()
    with closing(sqlite3.connect(f"{part.as_uri()}?mode=ro", uri=True)) as db, \
            pytest.raises(sqlite3.OperationalError):  # the plain way would have had to repair it
        db.execute("SELECT * FROM run")
