from __future__ import annotations

import http.client
import io
import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from handtorch.cli import main as cli
from handtorch.record import Result, RunWriter, Verdict
from handtorch.record.schema import SCHEMA_VERSION


def call(*argv: object) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    return cli.main(["report", *map(str, argv)], out, err), out.getvalue(), err.getvalue()


def a_run(path: Path, value: float = 2.0, command: str = "handtorch study s") -> Path:
    with RunWriter.create(path, command) as record:
        record.add(Result(study="s", name="rate", subject="a", value=value, unit="x",
                          better="higher", repeats=3, spread=0.5, provenance="measured"),
                   Result(study="digits", name="accuracy", subject="captured step", value=0.9,
                          unit="", better="higher", repeats=1, provenance="measured"),
                   Result(study="digits", name="accuracy", subject="PyTorch eager", value=0.8,
                          unit="", better="higher", repeats=1, provenance="measured"),
                   Verdict(study="s", question="Well?", answer="Yes.", holds=True))
    return path


def test_one_run_gets_its_page_beside_it(tmp_path: Path) -> None:
    path = a_run(tmp_path / "a.htr")
    assert call(path) == (0, "A captured PyTorch step learns digits to 90.0%, PyTorch itself to "
                          f"80.0%.\npage  {tmp_path / 'a.html'}\n", "")
    assert "Well?" in (tmp_path / "a.html").read_text()


def test_out_and_json(tmp_path: Path) -> None:
    path, page = a_run(tmp_path / "a.htr"), tmp_path / "new" / "p.html"
    code, out, err = call(path, "--out", page, "--json")
    told = json.loads(out)
    assert (code, err, told["page"], told["run_file"]) == (0, "", str(page), str(path))
    assert told["schema_version"] == SCHEMA_VERSION and len(told["learnt"]) == 1 and page.exists()


def test_several_runs_are_compared(tmp_path: Path) -> None:
    a, b = a_run(tmp_path / "a.htr", 2.0, "before"), a_run(tmp_path / "b.htr", 3.0, "after")
    page = tmp_path / "a-and-b.html"
    assert call(a, b) == (0, f"A  {a}  before\nB  {b}  after\n3 figures in common; of 3 known in A "
                          f"and B, 1 differ by more than their spread\npage  {page}\n", "")
    assert "<title>HandTorch: a and b</title>" in page.read_text()
    told = json.loads(call(a, b, "--json")[1])
    assert [run["command"] for run in told["runs"]] == ["before", "after"]
    assert told["figures"][0]["ratios"] == [1.0, 1.5]
    assert told["figures"][0]["within_spread"] == [True, False]
    assert call(a, b, a, b, "--out", page)[0] == 0


def test_bad_input_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other.htr").write_text("hello, this is no run")
    newer = a_run(tmp_path / "newer.htr")
    with closing(sqlite3.connect(newer)) as db:
        db.execute("PRAGMA user_version = 99")
    for argv, said in (
            ((), "no run named: runs holds none yet\n  try: handtorch report runs/before.htr "
             "runs/after.htr --out compared.html\n"),
            (("none.htr",), "run file none.htr: No such file or directory\n  try: name a .htr "
             "file; runs lie in the folder HANDTORCH_RUNS\n"),
            (("other.htr",), "run file other.htr: not a run file: it begins with b'hello, t'\n"
             "  try: name a .htr file\n"),
            (("newer.htr",), f"run file newer.htr: its schema is version 99, this HandTorch reads "
             f"up to {SCHEMA_VERSION}\n  try: upgrade HandTorch\n"),
            ((".",), "run file .: that is a folder\n  try: handtorch report --serve .\n"),
            (("a.html",), "run file a.html: that is a page: name the run file beside it\n"
             "  try: a.htr\n"),
            (("newer.htr", "--port", "3"), "--port: it belongs to --serve\n  try: handtorch report "
             "--serve --port 3\n"),
            (("--serve", "nowhere"), "the folder nowhere: it is not there\n  try: name a folder "
             "with .htr files, or run `handtorch study all --quick` first\n"),
            (("--serve", "a", "b"), "--serve: it takes one folder\n  try: --serve a\n"),
            (("--serve", "--out", "x"), "--out: --serve writes no file\n  try: leave it out\n")):
        assert call(*argv) == (cli.EXIT_ERROR, "", f"handtorch: {said}")
    a_run(tmp_path / "runs" / "mine.htr")
    assert "no run named: the newest are runs/mine.htr\n" in call()[2]


def test_the_run_itself_is_never_overwritten(tmp_path: Path) -> None:
    path = a_run(tmp_path / "a.htr")
    before = path.read_bytes()
    code, _, err = call(path, "--out", path)
    assert code == cli.EXIT_ERROR and "that is the run file itself" in err
    assert path.read_bytes() == before


@contextmanager
def serving(folder: Path, *argv: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The command in a process of its own, and its first line."""
    env = os.environ | {"PYTHONPATH": str(Path(cli.__file__).parents[2])}
    with subprocess.Popen([sys.executable, "-m", "handtorch", "report", "--serve", str(folder),
                           *argv], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env=env) as child:
        assert child.stdout is not None
        try:
            yield child, child.stdout.readline()
        finally:
            child.kill()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_serve_until_it_is_told_to_end(tmp_path: Path, number: signal.Signals) -> None:
    a_run(tmp_path / "a.htr")
    with serving(tmp_path, "--json") as (child, line):
        told = json.loads(line)
        port = int(told["url"].split(":")[2].rstrip("/"))
        asked = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        asked.request("GET", "/api/runs")
        (run,) = json.loads(asked.getresponse().read())["runs"]
        assert run["name"] == "a.htr" and told["folder"] == str(tmp_path)
        child.send_signal(number)
        out, err = child.communicate(timeout=30)
        assert (child.returncode, out, err) == (0, "", "")


def test_a_line_for_people(tmp_path: Path) -> None:
    with serving(tmp_path) as (child, line):
        assert line.startswith(f"the runs in {tmp_path} are at http://127.0.0.1:")
        child.send_signal(signal.SIGTERM)
        assert child.wait(30) == 0
