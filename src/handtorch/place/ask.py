"""`ht.place(...)`: figures in, a decision out. Nothing is measured and nothing is opened."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import cast

from handtorch.errors import BadInput
from handtorch.place.crossover import explained
from handtorch.place.decide import Decision, Objective, Target
from handtorch.place.known import Known
from handtorch.place.link import link_of
from handtorch.place.network import Network
from handtorch.place.networks import read_network
from handtorch.place.radio import radio_in
from handtorch.place.rescale import DECODING, PAPERS_PHONE, Rescaling
from handtorch.place.sheet import Sheet, read_sheet
from handtorch.place.situation import SMALL_BYTES, Local, Picture, Server, Situation

# A photograph as JPEG: a line through the logarithms of Table II of Guo 2018, medians of its sizes.
_BYTES_OF_ONE_MEGAPIXEL, _BYTES_POWER = 2.86e5, 0.77


def typical_bytes(megapixels: float) -> int:
    """What a photograph of that many pixels takes as a file."""
    return round(_BYTES_OF_ONE_MEGAPIXEL * math.pow(megapixels, _BYTES_POWER))


def place(device_ms: float | Mapping[str, float], *, server_ms: float | None = None,
          network: str | Network | None = None, megapixels: float = 2.0,
          file_bytes: float | None = None, sheet: str | Sheet | None = None,
          gpu: Collection[str] = (),
          target: str | Target = "latency", private: bool = False, burst: int = 1,
          gap_s: float = 1.0, radio_up: bool = False,
          rescaling: Rescaling = PAPERS_PHONE) -> Decision:
    """Where a picture is recognised best, and why.

    `device_ms` is what computing takes on the device (by name, if there are several ways),
    `server_ms` what it takes on the server. Joules need the device's power `sheet`; ways named in
    `gpu` use its GPU, others its cores, and all of them. `.reasons` and `.changes` are sentences,
    `.judged` has every candidate with its figures.

    >>> found = ht.place(350, server_ms=18.6, network="wifi-campus")
    >>> found.chosen.place, found.qualified
    ('cloud', True)
    """
    ways = device_ms if isinstance(device_ms, Mapping) else {"device": device_ms}
    _refuse(ways, server_ms, network, megapixels, burst, gap_s)
    way = read_network(network) if isinstance(network, str) else network
    power = read_sheet(sheet) if isinstance(sheet, str) else sheet

    def given(ms: float) -> Known:
        return Known(ms / 1e3, "estimated", "as given")
    at = Situation(
        Picture(megapixels, file_bytes or typical_bytes(megapixels)),
        dict.fromkeys(("device", *SMALL_BYTES), rescaling),
        tuple(Local(name, given(ms)).all_of(power, name in gpu) for name, ms in ways.items()),
        None if server_ms is None else Server(given(server_ms), DECODING),
        None if way is None else link_of(way), None if way is None else radio_in(power, way.radio),
        power, 0.0 if radio_up else None, burst, gap_s, cold=not radio_up)
    wanted = target if isinstance(target, Target) else Target(cast(Objective, target),
                                                               private=private)
    return explained(at, wanted)


def _refuse(ways: Mapping[str, float], server_ms: float | None, network: object,
            megapixels: float, burst: int, gap_s: float) -> None:
    for name, value in (*ways.items(), ("server_ms", server_ms), ("megapixels", megapixels)):
        if value is not None and not 0 < value < float("inf"):
            raise BadInput(f"{name} of {value}", why="it is a number above 0")
    if (server_ms is None) != (network is None):
        raise BadInput("a server without a network" if network is None else
                       "a network without a server", why="the cloud is both",
                       fix="server_ms=18.6, network='lte'")
    if burst < 1 or gap_s < 0:
        raise BadInput(f"a burst of {burst} pictures, one every {gap_s} s",
                       why="one or more, 0 s or more apart")
