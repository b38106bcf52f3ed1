"""What ships with the package for a first result without torch: a trained step and its data.

Both are made by `dev/make_sample.py`; whose the data are is in `shipped/DIGITS.txt`."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from handtorch.errors import BadFile, BadInput, StorageError

Array = NDArray[Any]
SAMPLE = "digits"
BRIGHTEST = 16


@dataclass(frozen=True)
class Data:
    """Arrays by the names of a step's inputs; `unseen` are rows kept for testing, if any are."""

    arrays: Mapping[str, Array]
    unseen: Mapping[str, Array]


def sample_folder() -> Path:
    return Path(str(files("handtorch.store"))) / "shipped"


def model_file(name: str) -> Path:
    """The file meant by `name`: a path, or the word for the one that ships."""
    return sample_folder() / f"{SAMPLE}.ht" if name == SAMPLE else Path(name)


def data_of(name: str) -> Data:
    """The arrays meant by `name`: an .npz file, or the word for those that ship."""
    if name != SAMPLE:
        return Data(read_arrays(Path(name)), {})
    told = read_arrays(sample_folder() / f"{SAMPLE}.npz")
    x, y = (told["x"] / BRIGHTEST).astype("f4"), told["y"].astype("i4")
    test = np.arange(len(x)) % 5 == 0
    return Data({"x": x[~test], "y": y[~test]}, {"x": x[test], "y": y[test]})


def read_arrays(path: Path) -> dict[str, Array]:
    """Every array of an .npz file; one that holds Python objects is refused, not opened."""
    try:
        with np.load(path, allow_pickle=False) as found:
            if not isinstance(found, np.lib.npyio.NpzFile):
                raise BadInput(f"{path} holds one array without a name",
                               why="arrays are found by the names of the step's inputs",
                               fix="numpy.savez(path, x=..., y=...)")
            return {name: found[name] for name in found.files}
    except OSError as e:
        raise StorageError(f"{path} cannot be read", why=e.strerror or str(e),
                           fix="check the path: arrays written with numpy.savez(path, x=..., "
                               f"y=...); or {SAMPLE!r}, which ships") from e
    except (ValueError, EOFError, KeyError, zipfile.BadZipFile, zlib.error) as e:
        raise BadFile(f"{path} cannot be used", why=str(e).splitlines()[0] if str(e) else "",
                      fix="arrays written with numpy.savez(path, x=..., y=...)") from e


def inputs_of(arrays: Mapping[str, Array], names: list[str], what: str) -> list[Array]:
    """The arrays of these names, in order."""
    if missing := [n for n in names if n not in arrays]:
        raise BadInput(f"{what} has no array {', '.join(missing)}",
                       why=f"it has {', '.join(arrays) or 'none'}",
                       fix=f"numpy.savez(path, {', '.join(f'{n}=...' for n in names)})")
    return [arrays[n] for n in names]
