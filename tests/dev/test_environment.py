"""Making `.venv`: whole, repaired, updated, or refused with a reason. pip is a script here."""

from __future__ import annotations

import fcntl
import re
import subprocess
import sys
from collections import namedtuple
from pathlib import Path

import pytest

from dev import environment
from dev.environment import SetupError, ensure, python_in

ROOT = Path(__file__).resolve().parents[2]


class Tree:
    """A repository of two files whose Python is a script that notes its calls and then obeys."""

    def __init__(self, root: Path) -> None:
        self.root, self.calls, self.said = root, root / "calls", list[str]()
        self.prints, self.exits, self.venvs = "", 0, 0
        (root / "requirements").mkdir()
        (root / "pyproject.toml").write_text("one")
        (root / "requirements" / "dev.txt").write_text("two")

    def make_venv(self, root: Path, log: Path) -> None:
        self.venvs += 1
        python_in(root).parent.mkdir(parents=True, exist_ok=True)
        python_in(root).write_text(
            f"#!/bin/sh\necho \"$@\" >> '{self.calls}'\ncat <<'END'\n{self.prints}\nEND\n"
            f"exit {self.exits}\n"
        )
        python_in(root).chmod(0o755)

    def ensure(self) -> Path:
        return ensure(self.root, self.said.append)

    def pip_calls(self) -> list[str]:
        shown = self.calls.read_text() if self.calls.exists() else ""
        return re.sub(re.escape(str(self.root)), "ROOT", shown).splitlines()


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tree:
    tree = Tree(tmp_path)
    monkeypatch.setattr(environment, "_make_venv", tree.make_venv)
    monkeypatch.delenv("HANDTORCH_TORCH_INDEX", raising=False)
    return tree


def test_a_new_tree_is_set_up_and_told_the_size_first(tree: Tree) -> None:
    assert tree.ensure() == tree.root / ".venv" / "bin" / "python"
    assert tree.pip_calls() == [
        "-m pip install --progress-bar off -r ROOT/requirements/dev.txt",
        "-m pip install --progress-bar off --no-deps --no-build-isolation --editable ROOT",
    ]
    assert re.search(r"downloads about \d{3} MB", "\n".join(tree.said[:2]))
    assert tree.said[-1].startswith("setup: .venv is ready")


def test_the_second_call_does_nothing(tree: Tree) -> None:
    tree.ensure()
    before, tree.said[:] = tree.pip_calls(), []
    tree.ensure()
    assert (tree.venvs, tree.pip_calls(), tree.said) == (1, before, [])


def test_changed_pins_update_without_starting_over(tree: Tree) -> None:
    tree.ensure()
    (tree.root / "requirements" / "dev.txt").write_text("three")
    tree.ensure()
    assert (tree.venvs, len(tree.pip_calls())) == (1, 4)
    assert "setup: the pins changed; updating .venv" in tree.said


def test_an_interrupted_set_up_is_made_anew(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(environment, "_install", interrupted)
        tree.ensure()
    tree.ensure()
    assert tree.venvs == 2
    assert any("unfinished" in line for line in tree.said)


def test_an_interrupted_update_is_made_anew(tree: Tree) -> None:
    tree.ensure()
    (tree.root / "pyproject.toml").write_text("changed")
    python_in(tree.root).write_text("#!/bin/sh\nexit 1\n")
    with pytest.raises(SetupError):
        tree.ensure()
    tree.ensure()
    assert tree.venvs == 2


def test_a_lost_interpreter_and_a_spoilt_stamp_are_made_anew(tree: Tree) -> None:
    tree.ensure()
    python_in(tree.root).unlink()
    tree.ensure()
    (tree.root / ".venv" / "handtorch-stamp.json").write_text("{half")
    tree.ensure()
    assert tree.venvs == 3


def test_a_moved_tree_is_made_anew(tree: Tree, tmp_path_factory: pytest.TempPathFactory) -> None:
    tree.ensure()
    moved = tmp_path_factory.mktemp("elsewhere") / "tree"
    tree.root.rename(moved)
    ensure(moved, tree.said.append)
    assert tree.venvs == 2


def test_torch_may_have_an_index_of_its_own(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HANDTORCH_TORCH_INDEX", "file:///there")
    tree.ensure()
    assert tree.pip_calls()[0] == (
        "-m pip install --progress-bar off --no-deps --index-url file:///there"
        " -r ROOT/requirements/torch.txt"
    )
    assert len(tree.pip_calls()) == 3


@pytest.mark.parametrize(
    ("prints", "why", "fix"),
    [
        ("ERROR: [Errno 28] No space left on device", "the disk is full",
         "free some space (setup needs about 2.7 GB), then repeat"),
        ("Retrying: Temporary failure in name resolution\nERROR: No matching distribution found",
         "the package index does not answer",
         "check the network and the proxy (HTTPS_PROXY), then repeat"),
        ("ERROR: No matching distribution found for torch==2.13.0",
         "the package index has no such torch",
         "set HANDTORCH_TORCH_INDEX to an index that has it for this Python and machine;"
         " see README.md"),
        ("ERROR: No matching distribution found for numpy==9",
         "the package index lacks a package for this machine",
         "another Python (make PYTHON=python3.11) or another index (PIP_INDEX_URL)"),
        ("ERROR: something new", "see its last lines",
         "mend that and repeat; an unfinished .venv is made anew"),
    ],
)  # fmt: skip
def test_a_failing_pip_is_explained(tree: Tree, prints: str, why: str, fix: str) -> None:
    tree.prints, tree.exits = prints, 1
    with pytest.raises(SetupError) as caught:
        tree.ensure()
    shown = "".join(f"  | {line}\n" for line in prints.splitlines())
    assert str(caught.value) == f"pip install failed: {why}\n{shown}  try: {fix}"
    assert not (tree.root / ".cache" / "unpack").exists()


def test_large_downloads_are_shown_as_they_come(tree: Tree) -> None:
    tree.prints = (
        "Collecting torch\n  Downloading host/a/torch-2.13.0.whl (191.8 MB)\n"
        "  Using cached tiny.whl (0.1 MB)\nInstalling collected packages: a, b, c"
    )
    tree.ensure()
    shown = [line.strip() for line in tree.said if line.startswith("       ")]
    assert shown[-4:-2] == ["downloading torch-2.13.0.whl (191.8 MB)", "installing 3 packages"]


def test_too_little_disk_is_refused_before_anything(
    tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(environment.shutil, "disk_usage", lambda _: usage(0, 0, 10**9))
    monkeypatch.setattr(environment, "_sizes", lambda: {"all": (500, 2000)})
    with pytest.raises(SetupError) as caught:
        tree.ensure()
    assert str(caught.value) == (
        "not enough room on disk: setup needs 2500 MB, 1000 MB are free\n"
        "  try: free some space, or clone onto another disk"
    )
    assert tree.venvs == 0


def test_a_python_without_ensurepip_is_told_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(SetupError) as caught:
        environment._make_venv(tmp_path, tmp_path / "log")
    assert str(caught.value) == (
        "this Python cannot make a virtual environment: it lacks the module venv\n"
        f"  from {sys.executable}\n"
        "  try: apt-get install python3-venv (Debian, Ubuntu), or name another Python: "
        "make PYTHON=..."
    )


def test_a_second_set_up_waits_for_the_first(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    held = list[int]()

    def flock(_: object, how: int) -> None:
        held.append(how)
        if how & fcntl.LOCK_NB:
            raise BlockingIOError

    monkeypatch.setattr(environment.fcntl, "flock", flock)
    tree.ensure()
    assert held == [fcntl.LOCK_EX | fcntl.LOCK_NB, fcntl.LOCK_EX]
    assert tree.said[0] == "another set-up is running in this folder: waiting for it"


def test_foreign_packages_do_not_leak_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "x")
    monkeypatch.setenv("PIP_USER", "1")
    assert not {"PYTHONPATH", "PIP_USER"} & environment.child_environment().keys()


def test_usage_names_every_task() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "dev"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    named = re.findall(r"^  (\w+)", done.stderr, re.MULTILINE)
    assert (done.returncode, done.stdout) == (2, "")
    assert named == ["setup", "run", "test", "slow", "again", "timed", "check", "oclgrind",
                     "aarch64", "bench", "reference", "clean"]


def test_pins_are_exact_and_torch_is_spelt_as_every_index_knows_it() -> None:
    lines = [
        line.partition(";")[0].strip()
        for path in sorted((ROOT / "requirements").glob("*.txt"))
        for line in path.read_text().splitlines()
        if line and not line.startswith(("#", "-r"))
    ]
    assert "torch==2.13.0" in lines
    assert [line for line in lines if not re.fullmatch(r"[\w.-]+==[\w.]+", line)] == []
