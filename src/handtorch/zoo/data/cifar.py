"""CIFAR-10: the official binary and python formats, or one npz file.

    binary      data_batch_1.bin ... data_batch_5.bin, test_batch.bin: records of 3073 bytes, a
                label and 32x32 red, green and blue values
    python      data_batch_1 ... data_batch_5, test_batch: pickles, read by `pickled.py`
    npz         x_train (n,3,32,32) uint8, y_train, x_test, y_test

A folder with some of the training files and the test file will do."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from handtorch.errors import BadInput
from handtorch.zoo.data.dataset import Arrays, DataSet, split_off
from handtorch.zoo.data.opened import bad_at, contents
from handtorch.zoo.data.pickled import read_batch
from handtorch.zoo.data.pictures import check_labels, from_npz, joined

SHAPE = (3, 32, 32)
RECORD = 1 + 3 * 32 * 32
FOLDERS = ("cifar-10-batches-bin", "cifar-10-batches-py")


def load_cifar10(path: Path) -> DataSet:
    """From a folder, one batch file (its last tenth is held out), or an npz file."""
    if path.is_dir():
        train, held_out = _folder(path)
    elif path.suffix == ".npz":
        train, held_out = from_npz(path, SHAPE)
    else:
        train, held_out = split_off(_file(path))
    return DataSet("cifar10", str(path), train, held_out)


def _folder(path: Path) -> tuple[Arrays, Arrays]:
    for folder in (path, *(path / name for name in FOLDERS)):
        for suffix in (".bin", ""):
            batches = [p for k in range(1, 6) if (p := folder / f"data_batch_{k}{suffix}").exists()]
            if batches:
                return joined([_file(p) for p in batches]), _file(folder / f"test_batch{suffix}")
    raise BadInput(f"no CIFAR-10 in {path}",
                   why=f"neither data_batch_1.bin nor data_batch_1 is there, nor in "
                       f"{' or '.join(FOLDERS)}",
                   fix="unpack cifar-10-binary.tar.gz or cifar-10-python.tar.gz, name its folder")


def _file(path: Path) -> Arrays:
    return _binary(path) if path.suffix == ".bin" else _python(path)


def _binary(path: Path) -> Arrays:
    data = contents(path)
    over = len(data) % RECORD
    if over or not data:
        raise bad_at(path, len(data) - over, f"{over} bytes are left, expected records of {RECORD}")
    records = np.frombuffer(data, np.uint8).reshape(-1, RECORD)
    check_labels(path, records[:, 0], len(records), 0, RECORD)
    return (np.ascontiguousarray(records[:, 1:]).reshape(-1, *SHAPE), records[:, 0].copy())


def _python(path: Path) -> Arrays:
    pictures, labels = read_batch(path)
    return pictures.reshape(-1, *SHAPE), labels
