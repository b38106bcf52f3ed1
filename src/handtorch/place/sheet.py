"""A device's power sheet: a TOML file that says what its parts draw, and where that is from.

Used where there is no sensor. What comes of it is `estimated`, and never called measured."""

from __future__ import annotations

import math
import os
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from handtorch.errors import BadInput, StorageError

SHIPPED = Path(__file__).parent / "sheets"
_MOST_BYTES = 1 << 20
_FORM = "see docs/sheets.md, or copy one that ships: `handtorch profile --sheet nexus-5`"


@dataclass(frozen=True)
class Figure:
    """A number of the sheet and where it was found; None where the sheet does not have it."""

    value: float | None
    source: str


@dataclass(frozen=True)
class CoreKind:
    """Cores that are alike: what one draws when busy, above the idle power of the device."""

    name: str
    count: int
    busy_w: float
    source: str


@dataclass(frozen=True)
class Sheet:
    name: str
    idle_w: Figure                      # the whole device, doing nothing
    cores: tuple[CoreKind, ...]
    gpu_w: Figure                       # the GPU when busy, above idle
    memory_j: Figure                    # one byte read or written

    def cores_w(self, busy: float) -> float | None:
        """What `busy` cores draw above idle, the strongest kind first; None if there are none."""
        if not self.cores:
            return None
        drawn, left = 0.0, busy
        for kind in sorted(self.cores, key=lambda k: -k.busy_w):
            used = min(left, float(kind.count))
            drawn, left = drawn + used * kind.busy_w, left - used
        return drawn


def shipped() -> tuple[str, ...]:
    return tuple(sorted(p.stem for p in SHIPPED.glob("*.toml")))


def read_sheet(named: str | os.PathLike[str]) -> Sheet:
    """The sheet in a file, or the shipped one of that name."""
    path = Path(named)
    if not path.suffix and path.name == os.fspath(named):
        if path.name not in shipped():
            raise BadInput(f"no power sheet {path.name!r}", why="none of that name ships",
                           fix=f"a file ending in .toml, or one of {', '.join(shipped())}")
        path = SHIPPED / f"{path.name}.toml"
    try:
        with path.open("rb") as file:
            text = file.read(_MOST_BYTES + 1)
        if len(text) > _MOST_BYTES:
            raise BadInput(f"power sheet {path}", why=f"more than {_MOST_BYTES:,} bytes", fix=_FORM)
        given = tomllib.loads(text.decode())
    except OSError as error:
        raise StorageError(f"power sheet {path}", why=error.strerror or str(error),
                           fix=_FORM) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadInput(f"power sheet {path}", why=f"not TOML: {error}", fix=_FORM) from error
    return _Reader(path).sheet(given)


class _Reader:
    """Every word of a sheet is known, every figure has a source."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def sheet(self, given: dict[str, Any]) -> Sheet:
        self._only("the sheet", given, {"name", "idle", "cores", "gpu", "memory"})
        kinds = given.get("cores", [])
        if not isinstance(kinds, list):
            raise self._refusal("cores is not a list: write [[cores]] for each kind")
        return Sheet(self._text("the sheet", given, "name"),
                     self._figure(given, "idle", "watts"), tuple(map(self._kind, kinds)),
                     self._figure(given, "gpu", "busy_watts"),
                     self._figure(given, "memory", "joules_per_byte"))

    def _kind(self, given: Any) -> CoreKind:
        self._only("cores", given, {"kind", "count", "busy_watts", "source"})
        count: Any = given.get("count")
        if type(count) is not int or not 0 < count <= 4096:
            raise self._refusal(f"cores.count is {count!r}, not a number of cores")
        return CoreKind(self._text("cores", given, "kind"), count,
                        self._number("cores", given, "busy_watts"),
                        self._text("cores", given, "source"))

    def _figure(self, given: dict[str, Any], part: str, word: str) -> Figure:
        if part not in given:
            return Figure(None, f"the sheet has no [{part}]")
        self._only(part, given[part], {word, "source"})
        return Figure(self._number(part, given[part], word),
                      self._text(part, given[part], "source"))

    def _only(self, part: str, given: Any, words: set[str]) -> None:
        if not isinstance(given, dict):
            raise self._refusal(f"{part} is {given!r}, not a table")
        if unknown := sorted(set(given) - words):
            raise self._refusal(f"{part} has {unknown[0]!r}; known are {', '.join(sorted(words))}")

    def _text(self, part: str, given: dict[str, Any], word: str) -> str:
        text = given.get(word)
        if not isinstance(text, str) or not text.strip():
            raise self._refusal(f"{part} does not say its {word}")
        return text.strip()

    def _number(self, part: str, given: dict[str, Any], word: str) -> float:
        number: Any = given.get(word)
        known = isinstance(number, int | float) and not isinstance(number, bool)
        if not known or not math.isfinite(number) or number < 0:
            raise self._refusal(f"{part}.{word} is {number!r}, not a number of at least 0")
        return float(number)

    def _refusal(self, why: str) -> BadInput:
        return BadInput(f"power sheet {self._path}", why=why, fix=_FORM)
