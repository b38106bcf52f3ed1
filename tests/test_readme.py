"""The examples of the README and of docs run as they stand there."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README, STATE = ROOT / "README.md", ROOT / "docs" / "state.md"
OFFLOAD = ROOT / "docs" / "offload.md"


def test_the_example_trains(opencl_device: object) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, "README.md", "exec"), {})
    lines = out.getvalue().splitlines()
    assert "launches a step on" in lines[0]
    assert float(lines[-1]) >= 0.95, "accuracy on the first batch"


def test_the_example_of_state_goes_on_as_if_nothing_had_been(
        opencl_device: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", STATE.read_text(), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    uninterrupted = code.replace("        break\n", "").partition("\nmodel, step = new_step()  ")[0]
    assert uninterrupted != code
    told = []
    for text in (code, f"{uninterrupted}\nprint(step.steps, float(loss))"):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(f"import torch; torch.manual_seed(0)\n{text}", "state.md", "exec"), {})
        told.append(out.getvalue())
    assert told[0] == told[1] and told[0].startswith("10 ")


def test_the_example_of_offload_explains_itself(opencl_device: object) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", OFFLOAD.read_text(), re.DOTALL)
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, "offload.md", "exec"), {})
    place, *calls = out.getvalue().splitlines()
    assert place in ("cpu", "device") and len(calls) == 3
    assert re.match(rf"call 100: {place} \(\w+\): cpu .* ms \(load .*\), device ", calls[-1])


def test_the_example_of_place_says_what_it_says() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "place.md").read_text(),
                         re.DOTALL)
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, "place.md", "exec"), {})
    said = re.findall(r"# (.*?)(?: \.\.\.)?$", code, re.MULTILINE)
    assert len(said) == 3 and all(line in out.getvalue().splitlines() for line in said)
