"""What failed is known by its own name, however it was run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from dev import tasks
from dev.tasks import failed

TESTS = """
import pytest
@pytest.mark.xdist_group("a group")
@pytest.mark.parametrize("x", ["one@two", "three"])
def test_it(x):
    assert x == "three"
"""


@pytest.mark.parametrize("how", [(), ("-n", "1", "--dist", "loadgroup")])
def test_failed_tests_are_found_again(tmp_path: Path, how: tuple[str, ...]) -> None:
    (tmp_path / "test_one.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\ncache_dir = kept\n")
    run = [sys.executable, "-m", "pytest", "-q", *how]
    assert subprocess.run(run, cwd=tmp_path, capture_output=True, check=False).returncode == 1
    names = failed(tmp_path / "kept")
    assert names == ["test_one.py::test_it[one@two]"]
    again = subprocess.run([*run[:4], *names], cwd=tmp_path, capture_output=True, text=True,
                           check=False)
    assert "1 failed" in again.stdout and again.returncode == 1


def test_nothing_failed_where_nothing_ran(tmp_path: Path) -> None:
    assert failed(tmp_path) == []


@pytest.mark.parametrize("ready", [True, False])
def test_setup_says_what_to_type_next(ready: bool, monkeypatch: pytest.MonkeyPatch,
                                      capsys: pytest.CaptureFixture[str]) -> None:
    """That `.venv` is ready too, where making it has not said so."""
    monkeypatch.setattr(tasks, "is_ready", lambda: ready)
    monkeypatch.setattr(tasks, "ensure", lambda: Path("python"))
    assert tasks.setup([]) == 0
    assert capsys.readouterr().out == ("setup: .venv is ready; " if ready else "") + (
        "next: `make run`, or `. .venv/bin/activate` and `handtorch devices`\n")
