"""`handtorch bench`, with real sides on a tiny model."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from handtorch.bench.cases import BENCHES
from handtorch.cli import bench as command
from handtorch.cli import main as cli
from handtorch.record import read_run
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
    assert out.startswith(table) and table.count("\n") == 5
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
