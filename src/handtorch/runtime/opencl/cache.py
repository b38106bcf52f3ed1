"""ProgramCache: compiled programs on disk, safe against everything that happens to files.

One file per program: a line of magic, a line of JSON that says what it is, then the driver's
binary. A file is used only if every part of that holds; anything else is as if it were not there.
Writing replaces the whole file at once, so two processes may fill the cache together."""

from __future__ import annotations

import hashlib
import json
import warnings
from pathlib import Path

from handtorch import knobs
from handtorch.graph.device_spec import DeviceSpec
from handtorch.store.atomic import write_atomically
from handtorch.store.programs import made_for, sha256

_MAGIC = b"handtorch program 1\n"


class CacheWarning(UserWarning):
    """The cache cannot be written; everything works, but compiles again next time."""


class ProgramCache:
    def __init__(self, spec: DeviceSpec, options: str) -> None:
        self._about = made_for(spec, options)
        self.folder = knobs.cache_folder() / "programs"

    def path(self, source: str) -> Path:
        text = json.dumps([self._about, source], sort_keys=True)
        return self.folder / f"{hashlib.sha256(text.encode()).hexdigest()}.bin"

    def _header(self, source: str, binary: bytes) -> bytes:
        about = {**self._about, "source_sha256": sha256(source),
                 "binary_sha256": hashlib.sha256(binary).hexdigest(), "bytes": len(binary)}
        return json.dumps(about, sort_keys=True).encode()

    def read(self, source: str) -> bytes | None:
        """The binary, or None if there is none that can be trusted."""
        try:
            data = self.path(source).read_bytes()
        except OSError:
            return None
        if not data.startswith(_MAGIC):
            return None
        header, _, binary = data[len(_MAGIC):].partition(b"\n")
        return binary if header == self._header(source, binary) else None

    def write(self, source: str, binary: bytes) -> None:
        """Keep `binary`; a folder that cannot be written costs time later, not the run."""
        data = _MAGIC + self._header(source, binary) + b"\n" + binary
        try:
            write_atomically(self.path(source), data)
        except OSError as e:
            warnings.warn(f"compiled kernels are not kept: {self.folder}: {e.strerror}; "
                          "set HANDTORCH_CACHE to a folder that can be written",
                          CacheWarning, stacklevel=2)
