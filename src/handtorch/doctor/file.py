"""The doctor's file: JSON that people can read, in and out. What comes from others is checked."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from handtorch.errors import BadFile, StorageError
from handtorch.store.atomic import write_atomically

FORMAT, VERSION = "handtorch doctor", 1
MOST_BYTES = 1 << 20
_MOST_ENTRIES, _MOST_TEXT, _MOST_NUMBER = 2000, 4000, 1e30
_ANOTHER = "a file that `handtorch doctor` wrote"
_NUMBER = (int, float)
# Fields of each part and their types; None stands for "may be null".
_TOP: Mapping[str, tuple[type | None, ...]] = {
    "made_utc": (str,), "machine": (dict,), "packages": (dict,), "devices": (list,),
    "sensors": (list,), "sensors_absent": (list,)}
_DEVICE: Mapping[str, tuple[type | None, ...]] = {
    "label": (str,), "default": (bool,), "name": (str,), "platform": (str,), "driver": (str,),
    "kind": (str,), "limits": (dict,), "extensions": (list,), "self_test": (dict,),
    "tuning": (dict,), "benchmark": (dict,)}
_TESTED: Mapping[str, tuple[type | None, ...]] = {"state": (str,), "cases": (int,)}
_FIGURE: Mapping[str, tuple[type | None, ...]] = {
    "median": (*_NUMBER, None), "spread": (*_NUMBER, None), "repeats": (int,), "unit": (str,),
    "better": (str,)}
_SENSOR: Mapping[str, tuple[type | None, ...]] = {"meter": (str,), "quantity": (str,)}


def text(record: Mapping[str, Any]) -> str:
    """Indented, so that its owner can look through it before it is sent."""
    return json.dumps(record, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def write(record: Mapping[str, Any], path: Path) -> None:
    """The file is there whole or not at all. Only an older file of ours is replaced."""
    if path.exists():
        try:
            read(path)
        except BadFile as e:
            raise StorageError(f"--out {path}", why="there is a file that is not the doctor's",
                               fix="another name") from e
    try:
        write_atomically(path, text(record).encode())
    except OSError as e:
        raise StorageError(f"--out {path}", why=e.strerror or str(e),
                           fix="choose a folder you may write to") from e


def read(path: Path) -> dict[str, Any]:
    """The record, if all that is compared is there and of the right type; else refused."""
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as e:
        raise StorageError(f"{path}", why=e.strerror or str(e), fix=_ANOTHER) from e
    if len(data) > MOST_BYTES:
        raise _refusal(path, f"it is larger than {MOST_BYTES:,} bytes")
    try:
        told: Any = json.loads(data, parse_constant=_no_constant)
    except (ValueError, RecursionError) as e:
        raise _refusal(path, "it is cut short or no JSON at all") from e
    if not isinstance(told, dict) or told.get("format") != FORMAT:
        raise _refusal(path, "this is no file of the doctor's")
    version = told.get("version")
    if type(version) is int and version > VERSION:
        raise BadFile(f"{path}", why=f"its version is {version}, this HandTorch reads up to "
                      f"{VERSION}", fix="upgrade HandTorch")
    if type(version) is not int or version < 1:
        raise _refusal(path, f"its version is {str(version)[:40]!r}")
    _check(path, told)
    return told


def _check(path: Path, told: dict[str, Any]) -> None:
    _sizes(path, told)
    _fields(path, "", told, _TOP)
    for i, device in enumerate(told["devices"]):
        where = f"devices[{i}]"
        _fields(path, where, device, _DEVICE)
        _fields(path, f"{where}.self_test", device["self_test"], _TESTED)
        for name, figure in device["benchmark"].items():
            _fields(path, f"{where}.benchmark", figure, _FIGURE)
            for number in (figure["median"], figure["spread"]):
                if number is not None and not 0 <= number <= _MOST_NUMBER:
                    raise _refusal(path, f"{where}.benchmark: {name[:40]!r} is no measurement")
    for i, sensor in enumerate(told["sensors"]):
        _fields(path, f"sensors[{i}]", sensor, _SENSOR)


def _fields(path: Path, where: str, part: Any, wanted: Mapping[str, tuple[type | None, ...]]
            ) -> None:
    if not isinstance(part, dict):
        raise _refusal(path, f"{where} is no object")
    for name, types in wanted.items():
        dotted = f"{where}.{name}" if where else name
        if name not in part:
            raise _refusal(path, f"{dotted} is missing")
        value = part[name]
        good = None in types if value is None else type(value) in types
        if not good:
            raise _refusal(path, f"{dotted} is {str(value)[:40]!r}")


def _sizes(path: Path, value: Any) -> None:
    """No list and no text is longer than any of ours."""
    if isinstance(value, dict | list) and len(value) > _MOST_ENTRIES:
        raise _refusal(path, f"a part of it has {len(value):,} entries")
    if isinstance(value, str) and len(value) > _MOST_TEXT:
        raise _refusal(path, f"a text of it has {len(value):,} characters")
    if isinstance(value, dict):
        for key, inner in value.items():
            _sizes(path, key)
            _sizes(path, inner)
    elif isinstance(value, list):
        for inner in value:
            _sizes(path, inner)


def _no_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is no number of JSON")


def _refusal(path: Path, why: str) -> BadFile:
    return BadFile(f"{path}", why=why, fix=_ANOTHER)
