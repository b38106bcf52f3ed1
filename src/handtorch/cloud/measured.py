"""What recognition takes on this machine or on a server, measured, as figures for a decision."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from statistics import median

import numpy as np
from PIL import Image

from handtorch.cloud.client import SENT, InCloud
from handtorch.cloud.engines import OPENCL
from handtorch.cloud.headers import read_header
from handtorch.cloud.models import Offer
from handtorch.cloud.on_device import OnDevice
from handtorch.cloud.picture_file import read_picture
from handtorch.cloud.pictures import decode, encode, reduced
from handtorch.cloud.recipes import Recipe
from handtorch.cloud.recognised import Recognised
from handtorch.cloud.scenes import generated
from handtorch.place.known import Known
from handtorch.place.learn import quantile
from handtorch.place.rescale import Rescaling, fitted
from handtorch.place.situation import ORIGINAL, SMALL_MEGAPIXELS, Local, Picture, Server

RUNS = 5
_QUALITY = 85
_SMALLER = 4.0                      # times fewer pixels: two sizes make a line


@dataclass(frozen=True)
class MeasuredHere:
    """The device, and what making pictures ready takes on it."""

    local: Local
    rescaling: Rescaling

    def as_server(self) -> Server:
        """A server that is a machine like this one."""
        how = "measured here: this machine stands for the server"
        one = self.local.compute_s
        return Server(Known(one.value, one.provenance, how), Rescaling(
            self.rescaling.base_s, self.rescaling.per_megapixel_s, how), self.local.tail)


def way_name(offer: Offer) -> str:
    return "device OpenCL" if offer.engine == OPENCL else "device CPU"


def make_photo(folder: Path, megapixels: float) -> Path:
    """A generated picture of that many pixels, three by four, as a JPEG file."""
    height = max(16, round(sqrt(megapixels * 1e6 * 3 / 4)))
    size = (max(16, round(megapixels * 1e6 / height)), height)
    path = folder / f"generated_{size[0]}x{size[1]}.jpg"
    Image.fromarray(generated(1)).resize(size, Image.Resampling.BICUBIC).save(
        path, "JPEG", quality=_QUALITY)
    return path


def picture_of(path: Path, recipe: Recipe) -> Picture:
    """What of a picture counts: its pixels, its file, and what it would be if it were made small.
    """
    data = read_picture(path)
    small = reduced(decode(data), recipe)
    return Picture(read_header(data).pixels / 1e6, len(data),
                   {way: len(encode(small, kind)) for way, kind in SENT.items()})


def measure_here(offer: Offer, path: Path, folder: Path, runs: int = RUNS
                 ) -> tuple[MeasuredHere, Recipe]:
    """`runs` recognitions on this machine after one that does not count."""
    device = OnDevice(offer)
    device.load()
    try:
        found = _runs(device, path, runs)
        smaller = _runs(device, _shrunk(path, folder), max(2, runs // 2))
        recipe = device.recipe
    finally:
        device.close()
    compute = [one.steps_ms["compute"] / 1e3 for one in found]
    usual = median(compute)
    spans = [one.span for one in found]
    rescaling = fitted([_rescaled(one) for one in (*found, *smaller)],
                       f"rescaling: {len(found)} runs here")
    return MeasuredHere(Local(
        way_name(offer), Known(usual, "measured", f"the median of {len(found)} runs here"),
        median(s.cpu_ns / 1e9 / s.seconds for s in spans), 0.0,
        Known(float(max(s.resident_bytes for s in spans)), "measured", "this process"),
        quantile(compute, 0.9) / usual), rescaling), recipe


def measure_there(url: str, model: str, path: Path, token: str | None, runs: int = RUNS) -> Server:
    """The same of a server that runs; its network is not looked at."""
    there = InCloud(url, model, token=token)
    try:
        small = _runs(lambda p: there(p, "png"), path, runs)
        large = _runs(lambda p: there(p, ORIGINAL), path, max(2, runs // 2))
    finally:
        there.close()
    taken = [_theirs(one.steps_ms) for one in (*small, *large)]
    usual = median(taken)
    sizes = [*((SMALL_MEGAPIXELS, one) for one in small),
             *((_megapixels(one), one) for one in large)]
    decoding = fitted([(size, one.steps_ms["decode"] / 1e3) for size, one in sizes],
                      f"decoding: runs at {url}")
    return Server(Known(usual, "measured", f"the median of {len(taken)} runs at {url}"), decoding,
                  quantile(taken, 0.9) / usual)


def _runs(recognise: Callable[[Path], Recognised], path: Path, runs: int) -> Sequence[Recognised]:
    recognise(path)
    return [recognise(path) for _ in range(runs)]


def _theirs(ms: Mapping[str, float]) -> float:
    return (ms["queue"] + ms["compute"] + ms["send"]) / 1e3


def _megapixels(one: Recognised) -> float:
    return one.width * one.height / 1e6


def _rescaled(one: Recognised) -> tuple[float, float]:
    return _megapixels(one), one.steps_ms["rescale"] / 1e3


def _shrunk(path: Path, folder: Path) -> Path:
    whole = Image.fromarray(np.asarray(decode(read_picture(path))))
    size = tuple(max(16, round(side / sqrt(_SMALLER))) for side in whole.size)
    smaller = folder / "smaller.jpg"
    whole.resize((size[0], size[1]), Image.Resampling.BILINEAR).save(smaller, "JPEG",
                                                                      quality=_QUALITY)
    return smaller
