"""The file of tuned results, as other rooms read it; `tune/store.py` writes it.

One for each device, driver and text of the kernels that variants are built from."""

from __future__ import annotations

import hashlib
import json
from functools import cache
from importlib.resources import files
from typing import Any

from handtorch.errors import BadInput
from handtorch.graph.device_spec import DeviceSpec
from handtorch.kernels.bmm_tiles import Batch
from handtorch.kernels.conv_tiles import ConvPass
from handtorch.kernels.gemm_tiles import Product
from handtorch.kernels.variant import Problem, as_built, as_variant

FAMILIES: tuple[type[Problem], ...] = (Product, Batch, ConvPass)
FORMAT, VERSION = "handtorch tuned results", 1
MOST_BYTES = 1 << 26                        # of a file; a full search of a net leaves half of it


def as_problem(text: str) -> Problem:
    """What `str` of a Problem of any family gave."""
    for family in FAMILIES:
        if (found := family.read(text)) is not None:
            return found
    raise BadInput(f"shape {text!r}", why="it is no product, no batch of products and no "
                   "convolution",
                   fix="32x256x784 nt, bmm 8x32x64x16 nt or conv 16x32x32x64 128 3x3 p1x1")


@cache
def kernels_key() -> str:
    """Changes with the text of any kernel that a variant is built from."""
    names = ("gemm_register.cl", "gemm_dot.cl", "pack_b.cl", "bmm.cl", "bmm_dot.cl",
             "conv_tile.cl", "conv_pack.cl", "conv_weight.cl",
             "conv_weight_packed.cl", "depthwise.cl", "depthwise3.cl",
             "depthwise_weight.cl", "depthwise_weight3.cl", "winograd.cl",
             "winograd_pack.cl", "winograd_weight.cl", "unroll.h")
    text = "".join((files("handtorch.kernels") / name).read_text() for name in names)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def results_name(spec: DeviceSpec) -> str:
    """The file that holds what was tuned on this device and driver with these kernels."""
    return f"{spec.key}-{kernels_key()}.json"


def whose(spec: DeviceSpec) -> dict[str, str]:
    """What makes results those of this device and driver; `spec.key` is a hash of the same."""
    names = ("platform", "platform_version", "name", "device_version", "driver")
    return {name: str(getattr(spec, name)) for name in names}


def checked_results(what: str, data: bytes, spec: DeviceSpec) -> dict[str, Any]:
    """A file of tuned results as plain values, if all of it can be used on this device.

    `best` then maps problems to variants that can compute them, `avoid` lists what failed; `trials`
    is looked at by its own reader only. Anything else is refused with the reason."""
    told = _whole(what, data)
    if told.get("kernels") != kernels_key():
        raise BadInput(what, why=f"made for kernels {told.get('kernels')!r}, these are "
                                 f"{kernels_key()!r}",
                       fix="the same version of handtorch, or `handtorch tune` here")
    if told.get("device") != whose(spec):
        theirs = told["device"] if isinstance(told.get("device"), dict) else {}
        raise BadInput(what, why=f"it is of {theirs.get('name')!r}, driver "
                                 f"{theirs.get('driver')!r}; this is {spec.name!r}, driver "
                                 f"{spec.driver!r}",
                       fix="--device, if you have that one; else `handtorch tune` here")
    best, avoid = told.get("best"), told.get("avoid")
    if not isinstance(best, dict) or not isinstance(avoid, list):
        raise damaged(what, "it lacks best or avoid")
    try:
        for problem, variant in best.items():
            if not as_variant(str(variant)).fits(as_problem(problem), spec):
                raise damaged(what, f"{variant} cannot compute {problem} here")
        for built in avoid:
            as_built(str(built))
    except BadInput as e:
        raise damaged(what, f"{e.what}: {e.why}" if e.what != what else e.why) from e
    return told


def _whole(what: str, data: bytes) -> dict[str, Any]:
    try:
        told = json.loads(data) if len(data) <= MOST_BYTES else None
    except (ValueError, RecursionError) as e:
        raise damaged(what, "it is cut short or no JSON at all") from e
    if not isinstance(told, dict) or told.get("format") != FORMAT:
        raise BadInput(what, why="these are no tuned results of handtorch",
                       fix="a file that `handtorch tune --export FILE` wrote")
    version = told.get("version")
    if isinstance(version, int) and version > VERSION:
        raise BadInput(what, why=f"its version is {version}, this handtorch knows up to {VERSION}",
                       fix="update handtorch")
    if version != VERSION or isinstance(version, bool):
        raise damaged(what, f"its version is {version!r}")
    return told


def damaged(what: str, why: str) -> BadInput:
    return BadInput(what, why=why, fix="export it again, or `handtorch tune --fresh` here")
