"""`handtorch bench`, with real sides on a tiny model."""

from __future__ import annotations

import io
import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from handtorch.bench import run as bench_run
from handtorch.bench.cases import BENCHES
from handtorch.cli import bench as command
from handtorch.cli import main as cli
from handtorch.record import Result, read_run
from handtorch.runtime.opencl.discover import FoundDevice

pytestmark = [pytest.mark.usefixtures("opencl_device"), pytest.mark.spread]


def call(*argv: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    return cli.main(argv, out, err), out.getvalue(), err.getvalue()


def test_one_run_file_one_page_one_table(opencl_device: FoundDevice, tmp_path: Path,
                                         capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mine.htr"
    code, out, _ = call("bench", "train", "Model1", "--batch", "4", "--sides",
                        "handtorch,torch,mnn", "--quick", "--rounds", "2",
                        "--warm-caches", "--device", opencl_device.label, "--out", str(path))
    assert code == 0
    table = path.with_suffix(".md").read_text()
    assert out.startswith(table)
    assert [line[0] for line in table.split("\n\n")[0].splitlines()] == ["|"] * 5
    assert "| Model1 b4 | handtorch |" in table and "| Model1 b4 | torch |" in table
    assert "Do all sides compute the same as torch?\n2 of 2 do" in out or "3 of 3 do" in out
    assert out.endswith(f"run file  {path}\npage      {path.with_suffix('.html')}\n"
                        f"table     {path.with_suffix('.md')}\n")
    assert "Side by side" in path.with_suffix(".html").read_text()
    assert read_run(path).info.command == (
        "handtorch bench train Model1 --batch 4 --sides handtorch,torch,mnn --quick --warm-caches "
        f"--device {opencl_device.label}")
    assert "Model1 b4: handtorch, first runs" in capsys.readouterr().err


def test_json_is_one_record(opencl_device: FoundDevice, tmp_path: Path) -> None:
    code, out, _ = call("bench", "kernels", "--quick", "--sides", "numpy", "--rounds", "1",
                        "--json", "--device", opencl_device.label, "--out", str(tmp_path / "k.htr"))
    record = json.loads(out)
    assert code == 0 and record["table"] == str(tmp_path / "k.md")
    assert {r["place"] for r in record["results"]} == {"numpy"}


@pytest.mark.parametrize("number, code, reason", [
    (signal.SIGTERM, cli.EXIT_TERMINATED, "stopped by SIGTERM"),
    (signal.SIGINT, cli.EXIT_INTERRUPTED, "stopped from the keyboard")])
def test_what_was_done_before_a_signal_is_in_the_run_file(
        opencl_device: FoundDevice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str], number: int, code: int, reason: str) -> None:
    path = tmp_path / "k.htr"

    def measured(*given: Any) -> None:
        given[2].add(Result(study="bench kernels", name="time of a run", subject="a case",
                            value=1.0, unit="ms", better="lower", repeats=1,
                            provenance="measured"))
        os.kill(os.getpid(), number)
        time.sleep(60)
    monkeypatch.setattr(bench_run, "run", measured)
    before = signal.getsignal(signal.SIGTERM)
    # What a shell starts in the background ignores Ctrl-C; so may this process.
    keyboard = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        told = call("bench", "kernels", "--device", opencl_device.label, "--out", str(path))
    finally:
        signal.signal(signal.SIGINT, keyboard)
    assert told == (code, "", "handtorch: interrupted\n")
    assert f"so far is in {path} and {path.with_suffix('.html')}" in capsys.readouterr().err
    run = read_run(path)
    assert (run.info.status, run.info.status_reason) == ("interrupted", reason)
    assert [r.subject for r in run.results] == ["a case"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["k.html", "k.htr"]
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.parametrize("argv, said", [
    (("train", "NoSuchNet"), "no model 'NoSuchNet' in the zoo"),
    (("train", "Model1:nosuch"), "Model1 in form 'nosuch'"),
    (("train", "Model1", "--sides", "jax"), "no side 'jax'"),
    (("train", "Model1", "--batch", "0"), "--batch 0: a batch has one row or more"),
    (("fly",), "invalid choice: 'fly'"),
])
def test_refusals(tmp_path: Path, argv: tuple[str, ...], said: str) -> None:
    code, out, err = call("bench", *argv, "--out", str(tmp_path / "run.htr"))
    assert (code, out) == (cli.EXIT_ERROR, "") and said in err


def test_the_command_knows_every_task() -> None:
    assert command.TASKS == BENCHES and cli.COMMANDS["bench"] == command.__name__
    assert len(command._suite()) == 16 and "BERT:squad128" in command._suite()
