"""The paper's phone and server over a network, for tests of decisions."""

from __future__ import annotations

from handtorch.place.known import Known
from handtorch.place.link import Link
from handtorch.place.radio import read_radio
from handtorch.place.rescale import PAPERS_PHONE, Rescaling
from handtorch.place.sheet import read_sheet
from handtorch.place.situation import Local, Picture, Server, Situation

RATES = {"wifi": (37.4e6, 37.4e6, 0.010), "lte": (5.64e6, 12.74e6, 0.070),
         "3g": (0.768e6, 1.6e6, 0.150)}


def papers_phone(radio: str = "lte", *, compute_s: float = 2.1317, up_bps: float | None = None,
                 since_s: float | None = None, cold: bool = False, file_bytes: float = 1_528_000,
                 megapixels: float = 8.2944, burst: int = 1) -> Situation:
    """Table III: CNNDroid and Caffe on a Nexus 5, a GPU on the server."""
    up, down, rtt_s = RATES[radio]
    up = up_bps or up
    said = Known(0.0186, "estimated", "Table III")
    return Situation(
        Picture(megapixels, file_bytes, {"png": 172_000, "jpeg": 20_000}),
        dict.fromkeys(("device", "png", "jpeg"), PAPERS_PHONE),
        (Local("device CPU", Known(8.91064, "estimated", "Table III"), 1.274, tail=1.2),
         Local("device OpenCL", Known(compute_s, "estimated", "Table III"), 0.761, 0.2714,
               Known(4e8, "estimated", "made up"), tail=1.2)),
        Server(said, Rescaling(0.001, 0.003, "made up", "estimated"), tail=1.5),
        Link(up, down, rtt_s, "simulated", f"a {radio} profile", up / 2),
        read_radio(radio), read_sheet("nexus-5"), since_s, burst, cold=cold)
