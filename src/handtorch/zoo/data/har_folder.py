"""UCI HAR: the folder as published, or npz files with windows.

    train/Inertial Signals/body_acc_x_train.txt ...   128 numbers a line, a line for each window
    train/y_train.txt                                 an activity, 1 to 6, a line
    test/...                                          the same, held out
    har_windows_train.npz, har_windows_test.npz       x (n,128,9) float, y (n) 1 to 6"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from handtorch.errors import BadFile, BadInput
from handtorch.zoo.data.dataset import Array, Arrays, DataSet
from handtorch.zoo.data.opened import AGAIN, bad_at, contents
from handtorch.zoo.data.packed import read_npz

STEPS, ACTIVITIES = 128, 6
SIGNALS = tuple(f"{kind}_{axis}" for kind in ("body_acc", "body_gyro", "total_acc")
                for axis in "xyz")
_NUMBER = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_LONGEST, _LARGEST = 40, 1e30               # of a number: its signs, its value


def load_har(path: Path) -> DataSet:
    """Windows (n, 128, 9) float32 in the order of SIGNALS, and activities 0 to 5; their own test
    part is held out."""
    for folder in (path, path / "UCI HAR Dataset"):
        if (folder / "train" / "Inertial Signals").is_dir():
            return DataSet("har", str(folder), _part(folder, "train"), _part(folder, "test"))
    files = [path / f"har_windows_{part}.npz" for part in ("train", "test")]
    if all(file.exists() for file in files):
        return DataSet("har", str(path), _npz(files[0]), _npz(files[1]))
    raise BadInput(f"no UCI HAR in {path}",
                   why="there is neither train/Inertial Signals nor har_windows_train.npz and "
                       "har_windows_test.npz",
                   fix="unpack 'UCI HAR Dataset.zip' and name its folder")


def _part(folder: Path, part: str) -> Arrays:
    file = folder / part / f"y_{part}.txt"
    labels = read_table(file, 1)[:, 0]
    windows = np.empty((len(labels), STEPS, len(SIGNALS)), np.float32)
    for k, signal in enumerate(SIGNALS):
        source = folder / part / "Inertial Signals" / f"{signal}_{part}.txt"
        found = read_table(source, STEPS)
        if len(found) != len(labels):
            raise BadFile(f"{source} cannot be used",
                          why=f"it has {len(found)} lines, and {file.name} {len(labels)}",
                          fix=AGAIN)
        windows[..., k] = found
    return windows, _activities(file, labels)


def _npz(path: Path) -> Arrays:
    found = read_npz(path, {"x": ("f", 3), "y": ("ui", 1)})
    x, y = found["x"], found["y"]
    if x.shape != (len(y), STEPS, len(SIGNALS)) or not len(y):
        raise BadFile(f"{path} cannot be used",
                      why=f"x is {x.shape} and y {y.shape}, expected (n, {STEPS}, {len(SIGNALS)}) "
                          "and (n)", fix=AGAIN)
    if not np.isfinite(x).all():
        raise BadFile(f"{path} cannot be used", why="x has values that are no numbers", fix=AGAIN)
    return x.astype(np.float32), _activities(path, y)


def _activities(path: Path, labels: Array) -> Array:
    wrong = np.flatnonzero((labels < 1) | (labels > ACTIVITIES) | (labels != np.floor(labels)))
    if len(wrong):
        raise BadFile(f"{path} cannot be used",
                      why=f"activity {labels[wrong[0]]:g} of window {wrong[0]}, expected 1 to "
                          f"{ACTIVITIES}", fix=AGAIN)
    shifted: Array = labels.astype(np.int8) - 1
    return shifted


def read_table(path: Path, columns: int) -> Array:
    """Lines of so many decimal numbers; empty lines do not count."""
    data = contents(path)
    lines = [line for line in data.splitlines() if line.strip()]
    words = data.split()
    # The quick way is tried first; where anything is unusual the slow way finds the place. The
    # length is looked at because NumPy gives every word the room of the longest.
    plain = (not data.translate(None, b"0123456789+-.eE \t\r\n\v\f")
             and max(map(len, words), default=0) <= _LONGEST)
    if plain and words and all(len(line.split()) == columns for line in lines):
        try:
            numbers: Array = np.array(words, dtype=np.bytes_).astype(np.float64)
        except ValueError:
            pass
        else:
            if (np.abs(numbers) <= _LARGEST).all():
                return numbers.astype(np.float32).reshape(len(lines), columns)
    raise _first_wrong(path, data, columns)


def _first_wrong(path: Path, data: bytes, columns: int) -> BadFile:
    at = 0
    for number, line in enumerate(data.splitlines(keepends=True), 1):
        words = line.split()
        for word in words:
            if (len(word) > _LONGEST or not _NUMBER.fullmatch(word)
                    or abs(float(word)) > _LARGEST):
                return bad_at(path, at + line.index(word),
                              f"line {number}: {word[:20]!r}, expected a decimal number")
        if words and len(words) != columns:
            return bad_at(path, at, f"line {number} has {len(words)} numbers, expected {columns}")
        at += len(line)
    return bad_at(path, 0, "it has no line with numbers")
