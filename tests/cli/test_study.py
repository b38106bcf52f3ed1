"""`handtorch study`, with studies made up for the purpose."""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from handtorch.cli import main as cli
from handtorch.cli import study as command
from handtorch.record import Result, Verdict, read_run
from handtorch.record.progress import Progress
from handtorch.report.folder import Folder
from handtorch.runtime.opencl.discover import FoundDevice
from handtorch.studies import QUICK_S, STUDIES
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
def studies(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[..., None]]:
    """`studies(one=..., two=...)` replaces the table; run files go to an empty folder."""
    monkeypatch.chdir(tmp_path)
    before = dict(STUDIES)

    def use(**after: Callable[[], None]) -> None:
        STUDIES.clear()
        for name, called in after.items():
            STUDIES[name] = f"fake_study_{name}"
            monkeypatch.setitem(sys.modules, f"fake_study_{name}", Fake(name, called))
    yield use
    STUDIES.clear()                             # in their order again, which is asked for below
    STUDIES.update(before)


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
    told, _, rest = out.partition("What was learnt about this device:\n")
    learnt, _, files = rest.partition("\n\n")
    assert told == "table of one\n\ntable of two\n\n"
    assert files == f"run file  runs/{file.name}\npage      runs/{page.name}\n"
    assert learnt.startswith(f"{opencl_device.label} is {opencl_device.spec.name}, ")
    assert len(learnt.splitlines()) == 1        # made-up studies teach nothing else
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


def test_json_of_all_has_the_lines_too(studies: Callable[..., None]) -> None:
    studies(one=nothing)
    record = json.loads(call("study", "all", "--json")[1])
    assert len(record["learnt"]) == 1 and "learnt" not in json.loads(
        call("study", "one", "--json")[1])


def test_who_follows_sees_the_rows_and_how_far_it_is(
        studies: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[tuple[str, int, Progress | None]] = []

    def look() -> None:
        (entry,) = Folder(tmp_path).entries()
        seen.append((entry.state, entry.results, entry.progress))
    studies(one=nothing, two=look)
    monkeypatch.setattr(command, "QUICK_S", {"one": 30.0, "two": 10.0})
    assert call("study", "all", "--quick", "--out", "run.htr")[0] == 0
    ((state, results, said),) = seen
    assert (state, results) == ("running", 1)   # of `one`; that of `two` waits for a message
    assert said is not None and said.alive and said.text == "one done" and said.share is not None
    assert re.fullmatch(r"\d+ %, about \d+ s left: one done\n"
                        r"\d+ %, about \d+ s left: two done\n", capsys.readouterr().err)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["run.html", "run.htr"]


def test_every_study_has_its_time_in_the_quick_form() -> None:
    assert set(QUICK_S) == set(STUDIES)


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


class Leaving(Fake):
    """A study that leaves something for those after it, and tells what it was left."""

    def run(self, at: Setting) -> str:
        told = f"{self.__name__} was left {at.found}\n"
        at.found[self.__name__] = 7
        super().run(at)
        return told


def test_a_study_is_told_what_those_before_it_in_the_run_left(
        studies: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    studies(one=nothing, two=nothing)
    for name in ("one", "two"):
        monkeypatch.setitem(sys.modules, f"fake_study_{name}", Leaving(name))
    assert call("study", "all")[1].startswith("one was left {}\n\ntwo was left {'one': 7}\n\n")
    assert call("study", "two")[1].startswith("two was left {}\n")


def test_the_days_of_daily_are_there_before_training_judges_by_them() -> None:
    names = list(STUDIES)
    assert names.index("daily") < names.index("training")


def test_it_is_a_command() -> None:
    assert cli.COMMANDS["study"] == command.__name__


class Keeping(Fake):
    """A study with options that goes on with what it has kept."""

    OPTIONS, RESUMES = ("models", "sides"), True

    def run(self, at: Setting) -> str:
        self.options = dict(at.options)
        (at.kept / "row.json").write_text("{}")
        return super().run(at)


@pytest.fixture
def keeping(studies: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> Keeping:
    studies(one=nothing)
    module = Keeping("keeping")
    monkeypatch.setitem(STUDIES, "keeping", "fake_study_keeping")
    monkeypatch.setitem(sys.modules, "fake_study_keeping", module)
    return module


@pytest.mark.parametrize(("device", "sides"), [
    ("cpu,opencl", "torch,device"), ("opencl", "device"), ("cpu", "torch"), ("cpu,NAME",
                                                                            "torch,device")])
def test_a_study_with_sides_takes_torch_and_a_device(
        keeping: Keeping, opencl_device: FoundDevice, device: str, sides: str) -> None:
    code, _, _ = call("study", "keeping", "--models", "A,B", "--out", "run.htr", "--device",
                      device.replace("NAME", opencl_device.short))
    assert code == 0
    assert keeping.options == {"models": "A,B", "sides": sides}


def test_a_study_that_goes_on_may_be_named_again_and_sweeps_what_killed_runs_left(
        keeping: Keeping, tmp_path: Path) -> None:
    assert call("study", "keeping", "--out", "run.htr")[0] == 0
    (tmp_path / "run.htr.0123abcd.part").write_text("of a run that was killed")
    assert call("study", "keeping", "--out", "run.htr")[0] == 0
    assert not list(tmp_path.glob("*.part"))
    assert (tmp_path / "run.kept" / "row.json").exists()


def test_a_second_run_into_the_same_file_is_refused_and_leaves_it_alone(
        keeping: Keeping, tmp_path: Path) -> None:
    from handtorch.studies.kept import held

    assert call("study", "keeping", "--out", "run.htr")[0] == 0
    whole = (tmp_path / "run.htr").read_bytes()
    with held(tmp_path / "run.kept"):
        code, _, err = call("study", "keeping", "--out", "run.htr")
    assert (code, err) == (cli.EXIT_ERROR, "handtorch: a second run into run.kept: another one "
                           "that still runs writes there\n  try: wait for it, or another --out\n")
    assert (tmp_path / "run.htr").read_bytes() == whole


def test_options_that_a_study_does_not_take_are_refused(keeping: Keeping) -> None:
    code, _, err = call("study", "one", "--models", "A")
    assert (code, err) == (cli.EXIT_ERROR, "handtorch: --models: the study one does not take it\n"
                           "  try: `handtorch study training` does\n")
    code, _, err = call("study", "keeping", "--device", "cpu,pocl,intel")
    assert (code, err) == (cli.EXIT_ERROR, "handtorch: --device cpu,pocl,intel: a run has one "
                           "OpenCL device\n  try: --device cpu,pocl\n")
