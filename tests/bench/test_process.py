"""A side's process as the bench sees it, with small programs in its place."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from handtorch.bench.process import SideEnded, SideProcess

ECHO = "import sys\nfor line in sys.stdin: print(line.strip(), flush=True)"


def side(folder: Path, program: str) -> SideProcess:
    return SideProcess("peer", [sys.executable, "-c", program], os.environ, folder / "log")


def test_it_is_asked_in_a_line_and_answers_in_one(tmp_path: Path) -> None:
    with side(tmp_path, ECHO) as process:
        assert process.ask("run", count=3) == {"do": "run", "count": 3}
        assert process.ask("memory") == {"do": "memory"}


def test_a_block_is_the_seconds_it_tells(tmp_path: Path) -> None:
    program = ("import json, sys\n"
               "for line in sys.stdin:\n"
               "    told = json.loads(line)\n"
               "    seconds = told['count'] / 4 + told['warm_up']\n"
               "    print(json.dumps({'seconds': seconds}), flush=True)")
    with side(tmp_path, program) as process:
        assert (process.block(1, 2), process.block(0, 4)) == (1.5, 1.0)


@pytest.mark.parametrize("program, why", [
    ("import sys; sys.exit(3)", "exit code 3: it said nothing"),
    ("raise SystemError('no such engine')", "exit code 1: SystemError: no such engine"),
    ("import os; os.kill(os.getpid(), 9)", "signal 9: it said nothing"),
    ("input(); print('hello', flush=True); input()", "its answer is no JSON record: b'hello'"),
    ("input(); print('[1]', flush=True); input()", "its answer is no JSON record: b'[1]'"),
])
def test_how_it_ended_is_told(tmp_path: Path, program: str, why: str) -> None:
    with side(tmp_path, program) as process, pytest.raises(SideEnded) as ended:
        process.ask("make")
    assert (ended.value.side, ended.value.message()) == (
        "peer", f"the process of peer ended: {why}")


def test_who_does_not_answer_is_ended(tmp_path: Path) -> None:
    with side(tmp_path, "import sys\nfor line in sys.stdin: pass") as process:
        with pytest.raises(SideEnded, match="no answer to 'run' within 0 s"):
            process.ask("run", 0.2)
        with pytest.raises(SideEnded, match="it was ended before"):
            process.ask("run")


def test_a_refusal_in_the_middle_of_a_run_ends_it(tmp_path: Path) -> None:
    program = "input(); print('{\"error\": \"out of memory\"}', flush=True); input()"
    with side(tmp_path, program) as process, pytest.raises(SideEnded, match="out of memory"):
        process.block(0, 1)


def test_nothing_is_left_of_it(tmp_path: Path) -> None:
    program = ("import os, signal, sys, time\n"
               "print('{\"pid\": %d}' % os.getpid(), flush=True)\n"
               "sys.stdin.read()")
    with side(tmp_path, program) as process:
        pid = process.ask("make")["pid"]
        assert Path(f"/proc/{pid}").exists()
        begin = time.monotonic()
    assert not Path(f"/proc/{pid}").exists()
    assert time.monotonic() - begin < 4                 # it ended by itself: nobody waited
