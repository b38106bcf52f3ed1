"""What the loader does to a process is done once and for all: most of it is tried in children."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from handtorch.errors import NoDevice, StorageError
from handtorch.runtime.opencl import loader

SOURCE = Path(loader.__file__).parents[3]
SETTINGS = ("OCL_ICD_VENDORS", "OPENCL_VENDOR_PATH", "POCL_CACHE_DIR", "PYOPENCL_NO_CACHE")
embedded_only = pytest.mark.skipif(not loader.embedded_libraries(),
                                   reason="no OpenCL runtime from pip is installed")

SEEN = """
import json, os
from handtorch.runtime.opencl import discover, loader
print(json.dumps({
    "found": [[d.short, d.embedded] for d in discover.find_devices()],
    "notes": discover.notes(), "files": [f.name for f in loader.loaded().icd_files],
    "user": loader.loaded().user_vendors,
    "env": {n: os.environ.get(n) for n in ("OCL_ICD_VENDORS", "POCL_CACHE_DIR")}}))
"""


def child(cache: Path, code: str = SEEN, **settings: str) -> Any:
    """Run `code` in a fresh process with only these OpenCL settings; its JSON."""
    env = {k: v for k, v in os.environ.items() if k not in SETTINGS}
    env |= {"PYTHONPATH": str(SOURCE), "HANDTORCH_CACHE": str(cache)} | settings
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True,
                          timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@embedded_only
def test_the_runtime_from_pip_is_found_beside_the_installed_ones(tmp_path: Path) -> None:
    seen = child(tmp_path)
    assert ["intel", True] in seen["found"]
    assert "handtorch-libintelocl.icd" in seen["files"] and seen["notes"] == []
    folder = Path(seen["env"]["OCL_ICD_VENDORS"])
    assert folder.parent == tmp_path / "icd"
    assert sorted(f.name for f in folder.iterdir()) == sorted(seen["files"])
    assert seen["env"]["POCL_CACHE_DIR"] == str(tmp_path / "pocl")
    # A child of such a process sees the same, and knows that the setting is not the user's.
    again = child(tmp_path, **seen["env"])
    assert again == seen and again["user"] == ""


@embedded_only
def test_a_folder_the_user_names_is_all_there_is(tmp_path: Path) -> None:
    vendors = tmp_path / "mine"
    vendors.mkdir()
    (vendors / "only.icd").write_text(f"{loader.embedded_libraries()[0]}\n")
    seen = child(tmp_path / "cache", OCL_ICD_VENDORS=str(vendors), POCL_CACHE_DIR="elsewhere")
    assert seen == {"found": [["intel", True]], "notes": [], "files": ["only.icd"],
                    "user": str(vendors),
                    "env": {"OCL_ICD_VENDORS": str(vendors), "POCL_CACHE_DIR": "elsewhere"}}
    assert not (tmp_path / "cache").exists()


@embedded_only
def test_a_broken_runtime_is_named_and_hides_nothing(tmp_path: Path) -> None:
    for name, text in (("good", loader.embedded_libraries()[0]), ("gone", "no/such/libgone.so")):
        (tmp_path / f"{name}.icd").write_text(f"{text}\n")
    (tmp_path / "torn.icd").write_text(f"{tmp_path}/torn.so\n")
    (tmp_path / "torn.so").write_bytes(b"\x7fELF")
    seen = child(tmp_path / "cache", OCL_ICD_VENDORS=str(tmp_path))
    assert seen["found"] == [["intel", True]]
    assert seen["notes"] == [
        "gone.icd names an OpenCL runtime that does not load (no/such/libgone.so: cannot open "
        "shared object file: No such file or directory)",
        f"torn.icd names an OpenCL runtime that does not load ({tmp_path}/torn.so: file too "
        "short)"]


@embedded_only
def test_pyopencl_imported_first_is_used_as_it_is(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    code = f"""
import os
os.environ["OCL_ICD_VENDORS"] = {str(empty)!r}
import pyopencl
try:
    pyopencl.get_platforms()
except pyopencl.LogicError:
    pass
del os.environ["OCL_ICD_VENDORS"]
""" + SEEN
    seen = child(tmp_path / "cache", code)
    assert seen["found"] == []
    assert seen["notes"] == ["pyopencl was imported before handtorch: if it had already looked "
                             "for platforms, only those are seen"]


@embedded_only
def test_an_unwritable_cache_is_said_and_replaced_for_this_run(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    cache = tmp_path / "file" / "cache"
    seen = child(cache)
    assert ["intel", True] in seen["found"]
    assert seen["notes"] == [
        f"the cache folder {cache} cannot be written (Not a directory): kernels are compiled "
        "anew in every run; HANDTORCH_CACHE names another folder"]
    private = Path(seen["env"]["POCL_CACHE_DIR"])
    assert private.name == "pocl" and not private.parent.exists()     # removed at the end


# From here on in this process, on a copy of the environment.


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine of one installed runtime and one from pip; `loaded` may run without harm."""
    loader.load()       # the real one first: it counts for the rest of this process
    for name in SETTINGS:
        monkeypatch.setenv(name, "")
    monkeypatch.setenv("HANDTORCH_CACHE", str(tmp_path / "cache"))
    system, library = tmp_path / "system", tmp_path / "pip" / "librt.so"
    for folder in (system, library.parent):
        folder.mkdir()
    library.write_text("")
    (system / "acme.icd").write_text("libacme.so\n")
    (system / "readme.txt").write_text("not an icd")
    monkeypatch.setattr(loader, "SYSTEM_FOLDERS", (system, tmp_path / "absent"))
    monkeypatch.setattr(loader, "embedded_libraries", lambda: (library,))
    return tmp_path


def fresh() -> loader.Loaded:
    return loader.loaded.__wrapped__()


def test_the_folder_of_ours_holds_the_systems_files_and_a_right_one(place: Path) -> None:
    loaded = fresh()
    assert {f.name: f.read_text() for f in loaded.icd_files} == {
        "acme.icd": "libacme.so\n", "handtorch-librt.icd": f"{place}/pip/librt.so\n"}
    assert loaded.embedded == (place / "pip" / "librt.so",)
    assert os.environ["OCL_ICD_VENDORS"] == str(loaded.icd_files[0].parent)
    assert os.environ["PYOPENCL_NO_CACHE"] == "1"


def test_a_damaged_file_of_ours_is_mended(place: Path) -> None:
    damaged = fresh().icd_files[0]
    damaged.write_text("garbage")
    assert fresh().icd_files[0] == damaged and damaged.read_text() == "libacme.so\n"


def test_another_set_of_runtimes_gets_another_folder(place: Path) -> None:
    before = fresh().icd_files
    (place / "system" / "acme.icd").write_text("libacme2.so\n")
    assert fresh().icd_files[0].parent != before[0].parent
    assert before[0].read_text() == "libacme.so\n"


def test_of_two_files_of_one_name_the_first_folders_counts(
        place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    second = place / "second"
    second.mkdir()
    for name in ("acme", "more"):
        (second / f"{name}.icd").write_text("libsecond.so\n")
    monkeypatch.setattr(loader, "SYSTEM_FOLDERS", (place / "system", second))
    texts = {f.name: f.read_text() for f in fresh().icd_files}
    assert (texts["acme.icd"], texts["more.icd"]) == ("libacme.so\n", "libsecond.so\n")


def test_without_a_runtime_from_pip_the_loader_is_left_alone(
        place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loader, "embedded_libraries", tuple)
    loaded = fresh()
    assert loaded.icd_files == (place / "system" / "acme.icd",)
    assert os.environ["OCL_ICD_VENDORS"] == ""


def test_files_that_pip_brought_with_a_wrong_path_are_left_out(
        place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = place / "system" / "wrong.icd"
    wrong.write_text("/opt/of/a/build/machine/librt.so\n")
    monkeypatch.setattr(loader, "_files", lambda package: [wrong])
    assert [f.name for f in fresh().icd_files] == ["acme.icd", "handtorch-librt.icd"]


def test_pyopencl_absent(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyopencl", None)
    with pytest.raises(NoDevice) as caught:
        fresh()
    assert str(caught.value) == ("no OpenCL: the Python package pyopencl is not installed\n"
                                 "  try: `pip install pyopencl`")


def test_pyopencl_that_does_not_load(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (place / "pyopencl.py").write_text("raise ImportError('libOpenCL.so.1: not found')")
    monkeypatch.delitem(sys.modules, "pyopencl", raising=False)
    monkeypatch.syspath_prepend(str(place))
    with pytest.raises(NoDevice) as caught:
        fresh()
    assert str(caught.value) == (
        "no OpenCL: pyopencl does not load: libOpenCL.so.1: not found\n"
        "  try: `pip install --force-reinstall pyopencl`")


def test_nowhere_to_write(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(prefix: str) -> None:
        raise OSError(28, "No space left on device")

    (place / "cache").write_text("")
    monkeypatch.setattr(loader.tempfile, "TemporaryDirectory", full)
    monkeypatch.setattr(loader, "_private_folder", loader._private_folder.__wrapped__)
    with pytest.raises(StorageError) as caught:
        fresh()
    assert str(caught.value) == (
        f"no folder to work in: neither the cache {place}/cache nor a temporary folder can be "
        "written (No space left on device)\n"
        "  try: let HANDTORCH_CACHE name a folder you can write to")


def test_many_may_fill_the_folder_at_once(tmp_path: Path) -> None:
    texts = {f"{i}.icd": bytes([65 + i]) * 5000 for i in range(4)}
    seen: list[dict[str, bytes]] = []

    def fill() -> None:
        folder = loader._fill(tmp_path / "icd", texts)
        seen.append({f.name: f.read_bytes() for f in folder.glob("*.icd")})

    threads = [threading.Thread(target=fill) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert seen == [texts] * 8
    assert sorted(f.name for f in (tmp_path / "icd").iterdir()) == sorted(texts)
