"""The ring: what was written can be read, at any time and after any death, and nothing else."""

from __future__ import annotations

import errno
import math
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from handtorch.errors import BadFile
from handtorch.knobs import environment_for_child
from handtorch.meters import ring
from handtorch.meters.ring import ASKED, FULL, OTHER, RUNNING, SLOT, RingWriter, read

TABLE = {"signals": ["a", "b"], "absent": []}
SMALL = 128                             # slots: one page of 4 KiB


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ring, "CHUNK_SLOTS", SMALL)


def slots(recorded: ring.Recorded) -> list[tuple[float, ...]]:
    return list(SLOT.iter_unpack(recorded.slots))


def test_what_is_written_is_read(tmp_path: Path) -> None:
    writer = RingWriter(tmp_path / "r", TABLE, 5)
    writer.add(0, 10, 12, [1.5, "it is asleep"])
    writer.add(7, 20, 21, ["it is asleep", "ünknown", 2])
    got = read(tmp_path / "r")
    assert got.table == TABLE and got.torn == 0
    assert got.reasons == ("", "it is asleep", "ünknown")
    told = [(b, a, None if math.isnan(v) else v, s, r, n) for b, a, v, s, r, n in slots(got)]
    assert told == [(10, 12, 1.5, 0, 0, 1), (10, 12, None, 1, 1, 2), (20, 21, None, 7, 1, 3),
                    (20, 21, None, 8, 2, 4), (20, 21, 2.0, 9, 0, 5)]
    assert got.fields["pid"] == os.getpid() and got.fields["started_ns"] == 5
    assert (got.fields["state"], got.fields["heartbeat_ns"]) == (RUNNING, 21)
    writer.close()
    assert read(tmp_path / "r") == got


def test_what_no_sensor_may_give_has_a_reason(tmp_path: Path) -> None:
    RingWriter(tmp_path / "r", TABLE, 0).add(0, 1, 2, [None, 3, True])  # type: ignore[list-item]
    got = read(tmp_path / "r")
    assert got.reasons == ("", "not a number: None")
    assert [(s[2], s[4]) for s in slots(got)][1:] == [(3.0, 0), (1.0, 0)]
    assert math.isnan(slots(got)[0][2]) and slots(got)[0][4] == 1


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("count", [0, 1, SMALL - 1, SMALL, SMALL + 1, 5 * SMALL + 3])
def test_it_grows_by_chunks(tmp_path: Path, count: int) -> None:
    writer = RingWriter(tmp_path / "r", TABLE, 0)
    for i in range(count):
        writer.add(0, i, i, [float(i)])
    got = read(tmp_path / "r")
    assert [s[2] for s in slots(got)] == list(range(count)) and got.torn == 0


@pytest.mark.usefixtures("small_chunks")
def test_at_its_limit_it_counts_what_is_lost(tmp_path: Path) -> None:
    head_bytes = -(-(4096 + ring.REASONS_BYTES + 40) // 4096) * 4096
    writer = RingWriter(tmp_path / "r", TABLE, 0, most_bytes=head_bytes + 2 * SMALL * SLOT.size)
    for i in range(SMALL + 1):
        writer.add(0, i, i, [1.0, 2.0])
    assert writer.full
    writer.end(ASKED, 999)
    got = read(tmp_path / "r")
    assert len(slots(got)) == 2 * SMALL and got.fields["lost"] == 2
    assert (got.fields["state"], got.fields["state_ns"], got.fields["errno"]) == (FULL, SMALL, 0)


@pytest.mark.usefixtures("small_chunks")
def test_a_file_that_cannot_grow_says_why_in_its_header(tmp_path: Path) -> None:
    writer = RingWriter(tmp_path / "r", TABLE, 0)
    size = (tmp_path / "r").stat().st_size
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 4096 + 1000, before[1]))
    try:
        for i in range(3 * SMALL):      # the second chunk fits, of the third only a part
            writer.add(0, i, i + 1, [float(i)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    got = read(tmp_path / "r")
    assert [s[2] for s in slots(got)] == list(range(2 * SMALL))
    assert got.fields["errno"] == errno.EFBIG and got.fields["lost"] == SMALL
    assert got.fields["state"] == FULL and got.fields["state_ns"] == 2 * SMALL + 1


def test_without_room_for_the_header_nothing_is_begun(tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8192, before[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            RingWriter(tmp_path / "r", TABLE, 0)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_torn_slot_ends_what_is_read(tmp_path: Path) -> None:
    writer = RingWriter(tmp_path / "r", TABLE, 0)
    for i in range(10):
        writer.add(0, i, i, [float(i)])
    writer.close()
    data = bytearray((tmp_path / "r").read_bytes())
    at = data.index(SLOT.pack(6, 6, 6.0, 0, 0, 7))
    data[at + SLOT.size - 4:at + SLOT.size] = bytes(4)
    (tmp_path / "r").write_bytes(data)
    got = read(tmp_path / "r")
    assert [s[2] for s in slots(got)] == [0, 1, 2, 3, 4, 5] and got.torn == 4


@pytest.mark.parametrize("keep", [0, 1, 3.5])
def test_a_file_cut_short_is_read_up_to_there(tmp_path: Path, keep: float) -> None:
    writer = RingWriter(tmp_path / "r", TABLE, 0)
    for i in range(10):
        writer.add(0, i, i, [float(i)])
    writer.close()
    first = (tmp_path / "r").read_bytes().index(SLOT.pack(0, 0, 0.0, 0, 0, 1))
    os.truncate(tmp_path / "r", first + int(keep * SLOT.size))
    got = read(tmp_path / "r")
    assert len(slots(got)) == int(keep) and got.torn == 10 - int(keep)


def test_reasons_without_end_share_the_last_place(tmp_path: Path) -> None:
    writer = RingWriter(tmp_path / "r", TABLE, 0)
    for i in range(2000):
        writer.add(0, i, i, [f"reason number {i}"])
    got = read(tmp_path / "r")
    assert len(slots(got)) == 2000 and got.reasons[1] == "reason number 0"
    assert got.reasons[-1] == OTHER and 700 < len(got.reasons) < 2000
    indices = [s[4] for s in slots(got)]
    assert indices[:3] == [1, 2, 3] and indices[-1] == len(got.reasons) - 1


def test_what_is_no_record_is_refused(tmp_path: Path) -> None:
    (tmp_path / "r").write_bytes(b"x" * 100_000)
    with pytest.raises(BadFile) as told:
        read(tmp_path / "r")
    assert str(told.value) == f"{tmp_path / 'r'} is no record of meters: it does not begin like one"
    RingWriter(tmp_path / "s", TABLE, 0).close()
    with (tmp_path / "s").open("r+b") as file:
        file.seek(8)
        file.write((77).to_bytes(4, sys.byteorder))
    with pytest.raises(BadFile) as told:
        read(tmp_path / "s")
    assert str(told.value) == (f"{tmp_path / 's'} cannot be read: it has version 77, "
                               f"this reads version {ring.VERSION}")


WRITES = """
import sys
from pathlib import Path
from handtorch.meters import ring
ring.CHUNK_SLOTS = 128
writer = ring.RingWriter(Path(sys.argv[1]), {}, 0)
i = 0
while True:
    writer.add(0, i, i + 1, [float(i), float(2 * i)])
    i += 1
    if i == 1000:
        print("go", flush=True)
"""


def test_it_can_be_read_while_it_is_written_and_after_a_kill(tmp_path: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", WRITES, str(tmp_path / "r")],
                             stdout=subprocess.PIPE, env=environment_for_child())
    try:
        assert child.stdout is not None and child.stdout.readline() == b"go\n"
        seen, end = [read(tmp_path / "r")], time.monotonic() + 20
        while len(seen) < 20 or (seen[-1].slots == seen[0].slots and time.monotonic() < end):
            seen.append(read(tmp_path / "r"))
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()
    seen.append(read(tmp_path / "r"))
    counts = [len(slots(got)) for got in seen]
    assert counts == sorted(counts) and counts[0] >= 2000 and counts[-1] > counts[0]
    for got in seen:
        assert got.torn == 0 and got.fields["state"] == RUNNING
    for number, (before, after, value, index, reason, _) in enumerate(slots(seen[-1])):
        i, which = divmod(number, 2)
        assert (before, after, value, index, reason) == (i, i + 1, (1 + which) * i, which, 0)
