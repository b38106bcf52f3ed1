"""The program cache against everything that happens to files."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import warnings
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handtorch.graph.device_spec import GENERIC
from handtorch.runtime.opencl.cache import CacheWarning, ProgramCache
from tests.runtime.opencl import child

SOURCE = "__kernel void k(__global float *y) { y[0] = 1.0f; }"
BINARY = bytes(range(256)) * 3 + b"\n{}\n"


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ProgramCache:
    monkeypatch.setenv("HANDTORCH_CACHE", str(tmp_path / "cache"))
    return ProgramCache(GENERIC, "-cl-std=CL1.2")


def test_what_is_written_is_read(cache: ProgramCache) -> None:
    assert cache.read(SOURCE) is None
    cache.write(SOURCE, BINARY)
    assert cache.read(SOURCE) == BINARY
    cache.write(SOURCE, b"")
    assert cache.read(SOURCE) == b""


def test_a_file_says_what_it_is(cache: ProgramCache) -> None:
    cache.write(SOURCE, BINARY)
    magic, header, _ = cache.path(SOURCE).read_bytes().split(b"\n", 2)
    assert magic == b"handtorch program 1"
    told = json.loads(header)
    assert told["bytes"] == len(BINARY) and told["device"] == "generic"
    assert told["options"] == "-cl-std=CL1.2"


@pytest.mark.parametrize("fact", ["platform", "platform_version", "name", "device_version",
                                  "driver"])
def test_another_device_or_driver_has_files_of_its_own(cache: ProgramCache, fact: str) -> None:
    """Neither found by name nor believed under our name: Adreno tells its model in the version."""
    changed: dict[str, Any] = {fact: "other"}
    other = ProgramCache(dataclasses.replace(GENERIC, **changed), "-cl-std=CL1.2")
    other.write(SOURCE, BINARY)
    assert other.path(SOURCE) != cache.path(SOURCE)
    os.replace(other.path(SOURCE), cache.path(SOURCE))
    assert cache.read(SOURCE) is None


def test_other_options_or_source_have_files_of_their_own(cache: ProgramCache) -> None:
    for other, source in ((ProgramCache(GENERIC, "-cl-std=CL2.0"), SOURCE),
                          (cache, SOURCE + " ")):
        other.write(source, BINARY)
        assert other.path(source) != cache.path(SOURCE)
        os.replace(other.path(source), cache.path(SOURCE))
        assert cache.read(SOURCE) is None


@pytest.mark.parametrize("data", [
    b"", b"\0" * 900, b"handtorch program 1\n", b"handtorch program 1\n\n", b"\x7fELF",
    b"handtorch program 1\n{}\n", b"handtorch program 1\n" + b"[" * 100_000,
    b"handtorch program 2\n"])
def test_a_foreign_file_is_as_if_absent(cache: ProgramCache, data: bytes) -> None:
    path = cache.path(SOURCE)
    path.parent.mkdir(parents=True)
    path.write_bytes(data)
    assert cache.read(SOURCE) is None
    cache.write(SOURCE, BINARY)
    assert cache.read(SOURCE) == BINARY


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> tuple[ProgramCache, bytes]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HANDTORCH_CACHE", str(tmp_path_factory.mktemp("cache")))
        cache = ProgramCache(GENERIC, "-cl-std=CL1.2")
    cache.write(SOURCE, BINARY)
    return cache, cache.path(SOURCE).read_bytes()


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_no_damage_passes(real: tuple[ProgramCache, bytes], data: st.DataObject) -> None:
    """Cut off anywhere, one bit turned, bytes put in or a stretch of zeros: never believed."""
    cache, whole = real
    at = data.draw(st.integers(0, len(whole) - 1))
    kind = data.draw(st.sampled_from(["cut", "flip", "insert", "zeros"]))
    damaged = {
        "cut": whole[:at],
        "flip": whole[:at] + bytes([whole[at] ^ (1 << at % 8)]) + whole[at + 1:],
        "insert": whole[:at] + data.draw(st.binary(min_size=1, max_size=9)) + whole[at:],
        "zeros": whole[:at] + bytes(len(whole) - at),
    }[kind]
    cache.path(SOURCE).write_bytes(damaged)
    assert cache.read(SOURCE) in ((BINARY,) if damaged == whole else (None,))


def test_a_folder_in_the_place_of_the_file(cache: ProgramCache) -> None:
    cache.path(SOURCE).mkdir(parents=True)
    assert cache.read(SOURCE) is None
    with pytest.warns(CacheWarning) as caught:
        cache.write(SOURCE, BINARY)
    assert [str(w.message) for w in caught] == [
        f"compiled kernels are not kept: {cache.folder}: Is a directory; set HANDTORCH_CACHE to "
        "a folder that can be written"]
    assert [p.name for p in cache.folder.iterdir()] == [cache.path(SOURCE).name]


def test_a_cache_below_a_file_warns_and_goes_on(
        monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What root sees of a read-only folder: permissions do not hold root."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HANDTORCH_CACHE", str(tmp_path / "file" / "cache"))
    cache = ProgramCache(GENERIC, "-cl-std=CL1.2")
    with pytest.warns(CacheWarning) as caught:
        cache.write(SOURCE, BINARY)
    assert [str(w.message) for w in caught] == [
        f"compiled kernels are not kept: {tmp_path}/file/cache/programs: Not a directory; set "
        "HANDTORCH_CACHE to a folder that can be written"]
    assert cache.read(SOURCE) is None


@pytest.mark.skipif(os.geteuid() == 0, reason="permissions do not hold root")
def test_a_read_only_folder_warns_and_goes_on(cache: ProgramCache) -> None:
    cache.folder.mkdir(parents=True)
    cache.folder.chmod(0o500)
    with pytest.warns(CacheWarning, match="Permission denied"):
        cache.write(SOURCE, BINARY)
    assert cache.read(SOURCE) is None


def _full(*_: Any) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_full_disk_warns_and_leaves_what_was_there(
        cache: ProgramCache, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    cache.write(SOURCE, BINARY)
    monkeypatch.setattr(os, call, _full)
    with pytest.warns(CacheWarning) as caught:
        cache.write(SOURCE, b"new")
    assert [str(w.message) for w in caught] == [
        f"compiled kernels are not kept: {cache.folder}: No space left on device; set "
        "HANDTORCH_CACHE to a folder that can be written"]
    assert cache.read(SOURCE) == BINARY
    assert len(list(cache.folder.iterdir())) == 1       # nothing half-written stays


FILL = """
import sys
from pathlib import Path
from handtorch.graph.device_spec import GENERIC
from handtorch.runtime.opencl.cache import ProgramCache
cache = ProgramCache(GENERIC, "-cl-std=CL1.2")
print("ready", flush=True)
sys.stdin.readline()
for i in range(100):
    cache.write("source", bytes([i % 7]) * 20_000)
    got = cache.read("source")
    assert got is not None and len(set(got)) == 1 and len(got) == 20_000, i
"""


def test_processes_that_write_the_same_file_at_once(tmp_path: Path) -> None:
    """Each always reads one whole file, be it another's."""
    children = [child.start(tmp_path, FILL) for _ in range(3)]
    child.go(children)
    for process in children:
        child.output(process)
    assert len(list((tmp_path / "programs").iterdir())) == 1


def test_no_warning_when_all_is_well(cache: ProgramCache) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cache.write(SOURCE, BINARY)
