"""Pictures as bytes, (count, channels, height, width), and their labels; and how they are resized.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from handtorch.errors import BadFile
from handtorch.zoo.data.dataset import Array, Arrays
from handtorch.zoo.data.opened import AGAIN
from handtorch.zoo.data.packed import read_npz

CLASSES = 10


def check_labels(path: Path, labels: Array, count: int, first_byte: int = 0, stride: int = 1,
                 unit: str = "byte") -> None:
    """As many labels as pictures, each a class; the first that is not is named with its place."""
    if len(labels) != count:
        raise BadFile(f"{path} cannot be used", why=f"{len(labels)} labels for {count} pictures",
                      fix=AGAIN)
    wrong = np.flatnonzero((labels < 0) | (labels >= CLASSES))
    if len(wrong):
        k = int(wrong[0])
        raise BadFile(f"{path} cannot be used",
                      why=f"at {unit} {first_byte + k * stride}: label {labels[k]} of sample {k}, "
                          f"expected 0 to {CLASSES - 1}", fix=AGAIN)


def joined(parts: Sequence[Arrays]) -> Arrays:
    """The samples of several files as one part."""
    return parts[0] if len(parts) == 1 else tuple(map(np.concatenate, zip(*parts, strict=True)))


def from_npz(path: Path, picture: tuple[int, ...]) -> tuple[Arrays, Arrays]:
    """x_train, y_train, x_test and y_test; a picture has that shape."""
    axes = len(picture) + 1
    found = read_npz(path, {"x_train": ("u", axes), "y_train": ("ui", 1),
                            "x_test": ("u", axes), "y_test": ("ui", 1)})
    parts = []
    for part in ("train", "test"):
        x, y = found[f"x_{part}"], found[f"y_{part}"]
        if x.shape[1:] != picture or x.dtype != np.uint8:
            raise BadFile(f"{path} cannot be used",
                          why=f"x_{part} holds {x.dtype} of {x.shape[1:]}, expected uint8 of "
                              f"{picture}", fix=AGAIN)
        check_labels(path, y, len(x), unit=f"y_{part},")
        parts.append((x.reshape(len(x), -1, *picture[-2:]), y.astype(np.uint8)))
    return parts[0], parts[1]


def resized(pictures: Array, height: int, width: int) -> Array:
    """Bytes in, bytes out: bilinear between pixel centres where it grows; where it shrinks, each
    new pixel is the mean of what it covers, so that nothing thin is lost."""
    if pictures.shape[-2:] == (height, width):
        return pictures
    down, across = _weights(pictures.shape[-2], height), _weights(pictures.shape[-1], width)
    out = np.matmul(np.matmul(down, pictures.astype(np.float32)), across.T)
    shrunk: Array = np.rint(out).astype(np.uint8)
    return shrunk


def _weights(old: int, new: int) -> Array:
    """(new, old); each row adds up to 1."""
    scale = old / new
    reach = max(1.0, scale)                 # half the width of the triangle
    centres = (np.arange(new) + 0.5) * scale - 0.5
    distance = np.abs(np.arange(old)[None, :] - centres[:, None].clip(0, old - 1))
    weights = np.clip(1 - distance / reach, 0, None)
    made: Array = (weights / weights.sum(1, keepdims=True)).astype(np.float32)
    return made
