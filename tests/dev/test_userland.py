"""The arm64 userland: refused where it cannot work, and nothing left behind. No root is needed."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from dev import userland
from dev.environment import SetupError

TABLE = """proc /proc proc rw 0 0
proc /cache/a/tree/proc proc rw 0 0
sysfs /cache/a/tree/sys sysfs ro 0 0
tmpfs /cache/a/tree/sys/with\\040space tmpfs rw 0 0
proc /cache/another/proc proc rw 0 0
"""
ENTRY = """enabled
interpreter /usr/bin/qemu-aarch64-static
flags: {flags}
offset 0
magic {magic}
mask ffffffffffffff00fffffffffffffffffeffffff
"""
AARCH64 = "7f454c460201010000000000000000000200b700"
RISCV = "7f454c460201010000000000000000000200f300"


@pytest.mark.parametrize(("machine", "user", "tools", "message"), [
    ("aarch64", 0, "mmdebstrap qemu-aarch64-static chroot mount",
     "this compares aarch64 with x86-64 Linux; this machine is Linux aarch64\n"
     "  try: make test, which checks the machine it runs on"),
    ("x86_64", 1000, "mmdebstrap qemu-aarch64-static chroot mount",
     "an arm64 userland is mounted and entered, which only root may do\n  try: sudo make aarch64"),
    ("x86_64", 0, "chroot mount",
     "not installed: mmdebstrap, qemu-aarch64-static\n"
     "  try: apt-get install mmdebstrap qemu-user-static"),
])  # fmt: skip
def test_where_it_cannot_work(machine: str, user: int, tools: str, message: str,
                              monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.system", lambda: "Linux")
    monkeypatch.setattr("platform.machine", lambda: machine)
    monkeypatch.setattr("os.geteuid", lambda: user)
    monkeypatch.setattr("shutil.which", lambda tool: tool if tool in tools.split() else None)
    with pytest.raises(SetupError) as caught:
        userland.refuse_where_it_cannot_work()
    assert str(caught.value) == message


def test_only_our_own_mounts_are_found_the_innermost_first() -> None:
    assert userland.mounted_below(Path("/cache/a"), TABLE) == [
        Path("/cache/a/tree/sys/with space"), Path("/cache/a/tree/sys"), Path("/cache/a/tree/proc")]


@pytest.mark.parametrize(("entry", "serves"), [
    (ENTRY.format(flags="F", magic=AARCH64), True),
    (ENTRY.format(flags="POCF", magic=AARCH64), True),
    (ENTRY.format(flags="OC", magic=AARCH64), False),          # qemu would be sought in the chroot
    (ENTRY.format(flags="", magic=AARCH64), False),
    (ENTRY.format(flags="F", magic=RISCV), False),
    (ENTRY.format(flags="F", magic=AARCH64).replace("enabled", "disabled"), False),
])  # fmt: skip
def test_an_entry_of_another_hand_is_used_if_it_serves(entry: str, serves: bool) -> None:
    assert userland._serves(entry) is serves


class Machine:
    """binfmt_misc as a folder, and what was asked of `mount` and `umount`."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.calls = folder, list[str]()
        self.failing = ""
        monkeypatch.setattr(userland, "BINFMT", folder / "binfmt")
        monkeypatch.setattr("subprocess.call", self.call)
        (folder / "binfmt").mkdir()

    def call(self, command: list[str]) -> int:
        self.calls.append(" ".join(command).replace(str(self.folder), "DIR"))
        if "binfmt_misc" in command:
            (self.folder / "binfmt" / "register").write_bytes(b"")
        return int(command[0] == self.failing)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


def test_what_was_mounted_and_registered_is_undone_in_reverse(machine: Machine) -> None:
    registered = machine.folder / "binfmt" / "register"
    with pytest.raises(KeyboardInterrupt), contextlib.ExitStack() as undone:
        userland._let_arm64_run(undone, str)
        text = registered.read_bytes()
        userland._mount(undone, "proc", machine.folder / "proc")
        raise KeyboardInterrupt
    assert text.startswith(rb":handtorch-aarch64:M::\x7f\x45\x4c\x46\x02") and text.endswith(b":F")
    assert (machine.folder / "binfmt" / userland.ENTRY).read_text() == "-1"
    assert machine.calls == ["mount -t binfmt_misc binfmt_misc DIR/binfmt",
                             "mount -t proc proc DIR/proc", "umount DIR/proc", "umount DIR/binfmt"]


def test_a_registration_of_another_hand_stays(machine: Machine) -> None:
    entry = machine.folder / "binfmt" / "qemu-aarch64"
    entry.write_text(ENTRY.format(flags="F", magic=AARCH64))
    (machine.folder / "binfmt" / "register").write_bytes(b"")
    with contextlib.ExitStack() as undone:
        userland._let_arm64_run(undone, str)
    assert (machine.folder / "binfmt" / "register").read_bytes() == b"" and machine.calls == []
    assert entry.read_text().startswith("enabled")


def test_what_cannot_be_mounted_is_not_unmounted(machine: Machine) -> None:
    machine.failing = "mount"
    with pytest.raises(SetupError) as caught, contextlib.ExitStack() as undone:
        userland._mount(undone, "proc", machine.folder / "proc")
    assert machine.calls == ["mount -t proc proc DIR/proc"]
    assert str(caught.value) == (f"proc cannot be mounted on {machine.folder}/proc\n"
                                 "  try: a machine, or a container, whose root may mount")


def test_a_mount_that_stays_is_told(machine: Machine) -> None:
    machine.failing = "umount"
    place = machine.folder / "proc"
    with pytest.raises(SetupError) as caught, contextlib.ExitStack() as undone:
        userland._mount(undone, "proc", place)
    assert str(caught.value) == f"{place} stays mounted\n  try: umount {place}, then repeat"


def test_a_second_caller_is_refused_and_touches_nothing(machine: Machine,
                                                        monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(userland, "LOCK", machine.folder / "lock")
    monkeypatch.setattr(userland, "refuse_where_it_cannot_work", lambda: None)
    with (machine.folder / "lock").open("w") as first:
        fcntl.flock(first, fcntl.LOCK_EX)
        with (pytest.raises(SetupError) as caught,
              userland.entered(machine.folder / "cache", str)):
            pass
    assert str(caught.value) == ("another make aarch64 runs on this machine\n"
                                 "  try: wait for its end")
    assert machine.calls == []


def test_an_unfinished_or_other_userland_is_not_whole(tmp_path: Path,
                                                      monkeypatch: pytest.MonkeyPatch) -> None:
    assert not userland._is_whole(tmp_path)
    note = tmp_path / "recipe.json"
    note.write_text("{half")
    assert not userland._is_whole(tmp_path)
    monkeypatch.setattr(userland, "run_whole", lambda *_: 0)
    userland._build(tmp_path, str)
    assert userland._is_whole(tmp_path)
    monkeypatch.setattr(userland, "SUITE", "another")
    assert not userland._is_whole(tmp_path)


def test_a_failing_build_is_explained_and_not_whole(tmp_path: Path,
                                                    monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(command: object, out: Path, log: Path, environment: object) -> int:
        log.write_text("I: chroot\n\nE: no route to host\n")
        return 1

    monkeypatch.setattr(userland, "run_whole", fails)
    with pytest.raises(SetupError) as caught:
        userland._build(tmp_path, str)
    assert str(caught.value) == (
        f"mmdebstrap failed; the end of {tmp_path}/userland.log:\n"
        "  | I: chroot\n  | E: no route to host\n"
        "  try: check the network and the proxy, then repeat")
    assert not userland._is_whole(tmp_path)


def test_what_runs_inside_ends_with_its_children(tmp_path: Path) -> None:
    """Interrupted while a grandchild sleeps: neither is left, or it would keep a mount busy."""
    code = ("import subprocess, sys; child = subprocess.Popen(['sleep', '60']);"
            "print(child.pid, flush=True); child.wait()")
    out = tmp_path / "out"

    def interrupt() -> None:
        while not (out.exists() and out.read_text().endswith("\n")):
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGTERM)

    with userland._ended_by_exception():
        threading.Thread(target=interrupt).start()
        with pytest.raises(SystemExit) as caught:
            userland.run_whole([sys.executable, "-c", code], out, tmp_path / "log",
                               dict(os.environ))
    assert caught.value.code == 128 + signal.SIGTERM
    status, until = Path("/proc") / out.read_text().strip() / "stat", time.monotonic() + 10
    while time.monotonic() < until and _runs(status):       # it was told to end, not waited for
        time.sleep(0.01)
    assert not _runs(status)


def _runs(status: Path) -> bool:
    """Without ps, which not every machine has."""
    try:
        return status.read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
