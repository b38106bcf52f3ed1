"""All that is known before a picture is recognised, and what each way of doing so would take.

A situation is plain figures, measured or foretold, each with its provenance; `candidates` is
arithmetic on them. Joules are those above an idle device with its screen on: idling is paid for
wherever the picture is recognised."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil

from handtorch.place.known import Known, together, unknown
from handtorch.place.link import ANSWER_BYTES, Exchange, Link
from handtorch.place.radio import Radio, RadioEnergy
from handtorch.place.rescale import Rescaling
from handtorch.place.sheet import Sheet

DEVICE, CLOUD = "device", "cloud"
ORIGINAL = "original"
SMALL_MEGAPIXELS = 256 * 256 / 1e6          # the square that a recipe leaves of a picture
# Bytes of such a square of a photograph: packed without loss, and as JPEG of quality 90.
SMALL_BYTES: Mapping[str, float] = {"png": 110_000, "jpeg": 30_000}
_NO_SPREAD = "a single figure tells no spread"


@dataclass(frozen=True)
class Picture:
    """`small_bytes` by how it would be sent if it is made small first."""

    megapixels: float
    file_bytes: float
    small_bytes: Mapping[str, float] = field(default_factory=lambda: dict(SMALL_BYTES))


@dataclass(frozen=True)
class Local:
    """A way to compute on the device; `tail` is how much longer than usual one in ten takes."""

    name: str
    compute_s: Known
    cores: float = 1.0                      # busy meanwhile
    gpu: float = 0.0                        # the share of the time that the GPU is busy
    memory_bytes: Known = field(default_factory=lambda: unknown("nobody measured it"))
    tail: float | None = None

    def all_of(self, sheet: Sheet | None, gpu: bool) -> Local:
        """As if all of a processor of that device were busy with it: nobody looked how much is."""
        if sheet is None:
            return self
        cores = 0.0 if gpu else float(sum(kind.count for kind in sheet.cores))
        return replace(self, cores=cores, gpu=1.0 if gpu else 0.0)


@dataclass(frozen=True)
class Server:
    """`compute_s` with its queue and the packing of the answer; `decode` by a picture's size."""

    compute_s: Known
    decode: Rescaling
    tail: float | None = None


@dataclass(frozen=True)
class Situation:
    """`rescalings` by what the picture is made ready for: the device itself, or a way of sending.
    `since_s` is how long ago the radio last moved a bit, None for long ago; `burst` pictures come
    one `gap_s` after the other, and figures are then the mean of them."""

    picture: Picture
    rescalings: Mapping[str, Rescaling]
    locals: Sequence[Local] = ()
    server: Server | None = None
    link: Link | None = None
    radio: Radio | None = None
    sheet: Sheet | None = None
    since_s: float | None = None
    burst: int = 1
    gap_s: float = 1.0
    cold: bool = False                      # no connection is open
    radio_in_link: bool = False             # the link was measured: waking the radio is part of it
    answer_bytes: float = ANSWER_BYTES
    sendings: Sequence[str] | None = None   # those that may be used, None for all


@dataclass(frozen=True)
class Candidate:
    """One way to recognise the picture. `seconds` and `joules` are its parts by name, where known;
    `doubts` are sentences on what the figures rest on."""

    name: str
    place: str                              # DEVICE or CLOUD
    p50_s: Known
    p90_s: Known
    energy_j: Known
    memory_bytes: Known
    seconds: Mapping[str, float]
    joules: Mapping[str, float]
    doubts: tuple[str, ...] = ()


def cloud_name(sending: str) -> str:
    return f"cloud, {sending}"


def candidates(at: Situation) -> tuple[Candidate, ...]:
    """Every way there is, those on the device first."""
    here = tuple(_on_device(at, one) for one in at.locals)
    if at.server is None or at.link is None:
        return here
    ways = (ORIGINAL, *(s for s in at.picture.small_bytes if s in at.rescalings))
    return here + tuple(_in_cloud(at, at.server, at.link, sending) for sending in ways
                        if at.sendings is None or sending in at.sendings)


def _on_device(at: Situation, one: Local) -> Candidate:
    rescale = at.rescalings[DEVICE].of(at.picture.megapixels)
    p50 = together((rescale, one.compute_s))
    busy = _busy_w(at.sheet, one)
    core = _core_w(at.sheet)
    energy = together((_joules(rescale, core), _joules(one.compute_s, busy)))
    return Candidate(
        one.name, DEVICE, p50, p50.times(one.tail) if one.tail else unknown(_NO_SPREAD), energy,
        together((one.memory_bytes, _picture_bytes(at.picture, pixels=True))),
        _parts(rescale=rescale, compute=one.compute_s),
        _parts(rescale=_joules(rescale, core), compute=_joules(one.compute_s, busy)))


def _in_cloud(at: Situation, server: Server, link: Link, sending: str) -> Candidate:
    small = sending != ORIGINAL
    size = at.picture.small_bytes[sending] if small else at.picture.file_bytes
    rescale = at.rescalings[sending].of(at.picture.megapixels) if small else Known(
        0.0, "measured", "it is sent as it is")
    decode = server.decode.of(SMALL_MEGAPIXELS if small else at.picture.megapixels)
    there = together((decode, server.compute_s))
    wake_s = _wake_s(at)
    usual = _exchange(at, link, size, there.value or 0.0)
    late = _exchange(at, link, size, there.value or 0.0, slow=True)
    p50 = together((rescale, there, _network(link, usual.network_s + wake_s)))
    p90 = unknown(_NO_SPREAD) if server.tail is None else together(
        (rescale, there.times(server.tail), _network(link, late.network_s + wake_s)))
    radio, parts, doubts = _radio_energy(at, usual if there.value is not None else None)
    rescale_j = _joules(rescale, _core_w(at.sheet))
    return Candidate(
        cloud_name(sending), CLOUD, p50, p90, together((rescale_j, radio)),
        _picture_bytes(at.picture, pixels=small),
        {**_parts(rescale=rescale), "promotion": wake_s, "connect": usual.connect_s
         + usual.slow_start_s, "upload": usual.up_s, "flight": usual.flight_s,
         **_parts(decode=decode, compute=server.compute_s), "download": usual.down_s},
        {**_parts(rescale=rescale_j), **parts}, doubts)


def _exchange(at: Situation, link: Link, size: float, there_s: float, *, slow: bool = False
              ) -> Exchange:
    return link.exchange(size, at.answer_bytes, there_s=there_s, cold=at.cold, slow=slow)


def _network(link: Link, seconds: float) -> Known:
    return Known(seconds, link.provenance, link.how)


def _wake_s(at: Situation) -> float:
    """The mean over a burst: the first wakes the radio, the others only if it slept again."""
    if at.radio is None or at.radio_in_link:
        return 0.0
    first, other = at.radio.wake_s(at.since_s), at.radio.wake_s(at.gap_s)
    return (first + (at.burst - 1) * other) / at.burst


def _radio_energy(at: Situation, exchange: Exchange | None
                  ) -> tuple[Known, Mapping[str, float], tuple[str, ...]]:
    if at.radio is None:
        return unknown("nobody said which radio carries it"), {}, ()
    if exchange is None:
        return unknown("the server's time is not known"), {}, ()
    found: RadioEnergy = at.radio.burst_j(exchange, at.burst, at.gap_s, at.since_s)
    parts = {"promotion": found.promotion_j, "moving bits": found.moving_j,
             "waiting": found.waiting_j, "the radio's tail": found.tail_j}
    return (Known(found.total_j, "estimated", f"radio: {at.radio.line.source}"), parts,
            found.doubts)


def _core_w(sheet: Sheet | None) -> Known:
    return _watts(sheet, None if sheet is None else sheet.cores_w(1.0), "cores")


def _busy_w(sheet: Sheet | None, one: Local) -> Known:
    """Above idle, while the device computes in this way."""
    cores = _watts(sheet, None if sheet is None else sheet.cores_w(one.cores), "cores")
    if not one.gpu:
        return cores
    gpu = _watts(sheet, None if sheet is None else sheet.gpu_w.value, "gpu")
    return together((cores, gpu.times(one.gpu)))


def _watts(sheet: Sheet | None, value: float | None, part: str) -> Known:
    if sheet is None:
        return unknown("no sheet says what the device draws")
    if value is None:
        return unknown(f"the sheet of {sheet.name} has no [{part}]")
    return Known(value, "estimated", f"sheet of {sheet.name}")


def _joules(seconds: Known, watts: Known) -> Known:
    if seconds.value == 0.0:
        return seconds
    if seconds.value is None or watts.value is None:
        return seconds if seconds.value is None else watts
    word = seconds.provenance if seconds.provenance == "simulated" else watts.provenance
    return Known(seconds.value * watts.value, word, watts.how)


def _picture_bytes(picture: Picture, *, pixels: bool) -> Known:
    size = picture.file_bytes + (3e6 * picture.megapixels if pixels else 0)
    return Known(float(ceil(size)), "estimated", "the picture's file" + (
        " and its pixels" if pixels else ""))


def _parts(**named: Known) -> dict[str, float]:
    return dict(_valued(named))


def _valued(named: Mapping[str, Known]) -> Iterator[tuple[str, float]]:
    for name, known in named.items():
        if known.value is not None:
            yield name, known.value
