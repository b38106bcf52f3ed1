"""Is it worth making a picture small before it is sent?

The rule of Guo, "Cloud-based or On-device" (2018), section IV-C: rescale if the time for that and
for sending the small picture is not above the time for sending it as it is. The server's decoding
is counted too, for it also shrinks. Its twin asks the same of joules: rescaling is work of the
device, and can be quicker and yet cost more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from handtorch.place.known import Known, Word

MARGIN = 0.05


@dataclass(frozen=True)
class Rescaling:
    """Seconds to read a picture and make it small: `base_s + per_megapixel_s * megapixels`.

    Pixels count and not bytes: all of them are decoded, however well they were packed."""

    base_s: float
    per_megapixel_s: float
    how: str
    provenance: Word = "measured"

    def of(self, megapixels: float) -> Known:
        return Known(self.base_s + self.per_megapixel_s * megapixels, self.provenance, self.how)


# Two values of the paper: 38 ms at most for its smallest pictures (0.52 megapixels), and the mean
# of 76.16 ms over its three sizes (3.63).
PAPERS_PHONE = Rescaling(0.0316, 0.01226, "rescaling on a Nexus 5: two values of Guo 2018 (Fig. 5, "
                         "Table III)", "estimated")


DECODING = Rescaling(0.001, 0.010, "a server decodes a megapixel in some 10 ms: a guess",
                     "estimated")


def fitted(points: Sequence[tuple[float, float]], how: str, slope: float = inf) -> Rescaling:
    """Least squares through (megapixels, seconds); neither part is ever below 0.

    Pictures of one size alone tell no slope: `slope` is taken, or all of their time is laid to
    their pixels, for nearly all of it is decoding."""
    assert points, "fit something"
    n = len(points)
    mean_x, mean_y = sum(x for x, _ in points) / n, sum(y for _, y in points) / n
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    if spread > (0.05 * mean_x) ** 2 * n:
        slope = sum((x - mean_x) * (y - mean_y) for x, y in points) / spread
    slope = max(0.0, min(slope, mean_y / mean_x))       # within: the base is not below 0 either
    return Rescaling(mean_y - slope * mean_x, slope, how)


def is_worth_it(rescale: float, small: float, original: float, margin: float = MARGIN) -> bool:
    """The rule and its twin: all three in seconds, or all three in joules. `small` and `original`
    are for sending and what the server then takes; who is in doubt sends the picture as it is."""
    return rescale + small <= (1 - margin) * original


def break_even_bps(original_bytes: float, small_bytes: float, rescale_s: float,
                   saved_there_s: float = 0.0) -> float | None:
    """The rate below which rescaling is sooner (with no margin); None if it never is, infinity if
    it always is. `saved_there_s` is what the server decodes the small one sooner by."""
    if original_bytes <= small_bytes:
        return None if rescale_s >= saved_there_s else inf
    cost_s = rescale_s - saved_there_s
    return inf if cost_s <= 0 else 8 * (original_bytes - small_bytes) / cost_s
