"""TOML files of figures, of which some ship: every word in them is known, what is wrong is said."""

from __future__ import annotations

import math
import os
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from handtorch.errors import BadInput, StorageError

_MOST_BYTES = 1 << 20


@dataclass(frozen=True)
class Kind:
    """What such a file is called, where those that ship lie, and where its form is described."""

    called: str
    folder: Path
    form: str

    def shipped(self) -> tuple[str, ...]:
        return tuple(sorted(p.stem for p in self.folder.glob("*.toml")))

    def path(self, named: str | os.PathLike[str]) -> Path:
        """The file itself, or the shipped one of that name."""
        path = Path(named)
        if path.suffix or path.name != os.fspath(named):
            return path
        if path.name not in self.shipped():
            raise BadInput(f"no {self.called} {path.name!r}", why="none of that name ships",
                           fix=f"a file ending in .toml, or one of {', '.join(self.shipped())}")
        return self.folder / f"{path.name}.toml"

    def read(self, path: Path) -> dict[str, Any]:
        try:
            with path.open("rb") as file:
                text = file.read(_MOST_BYTES + 1)
            if len(text) > _MOST_BYTES:
                raise self.refusal(path, f"more than {_MOST_BYTES:,} bytes")
            return tomllib.loads(text.decode())
        except OSError as error:
            raise StorageError(f"{self.called} {path}", why=error.strerror or str(error),
                               fix=self.form) from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise self.refusal(path, f"not TOML: {error}") from error

    def refusal(self, path: Path, why: str) -> BadInput:
        return BadInput(f"{self.called} {path}", why=why, fix=self.form)


class Checked:
    """The words of one file, each as what it has to be, or a refusal that names the file."""

    def __init__(self, kind: Kind, path: Path) -> None:
        self._of, self._path = kind, path

    def only(self, part: str, given: Any, words: set[str]) -> None:
        if not isinstance(given, dict):
            raise self.refusal(f"{part} is {given!r}, not a table")
        if unknown := sorted(set(given) - words):
            raise self.refusal(f"{part} has {unknown[0]!r}; known are {', '.join(sorted(words))}")

    def text(self, part: str, given: dict[str, Any], word: str) -> str:
        text = given.get(word)
        if not isinstance(text, str) or not text.strip():
            raise self.refusal(f"{part} does not say its {word}")
        return text.strip()

    def number(self, part: str, given: dict[str, Any], word: str) -> float:
        number: Any = given.get(word)
        known = isinstance(number, int | float) and not isinstance(number, bool)
        if not known or not math.isfinite(number) or number < 0:
            raise self.refusal(f"{part}.{word} is {number!r}, not a number of at least 0")
        return float(number)

    def flag(self, part: str, given: dict[str, Any], word: str) -> bool:
        """False where it is not said."""
        flag = given.get(word, False)
        if not isinstance(flag, bool):
            raise self.refusal(f"{part}.{word} is {flag!r}, neither true nor false")
        return flag

    def refusal(self, why: str) -> BadInput:
        return self._of.refusal(self._path, why)
