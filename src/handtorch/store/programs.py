"""Compiled programs that a `.ht` file may carry, and whether they may be believed.

A driver's binary is native code, so nothing of the file itself can vouch for it. Each has a MAC
under a secret key of the user who saved it: who does not have the key cannot make one."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import stat
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from handtorch import knobs
from handtorch.errors import StorageError
from handtorch.graph.device_spec import DeviceSpec
from handtorch.store import limits
from handtorch.store.suspect import record, word

_FOR = ("platform", "platform_version", "device", "device_version", "driver", "options",
        "source_sha256")
_LEAST_KEY_BYTES, _MOST_KEY_BYTES, _OPEN_TO_OTHERS = 32, 1 << 16, 0o077


class ProgramsLeft(UserWarning):
    """Compiled programs of a file were not used: kernels are compiled as if it had none."""


@dataclass(frozen=True)
class Built:
    """One driver's binary. `made_for` names platform, device, driver, options and the SHA-256 of
    the kernels' text; `mac` is hexadecimal, over all of that and the binary."""

    made_for: Mapping[str, str]
    binary: bytes
    mac: str

    @property
    def source(self) -> str:
        return self.made_for["source_sha256"]


def made_for(spec: DeviceSpec, options: str) -> dict[str, str]:
    """What else than its source decides a program's binary."""
    return {"platform": spec.platform, "platform_version": spec.platform_version,
            "device": spec.name, "device_version": spec.device_version, "driver": spec.driver,
            "options": options}


def sha256(source: str) -> str:
    return hashlib.sha256(source.encode()).hexdigest()


def vouched(spec: DeviceSpec, options: str, binaries: Mapping[str, bytes]) -> tuple[Built, ...]:
    """Binaries by the SHA-256 of their source, each with a MAC under the user's key, which is
    made if there is none."""
    key, found = own_key(), []
    for source, binary in sorted(binaries.items()):
        told = {**made_for(spec, options), "source_sha256": source}
        found.append(Built(told, binary, _mac(key, told, binary)))
    return tuple(found)


def usable(spec: DeviceSpec, options: str, given: Iterable[Built], *, trust: bool
           ) -> dict[str, bytes]:
    """Those made for this device and driver that may be run, by the SHA-256 of their source: those
    that the user's own key vouches for, or with `trust` all. A warning tells what was left."""
    here = [b for b in given if _same_device(b, made_for(spec, options))]
    if trust or not here:
        return {b.source: b.binary for b in here}
    key = _key()
    ours = [b for b in here if key is not None
            and hmac.compare_digest(b.mac.encode(), _mac(key, b.made_for, b.binary).encode())]
    if left := len(here) - len(ours):
        warnings.warn(f"{left} compiled program(s) in the file are for this device and were not "
                      "used: your key does not vouch for them, and a program can do anything; if "
                      "you know who made the file, trust_programs=True or --trust-programs",
                      ProgramsLeft, stacklevel=3)
    return {b.source: b.binary for b in ours}


def others_of(spec: DeviceSpec, options: str, given: Iterable[Built]) -> tuple[Built, ...]:
    """Those made for other devices or drivers; they keep the MAC they have."""
    return tuple(b for b in given if not _same_device(b, made_for(spec, options)))


def _same_device(built: Built, wanted: Mapping[str, str]) -> bool:
    return all(built.made_for[name] == told for name, told in wanted.items())


def _mac(key: bytes, told: Mapping[str, str], binary: bytes) -> str:
    """Of all of it: neither the binary nor what it is for can be exchanged. The text has no zero
    byte, so where it ends is plain."""
    text = json.dumps([told[name] for name in _FOR]).encode()
    return hmac.new(key, b"handtorch program 1\0" + text + b"\0" + binary, "sha256").hexdigest()


def key_file() -> Path:
    """The user's own, or one that several machines of his share."""
    chosen = knobs.value("HANDTORCH_KEY")
    return Path(chosen).expanduser() if chosen else knobs.cache_folder() / "programs.key"


def own_key() -> bytes:
    """The user's key, which is made if there is none."""
    if (key := _key()) is not None:
        return key
    try:
        return _new_key()
    except StorageError:
        if (key := _key()) is None:       # another process may just have made it
            raise
        return key


def _key() -> bytes | None:
    """The key; None where there is none, or, with a warning, none that only its owner can read:
    whoever reads it can vouch for programs."""
    path = key_file()
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            key = file.read(_MOST_KEY_BYTES)
    except OSError:
        return None
    why = ""
    if mode & _OPEN_TO_OTHERS:
        why = f"others than its owner may use it (mode {stat.S_IMODE(mode):o}); chmod 600"
    elif len(key) < _LEAST_KEY_BYTES:
        why = f"it has {len(key)} bytes, and {_LEAST_KEY_BYTES} are the least"
    if why:
        warnings.warn(f"the key {path} is not used: {why}", ProgramsLeft, stacklevel=4)
        return None
    return key


def _new_key() -> bytes:
    """A key that was not there before, for this user alone; never one in another's place."""
    path, key = key_file(), secrets.token_bytes(_LEAST_KEY_BYTES)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(key)
    except OSError as e:
        raise StorageError("compiled programs cannot be saved",
                           why=f"they need a key, and {path} cannot be made: {e.strerror}",
                           fix="a file of 32 random bytes that only you can read; HANDTORCH_KEY "
                               "names it") from e
    return key


def to_json(built: Built, tensor: str) -> dict[str, str]:
    return {**built.made_for, "mac": built.mac, "tensor": tensor}


def from_json(told: Any) -> tuple[dict[str, str], str, str]:
    """What a program is for, its MAC and its tensor, as a file tells them."""
    told = record(told, "a program", (*_FOR, "mac", "tensor"))
    found = {name: word(told[name], f"a program's {name}", limits.LONGEST_NAME) for name in told}
    return {name: found[name] for name in _FOR}, found["mac"], found["tensor"]
