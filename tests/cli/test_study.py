"""`handtorch study`, with studies made up for the purpose."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from handtorch.cli import main as cli
from handtorch.cli import study as command
from handtorch.record import Result, Verdict, read_run
from handtorch.runtime.opencl.discover import FoundDevice
from handtorch.studies import STUDIES
from handtorch.studies.study import Setting

pytestmark = [pytest.mark.usefixtures("opencl_device"), pytest.mark.spread]


class Fake(ModuleType):
    """A study with one figure; `after` is called once that is recorded."""

    def __init__(self, name: str, after: Callable[[], None] = lambda: None) -> None:
        super().__init__(name)
        self.QUESTION, self.after = f"Is {name} quick?", after

    def run(self, at: Setting) -> str:
        name = self.__name__
        at.record.add(Result(study=name, name="rate", subject=at.place, value=1.0 + at.quick,
                             unit="x", better="higher", repeats=1, provenance="measured"))
        self.after()
        at.progress(f"{name} done")
        at.record.add(Verdict(study=name, question=self.QUESTION, answer="Yes.", holds=True))
        return f"table of {name}\n"


@pytest.fixture
def studies(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., None]:
    """`studies(one=..., two=...)` replaces the table; run files go to an empty folder."""
    monkeypatch.chdir(tmp_path)

    def use(**after: Callable[[], None]) -> None:
        for name in list(STUDIES):
            monkeypatch.delitem(STUDIES, name)
        for name, called in after.items():
            monkeypatch.setitem(STUDIES, name, f"fake_study_{name}")
            monkeypatch.setitem(sys.modules, f"fake_study_{name}", Fake(name, called))
    return use


def nothing() -> None:
    pass


def stop() -> None:
    raise KeyboardInterrupt


def call(*argv: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    return cli.main(argv, out, err), out.getvalue(), err.getvalue()


def test_all_runs_every_study_into_one_file_and_one_page(
        studies: Callable[..., None], opencl_device: FoundDevice, tmp_path: Path,
        capsys: pytest.CaptureFixture[str]) -> None:
    studies(one=nothing, two=nothing)
    code, out, _ = call("study", "all", "--quick", "--device", opencl_device.short)
    assert code == 0
    (file,), (page,) = tmp_path.glob("runs/all-*.htr"), tmp_path.glob("runs/all-*.html")
    assert out == (f"table of one\n\ntable of two\n\nrun file  runs/{file.name}\n"
                   f"page      runs/{page.name}\n")
    assert capsys.readouterr().err == "one done\ntwo done\n"
    run = read_run(file)
    assert run.info.command == f"handtorch study all --quick --device {opencl_device.short}"
    assert [(r.study, r.value) for r in run.results] == [("one", 2.0), ("two", 2.0)]
    assert run.info.status == "complete"
    assert "Is two quick?" in page.read_text()


def test_json_is_one_record_with_the_files(studies: Callable[..., None], tmp_path: Path) -> None:
    studies(one=nothing, two=nothing)
    code, out, _ = call("study", "two", "--json", "--out", "my.htr")
    record = json.loads(out)
    assert code == 0
    assert (record["run_file"], record["page"]) == ("my.htr", "my.html")
    assert [v["study"] for v in record["verdicts"]] == ["two"]
    assert (tmp_path / "my.html").exists()


def test_interrupted_in_the_middle_everything_before_is_kept(
        studies: Callable[..., None], tmp_path: Path,
        capsys: pytest.CaptureFixture[str]) -> None:
    studies(one=nothing, two=stop, three=nothing)
    code, out, err = call("study", "all", "--out", "run.htr")
    assert (code, out, err) == (cli.EXIT_INTERRUPTED, "", "handtorch: interrupted\n")
    assert capsys.readouterr().err == \
        "one done\nwhat was measured so far is in run.htr and run.html\n"
    run = read_run(tmp_path / "run.htr")
    assert (run.info.status, run.info.status_reason) == ("interrupted",
                                                         "stopped from the keyboard")
    assert [r.study for r in run.results] == ["one", "two"]
    assert [v.study for v in run.verdicts] == ["one"]


def test_an_existing_run_file_is_not_overwritten(studies: Callable[..., None],
                                                 tmp_path: Path) -> None:
    studies(one=nothing)
    (tmp_path / "run.htr").write_text("mine")
    code, _, err = call("study", "one", "--out", "run.htr")
    assert code == cli.EXIT_ERROR
    assert err == ("handtorch: run file run.htr: it already exists\n"
                   "  try: choose another name, or remove it first\n")
    assert (tmp_path / "run.htr").read_text() == "mine"


def test_the_list(studies: Callable[..., None]) -> None:
    studies(one=nothing, three=nothing)
    assert call("study", "--list") == (0, "one    Is one quick?\nthree  Is three quick?\n", "")
    assert json.loads(call("study", "--list", "--json")[1]) == {
        "studies": {"one": "Is one quick?", "three": "Is three quick?"}}


def test_no_name_and_a_wrong_name(studies: Callable[..., None], tmp_path: Path) -> None:
    studies(one=nothing)
    assert call("study")[2] == ("handtorch: no study named: there is one, all\n"
                                "  try: `handtorch study --list`\n")
    assert call("study", "tea")[2] == ("handtorch: no study 'tea': there is one\n"
                                       "  try: `handtorch study --list`\n")
    assert list(tmp_path.iterdir()) == []


def test_it_is_a_command() -> None:
    assert cli.COMMANDS["study"] == command.__name__
