"""The command as a shell starts it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "src"


def shell(line: str) -> subprocess.CompletedProcess[str]:
    """Run a line of sh in which HT is the command."""
    env = os.environ | {"PYTHONPATH": str(SOURCE)}
    command = f"HT() {{ '{sys.executable}' -m handtorch \"$@\"; }}\n{line}"
    return subprocess.run(["sh", "-c", command], env=env, capture_output=True, text=True,
                          timeout=300)


def test_help_ends_well() -> None:
    done = shell("HT --help")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("usage: handtorch [-h] [--version] [--help-knobs] COMMAND ...")


def test_an_error_is_the_exit_code() -> None:
    done = shell("HT nonesuch")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("handtorch: no command 'nonesuch': there is bench, devices")


def test_a_reader_that_leaves_early() -> None:
    done = shell("{ HT --help-knobs; echo $? >&2; } | true")
    assert (done.stdout, done.stderr) == ("", "141\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_full_disk() -> None:
    done = shell("HT --help-knobs > /dev/full")
    assert done.returncode == 2
    assert done.stderr == ("handtorch: the result cannot be written: No space left on device\n")
