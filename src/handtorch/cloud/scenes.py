"""Pictures in the sizes of the paper: from photographs that are at hand, or generated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from handtorch.cloud.pictures import Pixels, decode

# Height and width, and the sizes in KB of the paper's five pictures (its Table II).
SIZES = ((2160, 3840), (1080, 1920), (540, 960))
PUBLISHED_KB = ((785, 1362, 1396, 1528, 2599), (251, 479, 547, 739, 576), (82, 146, 165, 196, 226))
SCENES = 5
_QUALITY = 85


@dataclass(frozen=True)
class Scene:
    """One picture file and what it was made of."""

    path: Path
    number: int
    size: int                   # index into SIZES
    made_of: str

    @property
    def file_kb(self) -> float:
        return self.path.stat().st_size / 1000


def make_scenes(folder: Path, photos: Sequence[Path], count: int = SCENES) -> list[Scene]:
    """`count` scenes in three sizes as JPEG files; the smaller ones are the largest scaled down."""
    made = []
    for number in range(count):
        source = photos[number % len(photos)] if photos else None
        whole = _filled(decode(source.read_bytes()) if source else generated(number))
        for index, (height, width) in enumerate(SIZES):
            path = folder / f"scene{number + 1}_{width}x{height}.jpg"
            image = whole if index == 0 else whole.resize((width, height),
                                                          Image.Resampling.BILINEAR)
            image.save(path, "JPEG", quality=_QUALITY)
            made.append(Scene(path, number, index, source.name if source else "generated"))
    return made


def generated(seed: int) -> Pixels:
    """Soft shapes and fine grain, the same for the same seed."""
    rng = np.random.default_rng(seed)
    soft = Image.fromarray(rng.integers(0, 256, (24, 43, 3), np.uint8)).resize(
        (1920, 1080), Image.Resampling.BICUBIC)
    grain = rng.normal(0, 6, (1080, 1920, 1))
    return (np.asarray(soft) + grain).clip(0, 255).astype(np.uint8)


def _filled(picture: Pixels) -> Image.Image:
    """The picture's middle in the largest size."""
    height, width = SIZES[0]
    have_h, have_w = picture.shape[:2]
    scale = max(height / have_h, width / have_w)
    cut_h, cut_w = min(have_h, round(height / scale)), min(have_w, round(width / scale))
    top, left = (have_h - cut_h) // 2, (have_w - cut_w) // 2
    cut = np.ascontiguousarray(picture[top:top + cut_h, left:left + cut_w])
    return Image.fromarray(cut).resize((width, height), Image.Resampling.BICUBIC)
