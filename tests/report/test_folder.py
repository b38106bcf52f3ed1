from __future__ import annotations

import os
from pathlib import Path

import pytest

from handtorch.errors import BadInput
from handtorch.record import Result, RunWriter
from handtorch.record.progress import ProgressFile
from handtorch.report.folder import Folder, run_file_of


def figure(number: int = 0) -> Result:
    return Result(study="s", name="rate", subject="a", x_name="n", x_value=number, value=1.0,
                  unit="x", better="higher", repeats=1, provenance="measured")


def test_whole_running_killed_and_unreadable_runs(tmp_path: Path) -> None:
    RunWriter.create(tmp_path / "done.htr", "handtorch study a").close()
    (tmp_path / "broken.htr").write_text("no run at all")
    (tmp_path / "page.html").write_text("not looked at")
    (tmp_path / "folder.htr").mkdir()
    running = RunWriter.create(tmp_path / "now.htr", "handtorch study b")
    running.add(figure())
    running.flush()
    killed = RunWriter.create(tmp_path / "gone.htr", "handtorch study c")
    os.utime(killed.part, (0, 0))               # nobody has written for long, and nobody says so
    with ProgressFile(tmp_path / "now.htr") as said:
        said.say("half of it", 0.5, 30.0)
        found = {e.title: e for e in Folder(tmp_path).entries()}
        assert {t: e.state for t, e in found.items()} == {
            "done.htr": "complete", "now.htr": "running", "gone.htr": "killed",
            "broken.htr": "unreadable"}
        now = found["now.htr"]
        assert now.results == 1 and now.progress is not None and now.progress.share == 0.5
        assert now.name == running.part.name
    assert "not a run file" in found["broken.htr"].why
    running.close()
    killed.close()


def test_a_run_file_that_still_says_running_was_killed(tmp_path: Path) -> None:
    record = RunWriter.create(tmp_path / "a.htr", "c")
    (tmp_path / "copy.htr").write_bytes(record.part.read_bytes())
    record.close()
    assert Folder(tmp_path).entry("copy.htr").state == "killed"


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    with RunWriter.create(tmp_path / "a.htr", "c") as record:
        name = record.part.name
        assert folder.entry(name).results == 0
        record.add(*(figure(i) for i in range(500)))
        record.flush()
        assert folder.entry(name).results == 500
    assert folder.entry(name).state == "unreadable"     # it has its own name now
    assert folder.entry("a.htr").state == "complete"


@pytest.mark.parametrize("name", ["../a.htr", "/etc/passwd", "a.htr/", "", ".", "a.HTR", "b.htr",
                                  "sub/a.htr", "a.htr\0", "folder.htr"])
def test_only_listed_names_are_files(tmp_path: Path, name: str) -> None:
    inner = tmp_path / "runs"
    (inner / "sub").mkdir(parents=True)
    (inner / "folder.htr").mkdir()
    for path in (tmp_path / "a.htr", inner / "a.htr", inner / "sub" / "a.htr"):
        RunWriter.create(path, "c").close()
    assert Folder(inner).file(name) is None
    assert Folder(inner).file("a.htr") == inner / "a.htr"


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="it is not there"):
        Folder(tmp_path / "runs")
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match="it is no folder"):
        Folder(tmp_path / "file")


def test_names_of_what_is_being_written() -> None:
    assert run_file_of("all.htr.0123abcd.part") == "all.htr"
    assert run_file_of("all.htr") == "all.htr"
    assert run_file_of("all.htr.0123ABCD.part") == "all.htr.0123ABCD.part"
