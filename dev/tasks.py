"""What each word of `python3 -m dev` does; every task returns an exit code."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from dev.aarch64 import aarch64
from dev.environment import ROOT, SetupError, child_environment, ensure, is_ready

Task = Callable[[list[str]], int]
NO_TESTS = 5                                    # pytest's exit code
FEW = 8                                         # failed tests that may have been stalled
# In the order of tests/conftest.py: the long ones first.
A_FILE_PER_CORE = ("-n", "auto", "--no-loadscope-reorder", "--dist", "loadfile")
A_GROUP_PER_CORE = (*A_FILE_PER_CORE[:-1], "loadgroup")         # a file, or a model of the zoo
DROPPED = (".venv", ".cache", ".hypothesis", "build", "dist")


def _python(*arguments: str, **settings: str) -> int:
    command = [str(ensure()), *arguments]
    print("$ " + shlex.join([".venv/bin/python", *arguments]), flush=True)
    return subprocess.call(command, cwd=ROOT, env=child_environment() | settings)


def setup(more: list[str]) -> int:
    """make .venv with everything pinned in requirements/"""
    ready = "setup: .venv is ready; " if is_ready() else ""     # else it is said when it is made
    ensure()
    print(f"{ready}next: `make run`, or `. .venv/bin/activate` and `handtorch devices`")
    return 0


def run(more: list[str]) -> int:
    """the main job: every study, small and quick, into one run file and one page"""
    return _python("-m", "handtorch", "study", "all", "--quick", *more)


def test(more: list[str]) -> int:
    """all tests but the slow and timed, on every OpenCL implementation found, a file per core"""
    return _python("-m", "pytest", "-m", "not slow and not timed", *A_FILE_PER_CORE, *more,
                   OPENBLAS_NUM_THREADS="1")        # each core has a file already


def slow(more: list[str]) -> int:
    """the slow tests: whole models trained beside PyTorch, every kernel as three phones run it"""
    # Those that take half the memory come first and alone; then the others, a core each.
    alone = _python("-m", "pytest", "-m", "slow and alone", *more)
    others = _python("-m", "pytest", "-m", "slow and not alone", *A_GROUP_PER_CORE, *more)
    # A selection in `more` may leave one half without a test; both without one is a mistake.
    worst = [code for code in (alone, others) if code not in (0, NO_TESTS)]
    return worst[0] if worst else min(alone, others)


def again(more: list[str]) -> int:
    """what failed in the last test runs, once more: one test after the other"""
    # A shared machine stalls for seconds at times, and fails a test that a quiet one passes. What
    # is broken fails twice; where much failed, there is nothing to wait for.
    names = failed(ROOT / ".cache" / "pytest")
    if not 0 < len(names) <= FEW:
        raise SetupError(f"{len(names)} tests failed: once more is for 1 to {FEW}")
    print("once more:", *names, sep="\n  ", flush=True)
    return _python("-m", "pytest", *names, *more)


def failed(cache: Path) -> list[str]:
    """The tests that pytest keeps as failed, without the group that ends the names of some."""
    kept = cache / "v" / "cache" / "lastfailed"
    names = json.loads(kept.read_text()) if kept.exists() else {}
    return sorted({re.sub(r"@[^\]@]*$", "", name) for name in names})


def timed(more: list[str]) -> int:
    """the tests whose verdict is a time: for a machine that does nothing else"""
    return _python("-m", "pytest", "-m", "timed", *more)


def check(more: list[str]) -> int:
    """lint and types"""
    lint = _python("-m", "ruff", "check", ".")
    return _python("-m", "mypy") or lint


def oclgrind(more: list[str]) -> int:
    """every kernel under Oclgrind and through clang's OpenCL front end"""
    if shutil.which("oclgrind") is None:
        raise SetupError(
            "oclgrind is not installed; it checks kernels for races and stray accesses\n"
            "  try: apt-get install oclgrind (Debian, Ubuntu; needs root)"
        )
    needs = ",".join(filter(None, [os.environ.get("HANDTORCH_REQUIRE", ""), "oclgrind"]))
    return _python("-m", "pytest", "-m", "oclgrind or clang", *more, HANDTORCH_REQUIRE=needs)


def bench(more: list[str]) -> int:
    """every file of benchmarks/, or those named"""
    there = {path.stem: path for path in sorted((ROOT / "benchmarks").glob("[!_]*.py"))}
    if unknown := [name for name in more if name not in there]:
        listed = ", ".join(there) or "none"
        raise SetupError(f"no such benchmark: {', '.join(unknown)}\n  try: one of {listed}")
    if not there:
        raise SetupError("there is no benchmark in benchmarks/")
    codes = [_python(str(there[name].relative_to(ROOT))) for name in more or there]
    return next((code for code in codes if code != 0), 0)


def reference(more: list[str]) -> int:
    """docs/reference.md from the docstrings; --check only says whether it is up to date"""
    return _python("-m", "dev.reference", *more)


def clean(more: list[str]) -> int:
    """delete .venv and every cache; run files stay"""
    made = [ROOT / name for name in DROPPED]
    sources = [ROOT / name for name in ("src", "dev", "tests", "benchmarks")]
    made += [p for s in sources for name in ("__pycache__", "*.egg-info") for p in s.rglob(name)]
    for path in filter(Path.exists, made):
        print(f"deleting {path.relative_to(ROOT)}")
        shutil.rmtree(path)
    return 0


TASKS: dict[str, Task] = {
    "setup": setup,
    "run": run,
    "test": test,
    "slow": slow,
    "again": again,
    "timed": timed,
    "check": check,
    "oclgrind": oclgrind,
    "aarch64": aarch64,
    "bench": bench,
    "reference": reference,
    "clean": clean,
}
