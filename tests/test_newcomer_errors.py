"""Every way in which a newcomer goes wrong, provoked for real: docs/errors.md is the list.

Each section of that page has what was typed and what is said. A command ends with its exit code and
without a traceback; a line of Python raises one of our errors. `...` on the page stands for what
differs from machine to machine. `HANDTORCH_SHOW=1` prints what is really said."""

from __future__ import annotations

import io
import linecache
import os
import re
import shlex
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, redirect_stderr
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from handtorch.cli.main import main
from handtorch.errors import HandTorchError
from tests.meters.trees import closed

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "errors.md"
SECTION = re.compile(r"^### (?P<title>.+?)\n(?P<text>.*?)(?=^##|\Z)", re.MULTILINE | re.DOTALL)
BLOCK = re.compile(r"^```(?P<kind>\w+)\n(?P<body>.*?)^```", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Section:
    """What is typed, as a command or as a Python file, and what is said then."""

    title: str
    kind: str
    typed: str
    said: str


def sections() -> Iterator[Section]:
    for found in SECTION.finditer(PAGE.read_text()):
        blocks = {b["kind"]: b["body"].strip("\n") for b in BLOCK.finditer(found["text"])}
        (kind,) = blocks.keys() - {"text"}
        yield Section(found["title"], kind, blocks[kind], blocks["text"])


SECTIONS = tuple(sections())
# What is wrong with the machine in a section: files are made in a folder, settings are given back.
Wrong = Callable[[Path, ExitStack], dict[str, str]]
WRONG: dict[str, Wrong] = {}


def wrong(title: str) -> Callable[[Wrong], Wrong]:
    def keep(make: Wrong) -> Wrong:
        WRONG[title] = make
        return make
    return keep


@pytest.mark.parametrize("section", SECTIONS, ids=lambda s: s.title)
def test_what_is_said(section: Section, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HANDTORCH_CAPTURE")         # as it is for them
    monkeypatch.delitem(sys.modules, "net", raising=False)
    if section.kind == "python":
        Path("net.py").write_text(f"{section.typed}\n")
    with ExitStack() as until:
        settings = WRONG.get(section.title, lambda *_: {})(tmp_path, until)
        run = _python if section.kind == "python" else _child if settings else _here
        code, said = run(section.typed, settings)
    if os.environ.get("HANDTORCH_SHOW"):
        sys.__stdout__.write(f"\n### {section.title}: {code}\n{said}\n")
    assert code != 0 and "Traceback" not in said
    assert ": " in said.splitlines()[0], "why, in the first line"
    assert "\n  try: " in said, "what to do"
    pattern = re.escape(section.said).replace(re.escape("..."), "[^\n]*")
    assert re.fullmatch(pattern, said), f"{PAGE.name} says\n{section.said}\nand it was\n{said}"


def test_the_list_is_whole() -> None:
    titles = [s.title for s in SECTIONS]
    assert len(titles) == len(set(titles)) and WRONG.keys() <= set(titles)
    assert len(titles) >= 25


def _here(typed: str, settings: dict[str, str]) -> tuple[int, str]:
    """A command, in this process: what it says at last, behind its progress."""
    name, *words = shlex.split(typed)
    assert name == "handtorch"
    out, err = io.StringIO(), io.StringIO()
    with redirect_stderr(err):
        code = main(words, out, err)
    return code, _last(err.getvalue())


def _child(typed: str, settings: dict[str, str]) -> tuple[int, str]:
    """A command in a process of its own, where the machine lacks something."""
    path = os.pathsep.join(filter(None, (settings.pop("first", ""), str(ROOT / "src"))))
    first, *rest = shlex.split(typed)
    words = [sys.executable, *([] if first == "python" else ["-m", first]), *rest]
    done = subprocess.run(words, env={**os.environ, **settings, "PYTHONPATH": path},
                          capture_output=True, text=True, timeout=120)
    if first == "python":                       # its own traceback ends with our message
        return done.returncode, done.stderr[done.stderr.rfind("handtorch.errors."):].rstrip("\n")
    return done.returncode, _last(done.stderr)


def _python(typed: str, settings: dict[str, str]) -> tuple[int, str]:
    """The message with which a file of the user's ends; Python shows it as the last lines."""
    linecache.clearcache()                      # every one of them has this name
    with pytest.raises(HandTorchError) as caught:
        exec(compile(f"{typed}\n", "net.py", "exec"), {"__name__": "net"})
    return 1, str(caught.value)


def _last(text: str) -> str:
    at = text.rfind("handtorch: ")
    return text[max(at, 0):].rstrip("\n")


@wrong("No OpenCL driver")
def _no_driver(folder: Path, until: ExitStack) -> dict[str, str]:
    (folder / "empty").mkdir()
    return {"OCL_ICD_VENDORS": str(folder / "empty")}


@wrong("torch is not installed")
def _no_torch(folder: Path, until: ExitStack) -> dict[str, str]:
    return _torch(folder, "raise ModuleNotFoundError(\"No module named 'torch'\", name='torch')\n")


@wrong("torch is not installed, in Python")
def _no_torch_in_python(folder: Path, until: ExitStack) -> dict[str, str]:
    (folder / "make_step.py").write_text(
        "import handtorch as ht\nht.inference(None, example=())\n")
    return _no_torch(folder, until)


@wrong("Another version of torch")
def _other_torch(folder: Path, until: ExitStack) -> dict[str, str]:
    return _torch(folder, '__version__ = "2.4.1"\n')


def _torch(folder: Path, text: str) -> dict[str, str]:
    """Stands before the real one."""
    (folder / "first" / "torch").mkdir(parents=True)
    (folder / "first" / "torch" / "__init__.py").write_text(text)
    return {"first": str(folder / "first")}


@wrong("A damaged data set")
def _damaged(folder: Path, until: ExitStack) -> dict[str, str]:
    np.savez(folder / "mine.npz", x=np.zeros((64, 64), "f4"), y=np.zeros(64, "i4"))
    whole = (folder / "mine.npz").read_bytes()
    (folder / "mine.npz").write_bytes(whole[:len(whole) // 2])
    return {}


@wrong("Data of another shape")
def _other_shape(folder: Path, until: ExitStack) -> dict[str, str]:
    np.savez(folder / "mine.npz", x=np.zeros((64, 28, 28), "f4"), y=np.zeros(64, "i4"))
    return {}


@wrong("Data of another type")
def _other_type(folder: Path, until: ExitStack) -> dict[str, str]:
    np.savez(folder / "mine.npz", x=np.zeros((64, 64)), y=np.zeros(64, "i4"))
    return {}


@wrong("Arrays of other names")
def _other_names(folder: Path, until: ExitStack) -> dict[str, str]:
    np.savez(folder / "mine.npz", images=np.zeros((64, 64), "f4"))
    return {}


@wrong("No permission for a sensor")
def _closed_sensor(folder: Path, until: ExitStack) -> dict[str, str]:
    zone = folder / "sensors" / "sys/class/thermal/thermal_zone0"
    zone.mkdir(parents=True)
    (zone / "type").write_text("cpu-thermal\n")
    (zone / "temp").write_text("41000\n")
    patch = until.enter_context(pytest.MonkeyPatch.context())
    patch.setenv("HANDTORCH_SENSORS", "sensors")
    until.enter_context(closed(folder, "sensors/sys/class/thermal/thermal_zone0/temp"))
    return {}


@wrong("The port is taken")
def _port_taken(folder: Path, until: ExitStack) -> dict[str, str]:
    taken = until.enter_context(socket.create_server(("127.0.0.1", 0)))
    patch = until.enter_context(pytest.MonkeyPatch.context())
    port = str(taken.getsockname()[1])
    patch.setattr(shlex, "split", lambda typed: typed.replace("8000", port).split())
    return {}


@wrong("Not a .ht file")
@wrong("Not a run file")
def _notes(folder: Path, until: ExitStack) -> dict[str, str]:
    for name in ("notes.ht", "notes.htr"):
        (folder / name).write_text("buy milk, and something more to fill these few bytes\n")
    return {}


@wrong("A .ht file of a newer version")
def _newer_file(folder: Path, until: ExitStack) -> dict[str, str]:
    from handtorch.store.sample import sample_folder
    from handtorch.store.tensors import read_tensors, write_tensors
    arrays, notes = read_tensors(sample_folder() / "digits.ht", sealed=True)
    told = {k: v for k, v in notes.items() if k != "sha256"}
    write_tensors(folder / "new.ht", arrays, {**told, "format_version": "9"})
    return {}


@wrong("A run file of a newer version")
def _newer_run(folder: Path, until: ExitStack) -> dict[str, str]:
    from handtorch.record import RunWriter
    with RunWriter.create(folder / "new.htr", "handtorch study digits"):
        pass
    with closing(sqlite3.connect(folder / "new.htr")) as db:
        db.execute("PRAGMA user_version = 999")
    return {}


@wrong("A run file that is there already")
def _there_already(folder: Path, until: ExitStack) -> dict[str, str]:
    (folder / "net.htr").write_text("")
    return {}


@wrong("No run files where they are to go")
def _runs_is_a_file(folder: Path, until: ExitStack) -> dict[str, str]:
    (folder / "runs").write_text("")
    return {}
