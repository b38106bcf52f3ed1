"""`handtorch infer`: the first result of a newcomer, and what it keeps."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from handtorch import knobs
from handtorch.cli import main as cli
from handtorch.runtime.opencl.discover import FoundDevice
from handtorch.store.sample import SAMPLE, data_of

pytestmark = pytest.mark.spread


def call(*argv: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    code = cli.main(["infer", *argv], out, err)
    return code, out.getvalue(), err.getvalue()


def test_the_sample_knows_unseen_digits(opencl_device: FoundDevice) -> None:
    code, out, err = call(SAMPLE, "--device", opencl_device.label)
    assert (code, err) == (cli.EXIT_OK, "")
    first, shape, verdict = out.splitlines()
    assert first == f"digits on {opencl_device.spec.name}: 360 rows"
    assert shape == "  out: float32[360, 10]"
    assert verdict == "  350 of 360 labels met, 97.2%"


def test_outputs_are_kept(tmp_path: Path) -> None:
    x = data_of(SAMPLE).unseen["x"][:40]
    np.savez(tmp_path / "in.npz", x=x)
    code, out, _ = call(SAMPLE, "--device", "ref", "--data", str(tmp_path / "in.npz"), "--json",
                        "--out", str(tmp_path / "out.npz"))
    assert code == cli.EXIT_OK
    assert json.loads(out) == {
        "file": "digits", "device": "generic", "rows": 40, "out": str(tmp_path / "out.npz"),
        "outputs": {"out": {"dtype": "float32", "shape": [40, 10]}}}
    with np.load(tmp_path / "out.npz") as kept:
        labels = data_of(SAMPLE).unseen["y"][:40]
        assert (kept["out"].argmax(1) == labels).mean() > 0.9


def test_a_newcomers_first_result_needs_no_torch() -> None:
    code = ("import sys\n"
            "for name in ('torch', 'sklearn'):\n    sys.modules[name] = None\n"
            "sys.argv = ['handtorch', 'infer', 'digits', '--device', 'ref']\n"
            "from handtorch.cli.main import entry\nsys.exit(entry())")
    done = subprocess.run([sys.executable, "-c", code], env=knobs.environment_for_child(),
                          capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "350 of 360 labels met, 97.2%" in done.stdout


@pytest.mark.parametrize(("argv", "said"), [
    (("none.ht", "--data", SAMPLE), "none.ht cannot be read: No such file or directory"),
    (("some.ht",), "no data given"),
    ((SAMPLE, "--out", "no/such/folder.npz"), "no/such/folder.npz cannot be written"),
])  # fmt: skip
def test_what_cannot_be_done_is_said(argv: tuple[str, ...], said: str, tmp_path: Path,
                                     monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = call(*argv, "--device", "ref")
    assert (code, out) == (cli.EXIT_ERROR, "")
    assert said in err
