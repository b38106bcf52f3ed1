"""Picture files to pixels, and pixels to a model's input.

Whoever sends a picture may mean harm: what its header claims is judged before a decoder sees it,
only three formats are ever tried, and whatever a decoder then says of the bytes is BadInput."""

from __future__ import annotations

import io
import struct
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image, ImageOps

from handtorch.cloud.headers import read_header
from handtorch.cloud.recipes import Recipe
from handtorch.errors import BadInput

FORMATS = ("JPEG", "PNG", "WEBP")
# A picture of one row may be rescaled to one of a million columns; of a longer one than this
# many times its shorter side, only the middle counts, and a crop never shows more.
_LONGEST = 4
# What Pillow's readers raise over bytes that are not what they should be.
_UNREADABLE = (OSError, SyntaxError, ValueError, TypeError, KeyError, IndexError, EOFError,
               OverflowError, ZeroDivisionError, AttributeError, struct.error,
               zlib.error, Image.DecompressionBombError)

Pixels = np.ndarray[Any, np.dtype[np.uint8]]
Input = np.ndarray[Any, np.dtype[np.float32]]


@dataclass(frozen=True)
class PictureLimits:
    """What is decoded at all; 25 megapixels are 75 MB of pixels."""

    most_pixels: int = 25_000_000
    formats: tuple[str, ...] = FORMATS


LIMITS = PictureLimits()


def decode(data: bytes, limits: PictureLimits = LIMITS, *, at_least: int | None = None) -> Pixels:
    """The picture upright, as (height, width, 3) in RGB; refused by its header or as unreadable.

    An alpha channel is dropped. With `at_least`, a JPEG may come out smaller (by 2, 4 or 8, which
    its coding gives for nothing) but with no side below that many pixels."""
    header = read_header(data)
    if header.format not in limits.formats:
        raise BadInput(f"a {header.format} picture", why=f"read are {', '.join(limits.formats)}",
                       fix="save it in one of these formats")
    if header.pixels > limits.most_pixels:
        raise BadInput(f"a picture of {header.width} x {header.height} pixels",
                       why=f"that are {header.pixels / 1e6:.1f} megapixels, allowed are "
                           f"{limits.most_pixels / 1e6:g}",
                       fix="make it smaller before sending it")
    try:
        with Image.open(io.BytesIO(data), formats=(header.format,)) as image:
            if image.size != (header.width, header.height):
                raise ValueError(f"two sizes, {header.width} x {header.height} and "
                                 f"{image.size[0]} x {image.size[1]}")
            if at_least is not None:
                image.draft("RGB", (at_least, at_least))
            return _rgb(ImageOps.exif_transpose(image))
    except MemoryError as e:
        raise BadInput(f"a picture of {header.width} x {header.height} pixels",
                       why="there is not enough memory to decode it", fix="make it smaller") from e
    except _UNREADABLE as e:
        raise BadInput(f"a {header.format} picture that cannot be decoded",
                       why=f"{type(e).__name__}: {e}", fix="send it again, or save it anew") from e


def _rgb(image: Image.Image) -> Pixels:
    if image.mode.startswith("I;16") or image.mode == "I":     # 16 bit PNG: the upper eight
        grey = (np.asarray(image).astype(np.int64) >> 8).clip(0, 255).astype(np.uint8)
        return np.repeat(grey[:, :, None], 3, 2)
    return np.asarray(image.convert("RGB"))


def rescale(picture: Pixels, shorter_side: int) -> Pixels:
    """The whole picture with its shorter side so long (bilinear over all pixels it covers)."""
    picture = _middle_of_long(picture)
    height, width = picture.shape[:2]
    shorter = min(height, width)
    if shorter == shorter_side:
        return picture
    size = (max(1, round(width * shorter_side / shorter)),
            max(1, round(height * shorter_side / shorter)))
    return np.asarray(Image.fromarray(picture).resize(size, Image.Resampling.BILINEAR))


def _middle_of_long(picture: Pixels) -> Pixels:
    height, width = picture.shape[:2]
    most = _LONGEST * min(height, width)
    top, left = (max(0, side - most) // 2 for side in (height, width))
    return np.ascontiguousarray(picture[top:top + most, left:left + most])


def crop(picture: Pixels, height: int, width: int) -> Pixels:
    """The middle of it; where there is no exact middle, the one nearer to the origin."""
    have = picture.shape[:2]
    assert have[0] >= height and have[1] >= width, "rescaled before"
    top, left = (have[0] - height) // 2, (have[1] - width) // 2
    return picture[top:top + height, left:left + width]


def normalise(picture: Pixels, recipe: Recipe) -> Input:
    """Pixels of the right size to (1, 3, h, w) as the recipe's weights want them."""
    ordered = picture[:, :, ::-1] if recipe.order == "BGR" else picture
    values = ordered.astype(np.float32) * np.float32(recipe.scale)
    values -= np.asarray(recipe.mean, np.float32)
    values /= np.asarray(recipe.deviation, np.float32)
    return np.ascontiguousarray(values.transpose(2, 0, 1)[None])


def prepare(picture: Pixels, recipe: Recipe) -> Input:
    """A decoded picture to a model's input: rescaled, cropped, normalised; (1, 3, h, w)."""
    return normalise(crop(rescale(picture, recipe.shorter_side), *recipe.crop), recipe)


def reduced(picture: Pixels, recipe: Recipe) -> Pixels:
    """The least of a picture from which `prepare` makes exactly the same input: a small square.

    Rescaled by its owner, who then sends less; the receiver's rescaling finds nothing to do."""
    small = rescale(picture, recipe.shorter_side)
    side = recipe.shorter_side
    top, left = ((have - want) // 2 - (side - want) // 2
                 for have, want in zip(small.shape[:2], recipe.crop, strict=True))
    return np.ascontiguousarray(small[top:top + side, left:left + side])


def encode(picture: Pixels, kind: str) -> bytes:
    """The picture as a file: "PNG" loses nothing (and is packed lightly), "JPEG" has quality 90."""
    out = io.BytesIO()
    options: dict[str, int] = {"compress_level": 1} if kind == "PNG" else {
        "quality": 90, "subsampling": 0}       # colours at half the resolution change labels
    Image.fromarray(picture).save(out, kind, **options)
    return out.getvalue()
