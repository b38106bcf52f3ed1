"""Real trained weights load into SqueezeNet, and it sees what is in a photograph."""

from __future__ import annotations

import csv
import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from handtorch.zoo.squeezenet import SqueezeNet

PARROT = "african_grey_256x256.png"
DTYPES = {"F16": np.float16, "F32": np.float32}


def safetensors(path: Path) -> dict[str, torch.Tensor]:
    raw = path.read_bytes()
    start = 8 + int.from_bytes(raw[:8], "little")
    header: dict[str, Any] = json.loads(raw[8:start])
    header.pop("__metadata__", None)
    found = {}
    for name, entry in header.items():
        first, last = entry["data_offsets"]
        array = np.frombuffer(raw[start + first:start + last], DTYPES[entry["dtype"]])
        found[name] = torch.tensor(array.reshape(entry["shape"]).astype("f4"))
    return found


def npz(path: Path) -> dict[str, torch.Tensor]:
    with np.load(path, allow_pickle=False) as arrays:
        return {name: torch.tensor(arrays[name]) for name in arrays}


def png(path: Path) -> NDArray[np.uint8]:
    """A plain 8-bit RGB PNG without interlacing; anything else fails."""
    raw, at, packed = path.read_bytes(), 8, b""
    width, height = (int.from_bytes(raw[i:i + 4], "big") for i in (16, 20))
    assert tuple(raw[24:29]) == (8, 2, 0, 0, 0)
    while at < len(raw):
        size, kind = int.from_bytes(raw[at:at + 4], "big"), raw[at + 4:at + 8]
        packed += raw[at + 8:at + 8 + size] if kind == b"IDAT" else b""
        at += 12 + size
    lines = np.frombuffer(zlib.decompress(packed), np.uint8).reshape(height, 1 + 3 * width)
    picture = np.zeros((height, 3 * width), np.int32)
    up = [0] * (3 * width)
    for y, line in enumerate(lines.tolist()):
        up = unfiltered(line[0], line[1:], up)
        picture[y] = up
    return picture.reshape(height, width, 3).astype(np.uint8)


def unfiltered(kind: int, line: list[int], up: list[int]) -> list[int]:
    """The PNG standard's five predictions, from left, above and above left."""
    out: list[int] = []
    for i, value in enumerate(line):
        a, b, c = (out[i - 3], up[i], up[i - 3]) if i > 2 else (0, up[i], 0)
        near = min((abs(b - c), 0, a), (abs(a - c), 1, b), (abs(a + b - 2 * c), 2, c))[2]
        out.append((value + (0, a, b, (a + b) // 2, near)[kind]) % 256)
    return out


@pytest.mark.parametrize("version,file,read", [
    ("1.1", "squeezenet1_1_fp16.safetensors", safetensors),
    ("1.0", "squeezenet1_0_deepcompression.npz", npz)], ids=["1.1", "1.0"])
def test_trained_weights_load_and_know_a_parrot(shared: Path, version: str, file: str, read: Any
                                                ) -> None:
    """The weights come from Caffe: blue first, 0 to 255, the mean subtracted, 227 x 227."""
    model = SqueezeNet(version).eval()
    model.load_state_dict(read(shared / "data" / "models" / file))
    photos = shared / "data" / "photos"
    rows = {row["file"]: row for row in csv.DictReader((photos / "photos.csv").open())}
    accepted = {int(i) for i in rows[PARROT]["accepted_imagenet_ids"].split()}
    middle = png(photos / PARROT)[14:241, 14:241, ::-1].astype("f4") - np.array([104, 117, 123.])
    with torch.no_grad():
        scores = model(torch.tensor(middle.transpose(2, 0, 1)[None], dtype=torch.float32))
    assert int(scores.argmax()) in accepted
