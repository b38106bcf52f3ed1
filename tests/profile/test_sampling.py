"""Sampling with real processes, and all that can befall them: the caller is never disturbed, what
was read until then is there, and the troubles say what is missing."""

from __future__ import annotations

import errno
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from handtorch.knobs import environment_for_child
from handtorch.meters import ring
from handtorch.meters.signal import Absent
from handtorch.profile.sampled import Readings
from handtorch.profile.sampling import SILENT_S, Sampling

TESTS = Path(__file__).parents[1]
FAKES = TESTS / "meters"


def sampling(folder: Path, find: str, *, limit_s: float = 60, most_bytes: int = 1 << 26,
             silent_s: float = SILENT_S, python: str | None = None) -> Sampling:
    return Sampling(folder / "s", root=folder, find=f"fake_sensors:{find}", paths=[FAKES],
                    limit_s=limit_s, most_bytes=most_bytes, silent_s=silent_s, python=python)


def until(holds: Callable[[], bool], seconds: float = 60) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if holds():
            return True
        time.sleep(0.01)
    return holds()


def count(one: Sampling, quantity: str = "single_count", meter: str = "fast") -> int:
    """Readings with a value."""
    try:
        return int(np.isfinite(one.readings().of(meter, quantity).value).sum())
    except KeyError:
        return 0


def stopped(one: Sampling, grace_s: float = 10) -> Readings:
    """After a stop that took no longer than it may."""
    began = time.monotonic()
    one.stop(grace_s)
    assert time.monotonic() - began < grace_s + 10
    return one.readings()


def assert_counted(got: Readings, meter: str = "fast") -> None:
    """Every reading of the fake is there, in order, at times that grow."""
    single, double = got.of(meter, "single_count"), got.of(meter, "double_count")
    assert single.value.tolist() == list(range(1, len(single.value) + 1))
    assert (double.value == 2 * single.value).all()
    assert (np.diff(single.time_ns) > 0).all() and (single.half_ns >= 0).all()


def test_an_undisturbed_run(tmp_path: Path) -> None:
    began = time.monotonic_ns()
    with sampling(tmp_path, "plain") as one:
        assert one.ready(60) and one.how == "process"
        assert until(lambda: count(one) >= 20) and one.alive(within_s=5)
    assert not one.alive(within_s=5)
    got = one.readings()
    assert_counted(got)
    assert_counted(got, "medium")
    fast, medium = (len(got.of(m, "single_count").value) for m in ("fast", "medium"))
    assert fast >= 20 and fast > 2 * medium >= 2
    times = got.of("fast", "single_count").time_ns
    assert began < times[0] and times[-1] < time.monotonic_ns()
    troubles = got.troubles
    assert troubles.absent == (Absent("rapl", "no folder powercap", "load the module intel_rapl"),)
    assert (troubles.died, troubles.ended, troubles.killed, troubles.failed) == ("", "", False, ())
    assert troubles.cpu_s is not None and troubles.cpu_share is not None
    assert 0 < troubles.cpu_share < 1 and 0 < troubles.cpu_s < 10
    due = troubles.deadlines[0]
    assert due.period_ns == 10_000_000 and fast - 1 <= due.due - due.missed <= fast
    assert [s.signal.quantity for s in got.own][:3] == ["monotonic_raw_ahead_s",
                                                        "boottime_ahead_s", "realtime_ahead_s"]
    assert len(got.of("sampler", "realtime_ahead_s").value) >= 2        # first and last
    one.stop()                                                          # twice is once
    assert one.readings().troubles == troubles


def test_killed_in_the_middle(tmp_path: Path) -> None:
    one = sampling(tmp_path, "plain")
    one.start()
    assert until(lambda: count(one) >= 10) and one.sampler_pid
    os.kill(one.sampler_pid, signal.SIGKILL)
    assert until(lambda: one.readings().troubles.died == "SIGKILL")     # seen before the end, too
    time.sleep(0.3)
    got = stopped(one)
    assert_counted(got)
    troubles, last_ns = got.troubles, int(got.of("fast", "single_count").time_ns[-1])
    assert troubles.died == "SIGKILL" and troubles.last_ns >= last_ns
    assert troubles.silent[-1].start_ns == troubles.last_ns
    assert troubles.silent[-1].end_ns > last_ns + 300_000_000
    after = (troubles.last_ns - troubles.began_ns) / 1e9
    assert f"the sampler died (SIGKILL) after {after:.2f} s" in troubles.lines()


def test_one_that_stands_still_is_killed_in_time(tmp_path: Path) -> None:
    one = sampling(tmp_path, "plain")
    one.start()
    assert until(lambda: count(one) >= 10) and one.sampler_pid
    os.kill(one.sampler_pid, signal.SIGSTOP)
    assert until(lambda: not one.alive(within_s=0.3))
    got = stopped(one, grace_s=0.2)
    assert_counted(got)
    assert got.troubles.killed and got.troubles.gone and not got.troubles.died
    assert got.troubles.silent[-1].start_ns == got.troubles.last_ns
    assert "the sampler did not end when asked and was killed" in got.troubles.lines()
    assert not Path(f"/proc/{one.sampler_pid}").exists()


def test_a_pause_in_the_middle_is_seen_afterwards(tmp_path: Path) -> None:
    with sampling(tmp_path, "plain") as one:
        assert until(lambda: count(one) >= 10) and one.sampler_pid
        os.kill(one.sampler_pid, signal.SIGSTOP)
        begin = time.monotonic_ns()
        time.sleep(0.4)
        end = time.monotonic_ns()
        os.kill(one.sampler_pid, signal.SIGCONT)
        before = count(one)
        assert until(lambda: count(one) >= before + 10)
    got = one.readings()
    assert_counted(got)
    pauses = [i for i in got.troubles.silent
              if i.start_ns <= begin + 50_000_000 and i.end_ns >= end]
    assert len(pauses) == 1 and not got.troubles.killed
    assert got.troubles.deadlines[0].missed >= 35


@contextmanager
def files_no_larger_than(count: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (count, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_file_that_cannot_grow(tmp_path: Path) -> None:
    one = sampling(tmp_path, "many")
    with files_no_larger_than(1_700_000):           # the header and one chunk, not two
        one.start()
    assert until(lambda: bool(one.readings().troubles.ended))
    got = stopped(one)
    assert got.troubles.ended == os.strerror(errno.EFBIG) and got.troubles.lost > 0
    assert not got.troubles.died and not got.troubles.killed
    assert_counted(got, "fast0")
    assert sum(len(s.value) for s in (*got.series, *got.own)) == ring.CHUNK_SLOTS
    after = (got.troubles.last_ns - got.troubles.began_ns) / 1e9
    assert f"the sampler ended after {after:.2f} s: File too large" in got.troubles.lines()
    assert f"{got.troubles.lost} readings had no room in the file" in got.troubles.lines()


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1792k", "tmpfs", str(folder)],
                          capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"a disk of its own cannot be mounted here: {done.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_a_full_disk(tiny_disk: Path) -> None:
    one = sampling(tiny_disk, "many")
    one.start()
    assert until(lambda: bool(one.readings().troubles.ended))
    got = stopped(one)
    assert got.troubles.ended == os.strerror(errno.ENOSPC) and not got.troubles.died
    assert_counted(got, "fast0")
    assert sum(len(s.value) for s in (*got.series, *got.own)) == ring.CHUNK_SLOTS


def test_a_disk_that_is_full_from_the_start(tmp_path: Path) -> None:
    one = sampling(tmp_path, "plain")
    with files_no_larger_than(5000):
        one.start()
        assert not one.ready(60)
    got = stopped(one)
    assert got.series == () and got.troubles.lines() == [
        "no sampling: exit code 1: OSError: [Errno 27] File too large"]


def test_its_size_is_limited(tmp_path: Path) -> None:
    one = sampling(tmp_path, "many", most_bytes=1)          # one chunk is the least
    one.start()
    assert until(lambda: bool(one.readings().troubles.ended))
    assert stopped(one).troubles.ended == "its file has reached the size allowed"


def test_its_time_is_limited(tmp_path: Path) -> None:
    one = sampling(tmp_path, "plain", limit_s=0.1)
    one.start()
    assert until(lambda: bool(one.readings().troubles.ended))
    got = stopped(one)
    assert got.troubles.ended == "the time allowed was over"
    assert not got.troubles.died and len(got.of("fast", "single_count").value)


def test_sensors_that_raise_cost_only_their_own_readings(tmp_path: Path) -> None:
    with sampling(tmp_path, "broken") as one:
        assert until(lambda: count(one) >= 5)
    got = one.readings()
    assert_counted(got)
    n = len(got.of("raises", "single_count").value)
    assert np.isnan(got.of("raises", "single_count").value).all()
    said = [line for line in got.troubles.lines() if "no value" in line]
    assert said == [f"raises, 2 signals: {2 * n} of {2 * n} readings have no value (the sensor "
                    f"failed: ValueError: no number in 'x')",
                    f"forgets, 2 signals: {2 * n} of {2 * n} readings have no value (the sensor "
                    f"failed: 1 values for 2 signals)"]


@pytest.mark.parametrize("find", ["blocked", "blocked_waits"])
def test_a_sensor_that_hangs_costs_only_its_own_readings(tmp_path: Path, find: str) -> None:
    os.mkfifo(tmp_path / "fifo")
    one = sampling(tmp_path, find, silent_s=0.1)
    one.start()
    assert until(lambda: any(f.signal.meter == "blocks" for f in one.readings().troubles.failed))
    before = count(one)
    assert until(lambda: count(one) >= before + 10)
    got = stopped(one)                      # it ends when asked, though a thread of it hangs
    assert not got.troubles.killed
    assert_counted(got)
    assert got.of("blocks", "single_count").value[:2].tolist() == [1, 2]
    assert [(f.signal.meter, f.missing, f.readings, f.reasons) for f in got.troubles.failed] == [
        ("blocks", 1, 3, ("no answer within 0.1 s",))] * 2
    assert got.troubles.deadlines[0].missed > 0


def test_a_sensor_that_goes_away_and_comes_back(tmp_path: Path) -> None:
    (tmp_path / "value").write_text("3")
    with sampling(tmp_path, "vanishing") as one:
        assert until(lambda: count(one, meter="tells") >= 3)
        (tmp_path / "value").unlink()
        assert until(lambda: bool(one.readings().troubles.failed))
        before = count(one, meter="tells")
        (tmp_path / "new").write_text("4")
        (tmp_path / "new").rename(tmp_path / "value")
        assert until(lambda: count(one, meter="tells") > before)
    got = one.readings()
    assert_counted(got)
    values = got.of("tells", "single_count").value
    assert values[0] == 3 and values[-1] == 4 and np.isnan(values).any()
    assert {f.reasons for f in got.troubles.failed} == {("No such file or directory",)}


PARENT = """
import os, sys, time
from pathlib import Path
from handtorch.profile.sampling import Sampling
one = Sampling(Path(sys.argv[1]) / "s", find="fake_sensors:plain", paths=[Path(sys.argv[2])])
one.start()
assert one.ready(60)
if sys.argv[3] == "forked" and os.fork() == 0:
    time.sleep(60)                      # keeps the pipe open
print(one.sampler_pid, flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("how", ["alone", "forked"])
def test_it_ends_when_its_parent_is_killed(tmp_path: Path, how: str) -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT, str(tmp_path), str(FAKES), how],
                              stdout=subprocess.PIPE, env=environment_for_child(),
                              start_new_session=True)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    file = tmp_path / "s" / "readings.ring"
    try:
        assert until(lambda: ring.read(file).fields["count"] > 20)
        parent.kill()
        parent.wait()
        assert until(lambda: not _runs(pid))
    finally:
        os.killpg(parent.pid, signal.SIGKILL) if how == "forked" else None
    got = ring.read(file)
    assert got.fields["state"] == ring.ORPHANED and got.torn == 0


def _runs(pid: int) -> bool:
    """A zombie that nobody waits for has ended, too."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_without_a_process_it_is_a_thread(tmp_path: Path) -> None:
    one = sampling(tmp_path, "plain", python=str(tmp_path / "no-python"))
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(FAKES)
        one.start()
    assert one.how == "thread" and one.sampler_pid is None
    assert until(lambda: count(one) >= 10)
    got = stopped(one)
    assert got.how == "thread"
    assert_counted(got)
    assert got.troubles.lines()[0] == ("sampled by a thread of the training: no process could be "
                                       "started (No such file or directory)")
    assert got.troubles.cpu_s is not None and 0 < got.troubles.cpu_s < 10
    one.stop()


def test_an_interpreter_without_a_program_samples_by_thread(tmp_path: Path) -> None:
    one = Sampling(tmp_path / "s", find="tests.meters.fake_sensors:plain", python="")
    one.start()
    assert one.how == "thread" and until(lambda: count(one) >= 2)
    assert stopped(one).troubles.lines()[0] == (
        "sampled by a thread of the training: this interpreter knows no program to start")


def test_with_neither_there_is_none(tmp_path: Path) -> None:
    one = Sampling(tmp_path / "s", find="no_such_module:find", python=str(tmp_path / "no-python"))
    one.start()
    assert one.how == "none" and stopped(one).troubles.lines() == [
        "no sampling: no process could be started (No such file or directory), and in this one: "
        "No module named 'no_such_module'"]


def test_without_a_folder_there_is_none(tmp_path: Path) -> None:
    (tmp_path / "s").write_text("in the way")
    one = sampling(tmp_path, "plain")
    one.start()
    assert one.how == "none" and not one.ready(5)
    got = stopped(one)
    assert got.series == () and got.troubles.lines() == [
        f"no sampling: {tmp_path / 's'}: File exists"]


def test_a_search_that_fails_is_said(tmp_path: Path) -> None:
    one = sampling(tmp_path, "failing")
    one.start()
    assert not one.ready(60)
    assert stopped(one).troubles.lines() == [
        "no sampling: exit code 1: OSError: [Errno 5] Input/output error"]


def test_a_file_that_somebody_removes(tmp_path: Path) -> None:
    with sampling(tmp_path, "plain") as one:
        assert until(lambda: count(one) >= 3)
        one.file.unlink()
    (line,) = one.readings().troubles.lines()
    assert line.startswith("no sampling: ") and "No such file or directory" in line
