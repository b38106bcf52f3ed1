"""Every command's example is taken by its own parser, and stands in its help in one line."""

from __future__ import annotations

import importlib
import io
import shlex

import pytest

from handtorch.cli import main as cli
from handtorch.errors import BadInput


def help_of(*argv: str) -> str:
    out, err = io.StringIO(), io.StringIO()
    assert cli.main([*argv, "--help"], out, err) == 0
    assert err.getvalue() == ""
    return out.getvalue()


def parsed(example: str) -> object:
    """What would be run; nothing is."""
    program, *argv = shlex.split(example)
    assert program == "handtorch"
    return cli._parse(argv).run


@pytest.mark.parametrize("name", sorted(cli.COMMANDS))
def test_the_parser_takes_the_example(name: str) -> None:
    command = importlib.import_module(cli.COMMANDS[name])
    assert parsed(command.EXAMPLE) == command.run


@pytest.mark.parametrize("name", sorted(cli.COMMANDS))
def test_the_help_ends_with_the_example(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    command = importlib.import_module(cli.COMMANDS[name])
    assert help_of(name).endswith(f"\nexample: {command.EXAMPLE}\n")


def test_a_wrong_example_would_be_noticed() -> None:
    with pytest.raises(BadInput, match="unknown argument '--colour'"):
        parsed("handtorch report run.htr --colour")


def test_the_help_names_every_command_with_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    told = " ".join(help_of().split())
    for name, module in cli.COMMANDS.items():
        assert f" {name} {importlib.import_module(module).HELP}" in told
