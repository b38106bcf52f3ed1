from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import handtorch
from handtorch.errors import BadInput, StorageError
from handtorch.record.progress import ProgressFile, progress_path, read_progress


def test_what_was_said_last_is_read_and_gone_at_the_end(tmp_path: Path) -> None:
    run = tmp_path / "all.htr"
    with ProgressFile(run) as file:
        assert read_progress(run) is None
        file.say("sgemm: n = 64", 0.1, 200.0)
        file.say("sgemm: n = 256", 0.2)
        found = read_progress(run)
        assert found is not None
        assert (found.text, found.share, found.left_s, found.alive) == ("sgemm: n = 256", 0.2,
                                                                       None, True)
    assert read_progress(run) is None and list(tmp_path.iterdir()) == []


def test_a_second_writer_is_refused_and_the_first_goes_on(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("handtorch.record.progress._PAUSE_S", 0.0)
    run = tmp_path / "all.htr"
    with ProgressFile(run) as file:
        file.say("first")
        with pytest.raises(BadInput) as refused:
            ProgressFile(run)
        assert refused.value.message() == (
            f"a second run into {run}: another one that still runs writes there\n"
            "  try: wait for it, or another --out")
        found = read_progress(run)
        assert found is not None and found.text == "first"


def test_a_writer_that_was_killed_is_known_to_be_dead(tmp_path: Path) -> None:
    run = tmp_path / "all.htr"
    code = ("import sys, time; from pathlib import Path\n"
            "from handtorch.record.progress import ProgressFile\n"
            "file = ProgressFile(Path(sys.argv[1])); file.say('busy', 0.5, 60.0)\n"
            "print('ready', flush=True); time.sleep(60)")
    env = os.environ | {"PYTHONPATH": str(Path(handtorch.__file__).parents[1])}
    with subprocess.Popen([sys.executable, "-c", code, run], stdout=subprocess.PIPE,
                          env=env) as child:
        assert child.stdout is not None and child.stdout.readline() == b"ready\n"
        found = read_progress(run)
        assert found is not None and found.alive
        child.send_signal(signal.SIGKILL)
        child.wait()
    found = read_progress(run)
    assert found is not None and (found.text, found.alive) == ("busy", False)
    with ProgressFile(run) as file:             # and the next one begins anew
        assert read_progress(run) is None
        file.say("again")


@pytest.mark.parametrize("line", [
    b"", b"{", b"[]", b'{"text": 3, "said_s": 1}', b'{"text": "a", "said_s": "now"}',
    b'{"text": "a", "share": true, "said_s": 1}', b"\xff\xfe", b'{"text": "a"}', b"[" * 5000])
def test_lines_that_are_not_ours_are_passed_over(tmp_path: Path, line: bytes) -> None:
    run = tmp_path / "all.htr"
    whole = b'{"text": "good", "share": null, "left_s": null, "said_s": 5}\n'
    progress_path(run).write_bytes(whole + line + b"\n")
    found = read_progress(run)
    assert found is not None and (found.text, found.said_s) == ("good", 5)
    progress_path(run).write_bytes(line)
    assert read_progress(run) is None


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="choose a folder you may write to"):
        ProgressFile(tmp_path / "file" / "all.htr")
