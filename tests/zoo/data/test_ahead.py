"""Batches made ahead: the right ones in the right order, whoever is slow, and whoever dies."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from handtorch import knobs
from handtorch.errors import BadFile, BadInput, NoInput
from handtorch.runtime.opencl.borrow import settled_root
from handtorch.zoo.data.ahead import Ahead, feed_ahead
from handtorch.zoo.data.feed import open_feed
from tests.zoo.data.sources import NAME

ROOT = Path(__file__).resolve().parents[3]


def ahead(**how: Any) -> Ahead:
    kept = {name: how.pop(name) for name in ("then", "at", "sleep_s") if name in how}
    return Ahead(NAME, kept, **how)


def gone(pid: int, within_s: float = 60.0) -> bool:
    """Whether the process ended; one that nobody waited for yet counts as ended."""
    until = time.monotonic() + within_s
    while time.monotonic() < until:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state == "Z":
            return True
        time.sleep(0.02)
    return False


@pytest.mark.parametrize(("made_s", "used_s"), [(0.0, 0.02), (0.02, 0.0)])
def test_the_order_does_not_depend_on_who_is_slow(made_s: float, used_s: float) -> None:
    """A batch stays as it is while it is in use, though the maker goes on with all slots."""
    with ahead(first=5, last=17, slots=3, sleep_s=made_s) as batches:
        count = 0
        for k, (x, y) in enumerate(batches, 5):
            time.sleep(used_s)
            assert (x == k).all() and y.tolist() == [k, k + 1, k + 2]
            assert x.dtype == np.float32 and y.dtype == np.int64
            count += 1
        assert count == 12 and batches.source == "numbered"
        assert list(batches) == []
    assert gone(batches.pid)


@pytest.mark.timed
def test_batches_are_made_while_others_are_used() -> None:
    """Made one after the other they would take 0.6 s of waiting."""
    with ahead(last=13, sleep_s=0.05) as batches:
        next(batches)
        before_s = batches.waited_s
        for _ in batches:
            time.sleep(0.06)
        assert batches.waited_s - before_s < 0.4


def test_what_is_handed_out_cannot_be_changed_and_is_not_taken_for_settled() -> None:
    """Its memory is used again: whoever reads it later must have copied it (ADR 19)."""
    with ahead(last=4) as batches:
        x, _ = next(batches)
        with pytest.raises(ValueError):
            x[0] = 1
        assert settled_root(x) is None
    assert (x == 0).all()                       # after the end, too


def test_the_maker_is_bounded() -> None:
    with ahead(slots=2) as batches:
        next(batches)
        time.sleep(0.3)
        status = Path(f"/proc/{batches.pid}/stat").read_text().rpartition(")")[2].split()
        before = int(status[11]) + int(status[12])
        time.sleep(0.3)
        status = Path(f"/proc/{batches.pid}/stat").read_text().rpartition(")")[2].split()
        assert int(status[11]) + int(status[12]) - before <= 2      # of 30 ticks: it waits


def test_an_error_of_the_maker_comes_where_its_batch_would() -> None:
    with ahead(then="raise", at=2) as batches:
        assert [int(next(batches)[0][0, 0]) for _ in range(2)] == [0, 1]
        with pytest.raises(BadFile) as error:
            next(batches)
        assert str(error.value) == "a.bin cannot be used: at byte 7: oh\n  try: another"
        with pytest.raises(BadFile):            # and again, not a hang
            next(batches)
    assert gone(batches.pid)


def test_a_bug_of_the_maker_is_told_with_its_lines() -> None:
    with ahead(then="bug", at=0) as batches, pytest.raises(NoInput) as error:
        _ = batches.source
    said = str(error.value)
    assert said.startswith("batch 0 is not there: the process that makes batches failed: "
                           "ZeroDivisionError: of our own\n")
    assert "sources.py" in said
    with Ahead("no.such:thing", {}) as batches, pytest.raises(NoInput, match="ModuleNotFoundError"):
        next(batches)


@pytest.mark.parametrize(("then", "how"), [("die", "was ended by signal 9"),
                                           ("exit", "ended with code 3")])
def test_a_maker_that_dies(then: str, how: str) -> None:
    with ahead(then=then, at=1) as batches:
        next(batches)
        with pytest.raises(NoInput) as error:
            next(batches)
    assert str(error.value) == (
        f"batch 1 is not there: the process that makes batches {how}\n"
        "  try: signal 9 often is the system short of memory: smaller batches, or fewer ahead")


def test_a_maker_that_hangs_is_ended() -> None:
    with ahead(then="hang", at=1) as batches:
        next(batches)                           # a fresh interpreter may take its time
        batches._timeout_s = 0.5
        with pytest.raises(NoInput) as error:
            next(batches)
    assert gone(batches.pid)
    assert str(error.value) == (
        "batch 1 is not there: nothing came within 0.5 s; the process that makes batches was "
        "ended\n"
        "  try: a longer timeout_s, or look whether the disk answers")


def test_a_batch_of_another_shape_is_refused() -> None:
    with ahead(then="grow", at=1) as batches:
        next(batches)
        with pytest.raises(NoInput) as error:
            next(batches)
    assert str(error.value) == (
        "batch 1 of numbered: it is float32[4,5], int64[3], and those before were float32[3,5], "
        "int64[3]\n  try: batches of one size")


@pytest.mark.parametrize("then", ["", "hang"])
def test_a_maker_ends_with_its_parent(then: str) -> None:
    """Killed, so that nothing could be tidied up; also while the maker is busy with a batch, and
    while a process forked from the parent keeps the pipes open."""
    code = ("import os, signal, sys, time\n"
            "from handtorch.zoo.data.ahead import Ahead\n"
            f"batches = Ahead({NAME!r}, {{'then': {then!r}, 'at': 1}})\n"
            "next(batches)\n"
            "child = os.fork()\n"
            "if not child:\n"
            "    os.closerange(0, 3)\n"
            "    time.sleep(60)\n"
            "    os._exit(0)\n"
            "print(batches.pid, child, flush=True)\n"
            "os.kill(os.getpid(), signal.SIGKILL)\n")
    env = knobs.environment_for_child()
    env["PYTHONPATH"] += os.pathsep + str(ROOT)
    found = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True,
                           timeout=300)
    maker, forked = map(int, found.stdout.split())
    try:
        assert gone(maker)
        assert Path(f"/proc/{forked}").exists(), "it must have outlived the maker"
    finally:
        os.kill(forked, 9)


def test_nothing_is_left_open() -> None:
    with ahead(last=2) as batches:
        list(batches)
    before = len(os.listdir("/proc/self/fd"))
    with ahead(last=2) as batches:
        next(batches)
    batches.close()
    assert len(os.listdir("/proc/self/fd")) == before


def test_the_same_batches_as_without_it() -> None:
    how: dict[str, Any] = {"small": True, "path": "generated", "seed": 3}
    feed = open_feed("BERT", 4, **how)
    with feed_ahead("BERT", 4, first=1, last=4, **how) as batches:
        for k, batch in enumerate(batches, 1):
            for made, wanted in zip(batch, feed.batch(k), strict=True):
                assert np.array_equal(made, wanted) and made.dtype == wanted.dtype
        assert batches.source == "generated"


def test_wrong_numbers_and_wrong_paths_are_refused() -> None:
    with pytest.raises(BadInput, match="there are 2 to 64 slots"):
        ahead(slots=1)
    with pytest.raises(BadInput, match="a last batch comes behind the first"):
        ahead(first=3, last=3)
    with feed_ahead("HarLSTM", 4, path="no/such") as batches, pytest.raises(BadInput) as error:
        next(batches)
    assert str(error.value) == ("the data set har: no/such does not exist\n"
                                '  try: check the path, or path="generated" for generated data')
