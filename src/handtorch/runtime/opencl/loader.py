"""Get pyopencl loaded so that it sees every OpenCL runtime: the system's and the one from pip.

An OpenCL loader reads, once and at its first use, a folder of `.icd` files that name runtime
libraries. The pip package `intel-opencl-rt` brings such a file, but it holds the path of its build
machine; so a folder of ours is made, with the system's files and a right one, and the loader is
pointed at it. A user who sets `OCL_ICD_VENDORS` gets exactly what that names.
"""

from __future__ import annotations

import errno
import functools
import hashlib
import importlib
import importlib.metadata
import os
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from handtorch import knobs
from handtorch.errors import NoDevice, StorageError
from handtorch.runtime.opencl.invokers import share_invokers
from handtorch.runtime.opencl.pocl_cache import mend

EMBEDDED = (("intel-opencl-rt", "libintelocl.so"),)     # pip package, its runtime library
SYSTEM_FOLDERS = (Path("/etc/OpenCL/vendors"), Path(sys.prefix) / "etc/OpenCL/vendors")
ROOM_BYTES = 16 << 20       # PoCL ends the process when its cache finds no room on the disk
INSTALL = ("one: `pip install intel-opencl-rt intel-cmplr-lib-rt` (x86-64, needs no root), or the "
           "device's own driver, or PoCL (Debian: `apt install pocl-opencl-icd`)")


@dataclass(frozen=True)
class Loaded:
    """pyopencl, ready for use; `notes` are for the user, in plain words.

    `icd_files` are the files the loader was given, `embedded` the runtimes from pip among them,
    `user_vendors` is the user's own OCL_ICD_VENDORS, empty if ours or none is in force.
    """

    module: ModuleType
    user_vendors: str
    icd_files: tuple[Path, ...]
    embedded: tuple[Path, ...]
    notes: tuple[str, ...]


def load() -> ModuleType:
    """pyopencl, imported after the loader was prepared."""
    return loaded().module


@functools.cache
def loaded() -> Loaded:
    """Prepare the OpenCL loader, then import pyopencl; once per process."""
    notes = []
    if "pyopencl" in sys.modules:
        notes.append("pyopencl was imported before handtorch: if it had already looked for "
                     "platforms, only those are seen")
    home = _Home()
    chosen = knobs.loader_setting("OCL_ICD_VENDORS")
    if chosen and Path(chosen).parent == home.wanted("icd"):    # a parent process set ours
        chosen = ""
    icd_files = icd_files_in(Path(chosen)) if chosen else _point_loader(home)
    if not knobs.loader_setting("POCL_CACHE_DIR"):
        notes += mend(home.folder("pocl"))
        knobs.set_for_loader("POCL_CACHE_DIR", str(home.folder("pocl")))
    # Ours is keyed by driver and validated; two caches of one thing would hide each other.
    knobs.set_for_loader("PYOPENCL_NO_CACHE", "1")
    try:
        module = importlib.import_module("pyopencl")
    except ModuleNotFoundError as missing:
        raise NoDevice("no OpenCL", why=f"the Python package {missing.name} is not installed",
                       fix="`pip install pyopencl`") from missing
    except ImportError as broken:       # built against an OpenCL loader that is not there
        raise NoDevice("no OpenCL", why=f"pyopencl does not load: {broken}",
                       fix="`pip install --force-reinstall pyopencl`") from broken
    share_invokers()
    embedded = tuple(p for p in embedded_libraries() if _named_by(icd_files, p))
    return Loaded(module, chosen, icd_files, embedded, (*notes, *home.notes))


def embedded_libraries() -> tuple[Path, ...]:
    """The runtime libraries that pip packages brought, where they really lie."""
    found = []
    for package, library in EMBEDDED:
        for file in _files(package):
            if file.name == library and file.is_file():
                found.append(file)
    return tuple(found)


def _files(package: str) -> list[Path]:
    try:
        listed = importlib.metadata.files(package) or []
    except importlib.metadata.PackageNotFoundError:
        return []
    return [Path(str(f.locate())).resolve() for f in listed]


def _point_loader(home: _Home) -> tuple[Path, ...]:
    """Let the loader see the embedded runtimes beside the system's; the files it will read."""
    system = _system_files()
    libraries = embedded_libraries()
    if not libraries:
        return system       # leave the loader alone: it may know folders that we do not
    texts = {f.name: f.read_bytes() for f in reversed(system)}     # the first folder wins
    texts |= {f"handtorch-{lib.stem}.icd": f"{lib}\n".encode() for lib in libraries}
    digest = hashlib.sha256(repr(sorted(texts.items())).encode()).hexdigest()[:12]
    # One folder per content: environments that share a cache do not overwrite each other's.
    folder = home.folder(f"icd/{digest}", texts)
    knobs.set_for_loader("OCL_ICD_VENDORS", str(folder))
    return icd_files_in(folder)


def _system_files() -> tuple[Path, ...]:
    own = knobs.loader_setting("OPENCL_VENDOR_PATH")
    folders = (Path(own),) if own else SYSTEM_FOLDERS
    broken = {f for package, _ in EMBEDDED for f in _files(package)}
    return tuple(f for folder in folders for f in icd_files_in(folder)
                 if f.resolve() not in broken)


def icd_files_in(place: Path) -> tuple[Path, ...]:
    """The `.icd` files a loader finds there: a folder's, or the file itself."""
    files = sorted(place.glob("*.icd")) if place.is_dir() else [place]
    return tuple(f for f in files if f.is_file() and os.access(f, os.R_OK))


def _named_by(icd_files: tuple[Path, ...], library: Path) -> bool:
    return any(f.suffix == ".icd" and f.read_text(errors="replace").strip() == str(library)
               for f in icd_files)


class _Home:
    """Folders under our cache, or, said in `notes`, under a private one that lives for this run."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self._root = knobs.cache_folder().absolute()

    def wanted(self, name: str) -> Path:
        return self._root / name

    def folder(self, name: str, texts: dict[str, bytes] | None = None) -> Path:
        """The folder `name`, existing, writable and holding these files."""
        try:
            return _fill(self._root / name, texts or {})
        except OSError as refused:
            self.notes.append(f"the cache folder {self._root} cannot be written "
                              f"({refused.strerror}): kernels are compiled anew in every run; "
                              "HANDTORCH_CACHE names another folder")
        try:
            self._root = Path(_private_folder().name)
            return _fill(self._root / name, texts or {})
        except OSError as refused:
            raise StorageError("no folder to work in",
                               why=f"neither the cache {knobs.cache_folder()} nor a temporary "
                                   f"folder can be written ({refused.strerror})",
                               fix="let HANDTORCH_CACHE name a folder you can write to"
                               ) from refused


@functools.cache
def _private_folder() -> tempfile.TemporaryDirectory[str]:
    """One per process, removed when it ends."""
    return tempfile.TemporaryDirectory(prefix="handtorch-")


def _fill(folder: Path, texts: dict[str, bytes]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        target = folder / name
        if not (target.is_file() and target.read_bytes() == text):
            _write(target, text)
    tempfile.TemporaryFile(dir=folder).close()      # others will write here
    if shutil.disk_usage(folder).free < ROOM_BYTES:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    return folder


def _write(target: Path, text: bytes) -> None:
    """All of it or nothing, also when two processes write at once."""
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=".new-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(text)
        os.replace(name, target)
    except OSError:
        Path(name).unlink(missing_ok=True)
        raise
