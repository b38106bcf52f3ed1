"""The dispatcher, with commands made up for the purpose."""

from __future__ import annotations

import importlib
import io
import json
import os
import subprocess
import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path
from types import ModuleType
from typing import TextIO

import pytest

from handtorch import knobs
from handtorch.cli import main as cli
from handtorch.errors import KernelError


class Fake(ModuleType):
    """A command that does what its one argument says."""

    HELP = "Do as told"
    EXAMPLE = "handtorch fake fail"
    COMMON = ("device", "quick")

    def add_args(self, parser: ArgumentParser) -> None:
        parser.add_argument("what")

    def run(self, args: Namespace, out: TextIO) -> int:
        if args.what == "fail":
            raise KernelError("kernel gemm", why="3 of 5 wrong", where="a.py:4", fix="update")
        if args.what == "ctrl-c":
            raise KeyboardInterrupt
        out.write(f"{args.what} device={args.device} quick={args.quick} json={args.json}\n")
        return cli.EXIT_NOT_DONE if args.what == "half" else cli.EXIT_OK


@pytest.fixture(autouse=True)
def fake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fake_command", Fake("fake_command"))
    monkeypatch.setattr(cli, "COMMANDS", {"fake": "fake_command", "never": "no.such.module"})


def call(*argv: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    code = cli.main(argv, out, err)
    return code, out.getvalue(), err.getvalue()


def test_a_command_gets_its_options_and_no_other_module_is_imported() -> None:
    assert call("fake", "go", "--device", "pocl", "--quick") == (
        0, "go device=pocl quick=True json=False\n", "")


def test_the_commands_exit_code_is_passed_on() -> None:
    assert call("fake", "half")[0] == 1


def test_an_error_is_text_on_standard_error() -> None:
    assert call("fake", "fail") == (2, "", (
        "handtorch: kernel gemm: 3 of 5 wrong\n  from a.py:4\n  try: update\n"))


def test_an_error_is_a_record_with_json() -> None:
    code, out, err = call("fake", "fail", "--json")
    assert (code, err) == (2, "")
    assert json.loads(out) == {"error": {"kind": "KernelError", "what": "kernel gemm",
                                         "why": "3 of 5 wrong", "where": "a.py:4",
                                         "fix": "update"}}


def test_ctrl_c() -> None:
    assert call("fake", "ctrl-c") == (130, "", "handtorch: interrupted\n")
    assert call("fake", "ctrl-c", "--json") == (130, "", "handtorch: interrupted\n")


@pytest.mark.parametrize(("argv", "message"), [
    (("nonesuch",), "no command 'nonesuch': there is fake, never\n  try: `handtorch --help`\n"),
    (("fake",), "the following arguments are required: what\n  try: `handtorch fake --help`\n"),
    (("fake", "go", "--dev", "x"), "unknown argument '--dev': `handtorch fake` does not take "
                                   "it\n  try: --device? `handtorch fake --help`\n"),
    (("fale",), "no command 'fale': there is fake, never\n"
                "  try: `handtorch fake`? `handtorch --help`\n"),
    (("fake", "go", "--device"),
     "argument --device: expected one argument\n  try: `handtorch fake --help`\n"),
])
def test_a_bad_command_line(argv: tuple[str, ...], message: str) -> None:
    assert call(*argv) == (2, "", f"handtorch: {message}")
    code, out, err = call(*argv, "--json")
    assert (code, err) == (2, "") and json.loads(out)["error"]["kind"] == "BadInput"


def test_no_command_shows_the_help_and_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "COMMANDS", {"fake": "fake_command"})
    code, out, err = call()
    assert (code, out) == (2, "")
    assert "    fake        Do as told\n" in err
    assert err.endswith("handtorch: no command given\n  try: `handtorch devices`\n")


def test_help_of_one_command() -> None:
    code, out, err = call("fake", "--help")
    assert (code, err) == (0, "")
    assert out.startswith("usage: handtorch fake [-h] [--json] [--device NAME] [--quick] what\n")
    assert out.endswith("example: handtorch fake fail\n")


def test_version_and_knobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "COMMANDS", {"fake": "fake_command"})
    code, out, _ = call("--version")
    assert code == 0 and out.startswith(f"handtorch {cli.version()} (Python 3.")
    code, out, _ = call("--help-knobs")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == [k.name for k in knobs.KNOBS]
    assert "HANDTORCH_RUNS     folder for run files and pages [runs]\n" in out


def test_help_imports_nothing_heavy() -> None:
    """Every command's module is imported for `--help`: what they need must come later."""
    code = ("import io, sys; from handtorch.cli.main import main, COMMANDS\n"
            "assert main(['--help'], io.StringIO(), io.StringIO()) == 0\n"
            "assert all(m in sys.modules for m in COMMANDS.values())\n"
            "print([m for m in ('torch', 'numpy', 'pyopencl') if m in sys.modules])")
    env = os.environ | {"PYTHONPATH": str(Path(cli.__file__).parents[2])}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("[]\n", "")


@pytest.mark.parametrize("name", sorted(cli.COMMANDS))
def test_every_command_keeps_the_contract(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    command = importlib.import_module(cli.COMMANDS[name])
    assert "\n" not in command.HELP and not command.HELP.endswith(".")
    assert command.EXAMPLE.startswith(f"handtorch {name}")
    assert set(command.COMMON) <= {"device", "quick"}
