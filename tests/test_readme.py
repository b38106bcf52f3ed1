"""The examples of the README and of docs run as they stand there.

Blocks that begin with ```python and ```sh are run, in order and in an empty folder; those marked
`notest` need what this machine does not have. Each block of Python stands alone, and is kept as a
file where it begins with `# NAME.py`; of a shell block the lines that call handtorch are run, and
the one that goes to a folder of one's own: nothing may be left outside of it."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from handtorch.cli.main import main

ROOT = Path(__file__).parents[1]
README, STATE = ROOT / "README.md", ROOT / "docs" / "state.md"
OFFLOAD = ROOT / "docs" / "offload.md"
HOW_TO = sorted((ROOT / "docs" / "how-to").glob("*.md"))
OWN = "my"                                          # the folder that the examples go to
LONG = ("android-termux", "fit-a-memory-budget")    # every kernel is tried; launches are timed
BLOCK = re.compile(r"^```(python|sh)\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


def run_page(page: Path) -> tuple[dict[str, Any], str]:
    """All blocks of a page, here: the names that its Python has made, and all that was printed."""
    names: dict[str, Any] = {}
    out, err = io.StringIO(), io.StringIO()
    for kind, text in BLOCK.findall(page.read_text()):
        if kind == "python":
            if named := re.match(r"# (\w+\.py)\n", text):
                Path(named[1]).write_text(text)
            own: dict[str, Any] = {"__name__": page.stem}
            with contextlib.redirect_stdout(out):
                exec(compile(text, page.name, "exec"), own)
            names |= own
            continue
        for line in text.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            if words == ["mkdir", "-p", OWN, "&&", "cd", OWN]:
                Path(OWN).mkdir()
                os.chdir(OWN)
            if words[:1] == ["handtorch"]:
                with contextlib.redirect_stderr(err):
                    code = main(words[1:], out, err)
                assert code == 0, f"{line}\n{err.getvalue()}"
    return names, out.getvalue()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty one to be in, as somebody has who tries a page, and no settings."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HANDTORCH_CAPTURE")
    monkeypatch.syspath_prepend("")             # the folder one is in, wherever that is
    monkeypatch.delitem(sys.modules, "net", raising=False)
    return tmp_path


@pytest.mark.spread
@pytest.mark.parametrize("page", [
    pytest.param(page, id=page.stem, marks=[pytest.mark.slow] if page.stem in LONG else [])
    for page in HOW_TO])
def test_a_how_to_does_what_it_says(page: Path, opencl_device: Any, folder: Path,
                                    monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HANDTORCH_DEVICE", opencl_device.label)
    names, out = run_page(page)
    assert [p.name for p in folder.iterdir()] in ([], [OWN])
    match page.stem:
        case "train-my-own-model":
            assert names["accuracy"] > 0.95 and (folder / OWN / "better.ht").exists()
        case "personalise-the-last-layer":
            assert names["changed"] == ["1.weight", "1.bias"]
        case "fit-a-memory-budget":
            fitted, whole = names["step"].fitted, names["whole"]
            assert fitted.held_bytes <= 0.8 * whole.held_bytes
            assert fitted.again or fitted.parts > 1
        case "add-an-op":
            assert out.split()[1:] == ["True", "False"]
        case "add-a-sensor":
            assert out == "gpu_usr_c [43.5]\n"


@pytest.mark.spread
def test_the_commands_of_the_readme_do_it(opencl_device: Any, folder: Path,
                                          monkeypatch: pytest.MonkeyPatch) -> None:
    """Those outside its table; each leaves what the next one needs."""
    monkeypatch.setenv("HANDTORCH_DEVICE", opencl_device.label)
    _, out = run_page(README)
    assert "labels met" in out and (folder / OWN / "more.ht").exists()
    assert [p.name for p in folder.iterdir()] == [OWN]


def test_git_ignores_the_folder_of_the_examples() -> None:
    assert f"/{OWN}/" in (ROOT / ".gitignore").read_text().splitlines()


def test_links_lead_somewhere() -> None:
    pages = [ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md")]
    pages += [*ROOT.glob("docs/*.md"), *HOW_TO]
    lost = [f"{page.name}: {to}" for page in pages for to in LINK.findall(page.read_text())
            if "://" not in to and not (page.parent / to).exists()]
    assert lost == []


def test_the_example_trains(opencl_device: object, folder: Path) -> None:
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
