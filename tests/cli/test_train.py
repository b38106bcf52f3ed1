"""`handtorch train` and what it keeps; the sample that ships learns on."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pytest

from handtorch.cli import main as cli
from handtorch.cli import train
from handtorch.runtime.opencl.discover import FoundDevice
from handtorch.store.ht_file import read_ht
from handtorch.store.sample import SAMPLE, data_of, model_file
from tests.api import test_budget as budgets

pytestmark = pytest.mark.spread


def call(*argv: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    code = cli.main(["train", *argv], out, err)
    return code, out.getvalue(), err.getvalue()


def test_the_sample_trains_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(SAMPLE, "--device", "ref", "--epochs", "2", "--lr", "0.01", "--json",
                        "--out", str(tmp_path / "mine.ht"))
    told = json.loads(out)
    assert code == cli.EXIT_OK
    assert (told["rows"], told["epochs"], told["steps"]) == (1437, 2, 1320 + 88)
    assert told["accuracy"] > 0.95
    assert told["losses"][-1] < 0.01
    assert capsys.readouterr().err.splitlines()[-1].startswith("epoch 2 of 2: loss 0.00")
    kept, before = read_ht(tmp_path / "mine.ht"), read_ht(model_file(SAMPLE))
    assert kept.steps == told["steps"]
    assert not np.array_equal(kept.states["0.weight"], before.states["0.weight"])
    assert kept.states["optimizer.0.lr"] == np.float32(0.01)


def test_the_same_file_data_and_seed_give_the_same_losses(tmp_path: Path) -> None:
    x, y = (data_of(SAMPLE).arrays[n][:96] for n in "xy")
    np.savez(tmp_path / "some.npz", x=x, y=y)
    runs = [json.loads(call(SAMPLE, "--device", "ref", "--data", str(tmp_path / "some.npz"),
                            "--json", *seed)[1])
            for seed in ((), (), ("--seed", "5"))]
    assert runs[0]["losses"] == runs[1]["losses"] != runs[2]["losses"]
    assert "accuracy" not in runs[0]


def test_a_budget_is_kept_and_told(tmp_path: Path) -> None:
    step, (x, y) = budgets.made("ref"), budgets.batch()
    step.save(tmp_path / "a.ht")
    np.savez(tmp_path / "a.npz", x=x, y=y)
    argv = (str(tmp_path / "a.ht"), "--data", str(tmp_path / "a.npz"), "--device", "ref")
    size = budgets.half(step)
    whole = json.loads(call(*argv, "--json")[1])
    less = json.loads(call(*argv, "--json", "--memory", str(size))[1])
    assert whole["losses"] == less["losses"]
    assert less["budget"]["held_bytes"] <= size < less["budget"]["whole_bytes"]
    assert less["budget"]["slow_down"] > 1 and "budget" not in whole
    told = f"  holds {less['budget']['held_bytes']:,} bytes of {size:,} allowed ("
    assert told in train._text(less)


def test_compiled_programs_are_kept_where_asked_for(opencl_device: FoundDevice, tmp_path: Path
                                                    ) -> None:
    mine = str(tmp_path / "mine.ht")
    argv = ("--device", opencl_device.label, "--json")
    first = json.loads(call(SAMPLE, *argv, "--out", mine, "--programs")[1])
    assert len(read_ht(Path(mine)).programs) == 2, "of the step and of its inference"
    second = json.loads(call(mine, "--data", SAMPLE, *argv, "--trust-programs")[1])
    assert second["steps"] == first["steps"] + 44


@pytest.mark.parametrize(("argv", "said"), [
    ((SAMPLE, "--programs"), "--programs: there is no file to keep them in\n  try: --out FILE.ht"),
    ((SAMPLE, "--memory", "1KB"), "a step within 1,000 bytes: it holds"),
    (("none.ht", "--data", SAMPLE), "none.ht cannot be read: No such file or directory"),
    ((SAMPLE, "--data", "none.npz"), "none.npz cannot be read: No such file or directory"),
    ((SAMPLE, "--epochs", "-1"), "--epochs -1: one cannot train less than nothing"),
    ((SAMPLE, "--lr", "nan"), "the learning rate of group 0 is now nan"),
    (("some.ht",), "no data given\n  try: `handtorch train digits"),
])  # fmt: skip
def test_what_cannot_be_done_is_said(argv: tuple[str, ...], said: str, tmp_path: Path,
                                     monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = call(*argv, "--device", "ref")
    assert (code, out) == (cli.EXIT_ERROR, "")
    assert said in err


def test_data_of_other_names_objects_or_rows_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "d.npz"
    np.savez(path, a=np.zeros(3))
    code, _, err = call(SAMPLE, "--device", "ref", "--data", str(path))
    assert (code, err) == (cli.EXIT_ERROR, f"handtorch: {path} has no array x, y: it has a\n"
                           "  try: numpy.savez(path, x=..., y=...)\n")
    np.savez(path, x=np.array([{}], object), y=np.zeros(1, "i4"))
    code, _, err = call(SAMPLE, "--device", "ref", "--data", str(path))
    assert code == cli.EXIT_ERROR
    assert f"{path} cannot be used: Object arrays cannot be loaded" in err
    path.write_bytes(b"PK\x03\x04 nonsense")
    assert f"{path} cannot be used" in call(SAMPLE, "--device", "ref", "--data", str(path))[2]
    np.savez(path, x=np.zeros((5, 64), "f4"), y=np.zeros(5, "i4"))
    assert "an epoch over 5 rows: a batch of this step has 32" in call(
        SAMPLE, "--device", "ref", "--data", str(path))[2]
