"""An arm64 Debian in a folder, run by this x86-64 kernel through qemu: made once, then reused.

Everything done to the machine (mounts, the registration of qemu) is undone when the `with` ends,
however it ends; what a killed call left behind is undone by the next one."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from dev.environment import LOG_COLUMNS_SHOWN, LOG_LINES_SHOWN, Say, SetupError

SUITE = "bookworm"
PACKAGES = ("python3", "python3-numpy", "python3-pyopencl", "pocl-opencl-icd",
            "libgcc-12-dev", "libc6-dev")       # PoCL calls a linker, which needs the last two
NEED_MB = 1500                                  # 740 MB, the packages, and compiled kernels
QEMU = "qemu-aarch64-static"
TOOLS = {"mmdebstrap": "mmdebstrap", QEMU: "qemu-user-static", "chroot": "coreutils",
         "mount": "mount"}                      # and the package that brings each
BINFMT = Path("/proc/sys/fs/binfmt_misc")
ENTRY = "handtorch-aarch64"
LOCK = Path("/run/handtorch-aarch64.lock")      # of the whole machine, as the registration is
# The first bytes of an ELF file for aarch64, program or library, and which bits of them count.
MAGIC = bytes.fromhex("7f454c460201010000000000000000000200b700")
MASK = bytes.fromhex("ffffffffffffff00fffffffffffffffffeffffff")


@dataclass(frozen=True)
class Userland:
    root: Path

    def run(self, command: Sequence[str], out: Path, log: Path, **settings: str) -> int:
        """The exit code of `command` inside; prints into `out`, complains into `log`."""
        inside = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LANG": "C.UTF-8"}
        return run_whole(["chroot", str(self.root), *command], out, log, inside | settings)


@contextlib.contextmanager
def entered(folder: Path, say: Say) -> Iterator[Userland]:
    """The userland kept in `folder`, ready to run; one caller on a machine at a time."""
    refuse_where_it_cannot_work()
    folder.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as undone:
        lock = undone.enter_context(LOCK.open("w"))
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SetupError("another make aarch64 runs on this machine\n"
                             "  try: wait for its end") from None
        undone.enter_context(_ended_by_exception())
        _unmount_leftovers(folder)
        _let_arm64_run(undone, say)
        root = folder / "root"
        if not _is_whole(folder):
            _build(folder, say)
        _mount(undone, "proc", root / "proc")       # PoCL reads both; /dev has nodes of its own
        _mount(undone, "sysfs", root / "sys", "-o", "ro")
        yield Userland(root)


def refuse_where_it_cannot_work() -> None:
    if (machine := f"{platform.system()} {platform.machine()}") != "Linux x86_64":
        raise SetupError(f"this compares aarch64 with x86-64 Linux; this machine is {machine}\n"
                         "  try: make test, which checks the machine it runs on")
    if os.geteuid() != 0:
        raise SetupError("an arm64 userland is mounted and entered, which only root may do\n"
                         "  try: sudo make aarch64")
    if missing := [tool for tool in TOOLS if shutil.which(tool) is None]:
        raise SetupError(f"not installed: {', '.join(missing)}\n  try: apt-get install "
                         + " ".join(TOOLS[tool] for tool in missing))


@contextlib.contextmanager
def _ended_by_exception() -> Iterator[None]:
    """SIGTERM unwinds like Ctrl-C; by default it would leave every mount behind."""
    def end(number: int, frame: object) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def run_whole(command: Sequence[str], out: Path, log: Path, environment: dict[str, str]) -> int:
    """The exit code; interrupted, it ends `command` with all its children, so that none of them
    keeps a mount busy."""
    with out.open("wb") as stdout, log.open("ab") as stderr:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr,
                                   env=environment, start_new_session=True)
        try:
            return process.wait()
        except BaseException:
            if process.returncode is None:          # not yet reaped: the number is still its own
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            raise


def _let_arm64_run(undone: contextlib.ExitStack, say: Say) -> None:
    """Afterwards the kernel starts aarch64 programs, in a chroot too, until `undone` is closed."""
    if not (BINFMT / "register").exists():
        _mount(undone, "binfmt_misc", BINFMT)
    ours = BINFMT / ENTRY
    if not ours.exists():
        if any(_serves(entry.read_text()) for entry in BINFMT.iterdir()
               if entry.name not in ("register", "status")):
            return
        say("registering qemu for aarch64 programs")
        (BINFMT / "register").write_bytes(_registration(shutil.which(QEMU) or QEMU))
    undone.callback(ours.write_text, "-1")          # which removes it


def _registration(interpreter: str) -> bytes:
    """F: the kernel opens qemu now, so it need not exist inside the chroot."""
    def escaped(data: bytes) -> str:
        return "".join(f"\\x{byte:02x}" for byte in data)

    return f":{ENTRY}:M::{escaped(MAGIC)}:{escaped(MASK)}:{interpreter}:F".encode()


def _serves(entry: str) -> bool:
    """Does this entry of binfmt_misc start aarch64 programs in a chroot?"""
    lines = entry.splitlines()
    flags = next((line.split()[1:] for line in lines if line.startswith("flags:")), [])
    return ("enabled" in lines and f"magic {MAGIC.hex()}" in lines
            and any("F" in word for word in flags))


def _mount(undone: contextlib.ExitStack, kind: str, place: Path, *options: str) -> None:
    if subprocess.call(["mount", "-t", kind, *options, kind, str(place)]) != 0:
        raise SetupError(f"{kind} cannot be mounted on {place}\n  try: a machine, or a container, "
                         "whose root may mount")
    undone.callback(_unmount, place)


def _unmount(place: Path) -> None:
    if subprocess.call(["umount", str(place)]) != 0:
        raise SetupError(f"{place} stays mounted\n  try: umount {place}, then repeat")


def mounted_below(folder: Path, table: str) -> list[Path]:
    """What the kernel's `table` has mounted in `folder`, the innermost first."""
    places = [re.sub(r"\\(\d{3})", lambda octal: chr(int(octal[1], 8)), line.split()[1])
              for line in table.splitlines()]           # a space is written \040
    return sorted((Path(p) for p in places if Path(p).is_relative_to(folder)), reverse=True)


def _unmount_leftovers(folder: Path) -> None:
    for place in mounted_below(folder.resolve(), Path("/proc/self/mounts").read_text()):
        _unmount(place)


def _is_whole(folder: Path) -> bool:
    """The note is written last, so a folder without one was interrupted."""
    try:
        return bool(json.loads((folder / "recipe.json").read_text()) == _recipe())
    except (OSError, ValueError):
        return False


def _recipe() -> dict[str, object]:
    return {"suite": SUITE, "packages": list(PACKAGES)}


def _build(folder: Path, say: Say) -> None:
    """Afterwards `folder/root` is a whole arm64 Debian; nothing is mounted in it."""
    free_mb = shutil.disk_usage(folder).free // 10**6
    if free_mb < NEED_MB:
        raise SetupError(f"not enough room on disk: {folder} needs {NEED_MB} MB, {free_mb} MB are "
                         "free\n  try: free some space, or set HANDTORCH_CACHE to another disk")
    say(f"making an arm64 Debian in {folder / 'root'}, this once: 740 MB, some minutes")
    started, log = time.monotonic(), folder / "userland.log"
    (folder / "recipe.json").unlink(missing_ok=True)
    if (folder / "root").exists():
        shutil.rmtree(folder / "root")              # nothing is mounted there: see `entered`
    log.write_text("")
    command = ["mmdebstrap", "--variant=minbase", "--architectures=arm64",
               f"--include={','.join(PACKAGES)}", SUITE, str(folder / "root")]
    if run_whole(command, folder / "userland.out", log, dict(os.environ)) != 0:
        raise SetupError(explained("mmdebstrap", log, "check the network and the proxy, then "
                                                      "repeat"))
    (folder / "recipe.json").write_text(json.dumps(_recipe()))
    say(f"the userland is ready after {time.monotonic() - started:.0f} s")


def explained(what: str, log: Path, fix: str) -> str:
    """`what` failed, the last lines of its log, and what to try."""
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    shown = "".join(f"  | {line[:LOG_COLUMNS_SHOWN]}\n" for line in lines[-LOG_LINES_SHOWN:])
    return f"{what} failed; the end of {log}:\n{shown}  try: {fix}"
