"""Pictures: what is refused before a decoder sees it, and what a model gets of the rest."""

from __future__ import annotations

import contextlib
import io
import struct
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from handtorch.cloud.headers import read_header
from handtorch.cloud.pictures import (
    PictureLimits,
    crop,
    decode,
    encode,
    prepare,
    reduced,
    rescale,
)
from handtorch.cloud.recipes import CAFFE, TORCHVISION, Recipe
from handtorch.errors import BadInput

LIMITS = PictureLimits()


def pixels(height: int, width: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)


def saved(picture: np.ndarray | Image.Image, kind: str, **options: object) -> bytes:
    out = io.BytesIO()
    image = picture if isinstance(picture, Image.Image) else Image.fromarray(picture)
    image.save(out, kind, **options)
    return out.getvalue()


def png_claiming(width: int, height: int) -> bytes:
    """A small file whose header speaks of a large picture."""
    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + \
            struct.pack(">I", zlib.crc32(kind + body))
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) +
            chunk(b"IDAT", zlib.compress(bytes(100))) + chunk(b"IEND", b""))


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
@pytest.mark.parametrize(("height", "width"), [(1, 1), (7, 300), (301, 2)])
def test_the_header_tells_what_the_decoder_gives(kind: str, height: int, width: int) -> None:
    data = saved(pixels(height, width), kind)
    header = read_header(data)
    assert (header.format, header.width, header.height) == (kind, width, height)
    assert decode(data, LIMITS).shape == (height, width, 3)


@pytest.mark.parametrize("options", [{"lossless": True}, {"exif": Image.Exif()}])
def test_the_other_kinds_of_webp(options: dict[str, object]) -> None:
    header = read_header(saved(pixels(5, 9), "WEBP", **options))
    assert (header.width, header.height) == (9, 5)


def test_png_and_lossless_webp_keep_every_pixel() -> None:
    picture = pixels(33, 17)
    assert (decode(saved(picture, "PNG"), LIMITS) == picture).all()
    assert (decode(saved(picture, "WEBP", lossless=True), LIMITS) == picture).all()
    assert (decode(encode(picture, "PNG"), LIMITS) == picture).all()


@pytest.mark.parametrize("mode", ["L", "LA", "P", "1", "RGBA", "CMYK", "I;16"])
def test_every_mode_becomes_three_channels(mode: str) -> None:
    if mode == "I;16":
        image = Image.fromarray(np.full((4, 6), 0x8040, np.uint16))
    else:
        image = Image.new("L", (6, 4), 128).convert(mode)
    got = decode(saved(image, "JPEG" if mode == "CMYK" else "PNG"), LIMITS)
    assert got.shape == (4, 6, 3) and got.dtype == np.uint8
    if mode not in ("1", "CMYK"):
        assert (got == 128).all()


def test_a_photograph_taken_upright_is_upright() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6                    # turn by 90 degrees
    assert decode(saved(pixels(20, 30), "JPEG", exif=exif), LIMITS).shape == (30, 20, 3)


@pytest.mark.parametrize(("width", "height"), [(12_000, 12_000), (2**31 - 1, 2**31 - 1),
                                               (25_000_001, 1)])
def test_a_bomb_is_refused_by_its_header(width: int, height: int) -> None:
    with pytest.raises(BadInput, match="megapixels, allowed are 25"):
        decode(png_claiming(width, height), LIMITS)


def test_limits_are_those_given() -> None:
    data = saved(pixels(10, 11), "PNG")
    assert decode(data, PictureLimits(most_pixels=110)).shape == (10, 11, 3)
    with pytest.raises(BadInput, match="megapixels"):
        decode(data, PictureLimits(most_pixels=109))
    with pytest.raises(BadInput, match="a PNG picture: read are JPEG"):
        decode(data, PictureLimits(formats=("JPEG",)))


@pytest.mark.parametrize("kind", ["GIF", "BMP", "TIFF", "PPM"])
def test_other_formats_are_not_tried(kind: str) -> None:
    with pytest.raises(BadInput, match="no picture that can be read"):
        decode(saved(pixels(4, 4), kind), LIMITS)


@pytest.mark.parametrize("data", [b"", b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"RIFF    WEBPVP8 ",
                                  b"\xff\xd8\xff" + b"\xff" * 500, png_claiming(0, 5),
                                  png_claiming(100, 100)])
def test_pieces_of_pictures_are_bad_input(data: bytes) -> None:
    with pytest.raises(BadInput):
        decode(data, LIMITS)


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
def test_a_cut_picture_is_bad_input_wherever_it_is_cut(kind: str) -> None:
    data = saved(pixels(40, 40), kind)
    for end in range(0, len(data) - 20, max(1, len(data) // 40)):
        with pytest.raises(BadInput):
            decode(data[:end], LIMITS)


BASES = {kind: saved(pixels(24, 31), kind) for kind in ("JPEG", "PNG", "WEBP")}


@settings(max_examples=300, deadline=None)
@given(kind=st.sampled_from(sorted(BASES)),
       changes=st.lists(st.tuples(st.floats(0, 0.999), st.binary(min_size=1, max_size=4)),
                        min_size=1, max_size=6))
def test_changed_bytes_give_pixels_or_bad_input(kind: str,
                                                changes: list[tuple[float, bytes]]) -> None:
    data = bytearray(BASES[kind])
    for where, what in changes:
        at = int(where**2 * len(data))      # most of what can go wrong is near the start
        data[at:at + len(what)] = what
    with contextlib.suppress(BadInput):
        assert decode(bytes(data), LIMITS).shape[2] == 3


def test_a_jpeg_may_come_smaller_but_not_below_what_is_needed() -> None:
    data = saved(pixels(1080, 1920), "JPEG")
    assert decode(data, LIMITS).shape == (1080, 1920, 3)
    assert decode(data, LIMITS, at_least=256).shape == (270, 480, 3)
    assert decode(data, LIMITS, at_least=271).shape == (540, 960, 3)


@pytest.mark.parametrize(("shape", "want"), [((300, 451), (256, 385)), ((451, 300), (385, 256)),
                                             ((256, 256), (256, 256)), ((1, 1), (256, 256)),
                                             ((1, 9_000), (256, 1024)), ((9_000, 1), (1024, 256))])
def test_rescaling_goes_by_the_shorter_side(shape: tuple[int, int], want: tuple[int, int]) -> None:
    assert rescale(pixels(*shape), 256).shape[:2] == want


def test_the_middle_is_cropped() -> None:
    picture = np.arange(5 * 6 * 3, dtype=np.uint8).reshape(5, 6, 3)
    assert (crop(picture, 3, 3) == picture[1:4, 1:4]).all()


def test_a_recipe_is_order_scale_mean_and_deviation() -> None:
    picture = np.broadcast_to(np.array([10, 20, 30], np.uint8), (4, 4, 3))
    recipe = Recipe("x", 4, (2, 3), "BGR", 0.5, (1.0, 2.0, 3.0), (1.0, 2.0, 4.0))
    got = prepare(picture, recipe)
    assert got.shape == (1, 3, 2, 3) and got.dtype == np.float32 and got.flags.c_contiguous
    # Blue 30, green 20, red 10: halved, less the mean, by the deviation.
    assert got[0, :, 0, 0].tolist() == [14.0, 4.0, 0.5]


@pytest.mark.parametrize("recipe", [CAFFE, TORCHVISION], ids=lambda r: r.name)
@pytest.mark.parametrize("shape", [(300, 451), (640, 257), (257, 256), (256, 259), (100, 90)])
def test_what_is_reduced_for_sending_gives_the_same_input(recipe: Recipe,
                                                          shape: tuple[int, int]) -> None:
    picture = pixels(*shape)
    small = reduced(picture, recipe)
    assert small.shape == (256, 256, 3)
    sent = decode(encode(small, "PNG"), LIMITS)
    assert (prepare(sent, recipe) == prepare(picture, recipe)).all()
