from __future__ import annotations

from pathlib import Path

import pytest

from handtorch.doctor import private
from handtorch.doctor.private import LEFT_OUT, clean, cleaned, own_words, tells

WORDS = ("jane", "janes-phone", "Jane Doe")


@pytest.mark.parametrize("text", [
    "cannot read /data/data/com.termux/files/home/x", "see ~/.cache/handtorch",
    "/storage/emulated/0/a", "owned by jane", "on janes-phone", "of Jane Doe, 3", r"C:\Users\jane",
    "GPU-3f2504e0-4f89-41d3-9a0c-0305e82c3301", "hid-aa:bb:cc:dd:ee:ff-battery",
    "Serial number: A17X2", "serial=0042"])
def test_what_tells_of_the_owner(text: str) -> None:
    assert tells(text, WORDS)


@pytest.mark.parametrize("text", [
    "", "rapl: no /sys/class/powercap", "/proc/stat: No such file or directory",
    "OpenCL 3.0 PoCL 3.1, RELOC, SPIR, LLVM 14.0.6", "pthread-haswell-AMD EPYC", "31.0.101.2111",
    "in group `video`; try: sudo usermod", "/usr/lib/libOpenCL.so.1", "janet", "a serial port",
    "Adreno(TM) 650, OpenCL 2.0 V@0502.0 (GIT@a8e5d8, I5b1d2, 1609239417)"])
def test_what_is_alike_on_everybodys_machine(text: str) -> None:
    assert not tells(text, WORDS)


def test_this_machines_own_words(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", "/srv/canary")
    monkeypatch.setenv("USER", "canaryuser")
    monkeypatch.setenv("HANDTORCH_SENSORS", "/srv/a/canary:/usr/bin:relative/canary")
    monkeypatch.setattr(private.socket, "gethostname", lambda: "canaryhost")
    words = own_words()
    assert {"/srv/canary", "canaryuser", "canaryhost", "/srv/a/canary",
            "relative/canary"} <= words
    assert not words & {"/usr/bin", "root", "localhost", "", "/"}


def test_every_text_of_a_record_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(private, "_own_words", lambda: frozenset(WORDS))
    given = {"a": ["by jane", {"b": ("fine", "/home/" + "x")}], "n": 3, "none": None}
    assert cleaned(given) == {"a": [LEFT_OUT, {"b": ["fine", LEFT_OUT]}], "n": 3, "none": None}
    assert clean("fine") == "fine"
