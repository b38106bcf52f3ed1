"""The folder `.venv`: made once, updated when the pins change, made anew when it is not whole."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.util
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
Say = Callable[[str], None]

TORCH_INDEX = "HANDTORCH_TORCH_INDEX"
# MB downloaded and MB on disk, measured with the pins of requirements/, Linux x86-64, Python 3.11.
TORCH_MB, RUNTIME_MB, REST_MB = (192, 800), (276, 860), (105, 650)
SHOWN_DOWNLOAD_MB = 5.0
LOG_LINES_SHOWN, LOG_COLUMNS_SHOWN = 8, 160


class SetupError(Exception):
    """The environment could not be made; the text says why and what to try."""


def python_in(root: Path) -> Path:
    return root / ".venv" / "bin" / "python"


def child_environment() -> dict[str, str]:
    """The caller's environment without what would leak foreign packages into `.venv`."""
    kept = dict(os.environ)
    for name in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "PIP_USER", "PIP_TARGET", "PIP_PREFIX"):
        kept.pop(name, None)
    return kept


def ensure(root: Path = ROOT, say: Say = print) -> Path:
    """Afterwards `.venv` holds exactly what this tree asks for; returns its Python.

    The stamp is written last and removed first, so a `.venv` without one was interrupted and is
    made anew. Two calls at once wait for each other. A whole `.venv` costs one file comparison.
    """
    if is_ready(root):
        return python_in(root)
    with _only_one_at_a_time(root, say):
        if (found := _stamp_of(root)) != _wanted(root):  # another call may just have finished
            _build(root, found, say)
    return python_in(root)


def is_ready(root: Path = ROOT) -> bool:
    """Whether `ensure` has nothing to do."""
    return _stamp_of(root) == _wanted(root)


def _wanted(root: Path) -> dict[str, str]:
    pins = hashlib.sha256()
    for path in [root / "pyproject.toml", *sorted((root / "requirements").glob("*.txt"))]:
        pins.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    # Scripts and the editable install hold absolute paths: a moved tree needs a new `.venv`.
    return {"pins": pins.hexdigest(), "python": sys.version.split()[0], "root": str(root)}


def _stamp_of(root: Path) -> dict[str, str] | None:
    """What `.venv` was made for, or None if it is absent, unfinished or lost its interpreter."""
    try:
        stamp = json.loads(_stamp_path(root).read_text())
    except (OSError, ValueError):
        return None
    return stamp if python_in(root).exists() and isinstance(stamp, dict) else None


def _stamp_path(root: Path) -> Path:
    return root / ".venv" / "handtorch-stamp.json"


@contextlib.contextmanager
def _only_one_at_a_time(root: Path, say: Say) -> Iterator[None]:
    folder = root / ".cache"
    folder.mkdir(exist_ok=True)
    with (folder / "setup.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another set-up is running in this folder: waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _build(root: Path, found: dict[str, str] | None, say: Say) -> None:
    started = time.monotonic()
    wanted = _wanted(root)
    fresh = found is None or any(found.get(k) != wanted[k] for k in ("python", "root"))
    log = root / ".cache" / "setup.log"
    log.write_text("")
    _stamp_path(root).unlink(missing_ok=True)
    if fresh:
        _announce(root, say)
        _check_room(root)
        _make_venv(root, log)
    else:
        say("setup: the pins changed; updating .venv")
    _install(root, log, say)
    partial = _stamp_path(root).with_suffix(".partial")
    partial.write_text(json.dumps(wanted))
    partial.replace(_stamp_path(root))
    say(f"setup: .venv is ready after {time.monotonic() - started:.0f} s")


def _sizes() -> dict[str, tuple[int, int]]:
    """What is about to be downloaded: name -> (MB to download, MB on disk)."""
    runtime = sys.platform == "linux" and platform.machine() == "x86_64"
    parts = {"torch (CPU build)": TORCH_MB}
    if runtime:
        parts["an OpenCL runtime for the CPU"] = RUNTIME_MB
    return parts | {"the rest": REST_MB}


def _announce(root: Path, say: Say) -> None:
    if (root / ".venv").exists():
        say("setup: .venv is unfinished or was made for another Python or folder; making it anew")
    else:
        say(f"setup: making .venv with Python {platform.python_version()}, this once")
    parts = _sizes()
    download, disk = (sum(mb[i] for mb in parts.values()) for i in (0, 1))
    listed = ", ".join(f"{what} {mb} MB" for what, (mb, _) in parts.items())
    say(f"setup: downloads about {download} MB unless cached, takes {disk / 1000:.1f} GB on disk")
    say(f"       ({listed})")
    if os.environ.get(TORCH_INDEX):
        say(f"       torch comes from the index that {TORCH_INDEX} names")
    else:
        say("       If torch turns out to come with CUDA (several GB), press Ctrl-C and set")
        say(f"       {TORCH_INDEX} to an index with its CPU build; see README.md")


def _check_room(root: Path) -> None:
    """Refuse early where the download and its unpacked form cannot both fit."""
    need_mb = sum(download + disk for download, disk in _sizes().values())
    free_mb = shutil.disk_usage(root).free // 10**6
    # An unfinished .venv gives back its room when it is cleared; how much is not worth counting.
    if free_mb < need_mb and not (root / ".venv").exists():
        raise SetupError(
            f"not enough room on disk: setup needs {need_mb} MB, {free_mb} MB are free\n"
            "  try: free some space, or clone onto another disk"
        )


def _make_venv(root: Path, log: Path) -> None:
    for module in ("venv", "ensurepip"):
        if importlib.util.find_spec(module) is None:
            raise SetupError(
                f"this Python cannot make a virtual environment: it lacks the module {module}\n"
                f"  from {sys.executable}\n"
                "  try: apt-get install python3-venv (Debian, Ubuntu), or name another Python: "
                "make PYTHON=..."
            )
    # The base interpreter, since we may run from the very .venv that is about to be cleared.
    base = getattr(sys, "_base_executable", None) or sys.executable
    command = [base, "-m", "venv", "--clear", str(root / ".venv")]
    with log.open("a") as out:
        code = subprocess.call(command, stdout=out, stderr=out, env=child_environment())
    if code != 0:
        raise SetupError(_explain("python -m venv", log))


def _install(root: Path, log: Path, say: Say) -> None:
    """Torch first when it has an index of its own: the second pass then finds it satisfied."""
    pins = root / "requirements"
    if index := os.environ.get(TORCH_INDEX):
        torch = ["--no-deps", "--index-url", index, "-r", str(pins / "torch.txt")]
        _pip(root, torch, log, say)
    _pip(root, ["-r", str(pins / "dev.txt")], log, say)
    _pip(root, ["--no-deps", "--no-build-isolation", "--editable", str(root)], log, say)


def _pip(root: Path, arguments: list[str], log: Path, say: Say) -> None:
    # pip unpacks in TMPDIR, which on many machines is a small disk in memory: use our own.
    unpack = root / ".cache" / "unpack"
    unpack.mkdir(parents=True, exist_ok=True)
    environment = child_environment() | {
        "TMPDIR": str(unpack), "PIP_NO_INPUT": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }  # fmt: skip
    command = [str(python_in(root)), "-m", "pip", "install", "--progress-bar", "off", *arguments]
    try:
        with (
            log.open("a") as out,
            subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, text=True, errors="replace", env=environment,
            ) as pip,
        ):  # fmt: skip
            assert pip.stdout is not None
            last = ""
            for line in pip.stdout:
                out.write(line)
                if (shown := _worth_showing(line)) and shown != last:
                    say(f"       {shown}")
                    last = shown
    finally:
        shutil.rmtree(unpack, ignore_errors=True)
    if pip.returncode != 0:
        raise SetupError(_explain("pip install", log))


def _worth_showing(line: str) -> str:
    """A short form of the few lines of pip a person waits for, else nothing."""
    line = line.strip()
    if got := re.match(r"(Downloading|Using cached) (\S+) \(([\d.]+) MB\)", line):
        if float(got[3]) >= SHOWN_DOWNLOAD_MB:
            return f"{got[1].lower()} {got[2].rsplit('/', 1)[-1]} ({got[3]} MB)"
    elif line.startswith("Installing collected packages:"):
        count = line.count(",") + 1
        return f"installing {count} packages" if count > 1 else f"installing {line.split(': ')[1]}"
    elif "Retrying" in line:
        return "no answer from the package index; pip tries again"
    return ""


_CAUSES = (
    (r"No space left on device|Errno 28|Disk quota exceeded", "the disk is full",
     "free some space (setup needs about 2.7 GB), then repeat"),
    (r"name resolution|Failed to establish|[Uu]nreachable|Connection\w* ?(refused|reset|[Tt]im)"
     r"|Max retries|ProxyError|ReadTimeout", "the package index does not answer",
     "check the network and the proxy (HTTPS_PROXY), then repeat"),
    (r"No matching distribution found for torch", "the package index has no such torch",
     f"set {TORCH_INDEX} to an index that has it for this Python and machine; see README.md"),
    (r"No matching distribution found", "the package index lacks a package for this machine",
     "another Python (make PYTHON=python3.11) or another index (PIP_INDEX_URL)"),
)  # fmt: skip


def _explain(what: str, log: Path) -> str:
    """What failed, why as far as the log tells, its last lines, and what to try."""
    text = log.read_text(errors="replace")
    lines = [line for line in text.splitlines() if line.strip()][-LOG_LINES_SHOWN:]
    why, fix = "see its last lines", "mend that and repeat; an unfinished .venv is made anew"
    for pattern, cause, remedy in _CAUSES:
        if re.search(pattern, text):
            why, fix = cause, remedy
            break
    shown = "".join(f"  | {line[:LOG_COLUMNS_SHOWN]}\n" for line in lines)
    return f"{what} failed: {why}\n{shown}  try: {fix}"
