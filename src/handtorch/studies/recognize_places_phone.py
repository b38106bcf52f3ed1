"""The paper's phone in the study `recognize`, where a machine of today is the device. `simulated`.

Computing takes as many times longer as the phone took than its server (Table III of Guo 2018: the
same programs); rescaling takes what the paper says of pixels; what the phone draws is from its
sheet and from what the paper says of its use. What a network and a server take is as it was:
through a relay that is that network, from a server on this machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from handtorch.cloud.client import ORIGINAL, InCloud
from handtorch.cloud.headers import read_header
from handtorch.cloud.picture_file import read_picture
from handtorch.cloud.recognised import STEPS, Recognised
from handtorch.meters.used import Span
from handtorch.place.link import Exchange
from handtorch.place.radio import Radio
from handtorch.place.rescale import PAPERS_PHONE
from handtorch.place.sheet import Sheet
from handtorch.studies.recognize_modes import DEVICE_CL, DEVICE_CPU, ModeRun
from handtorch.studies.recognize_published import SLOWER, TABLE_III

WAYS = {DEVICE_CPU: "device CPU", DEVICE_CL: "device OpenCL"}
GPUS = (WAYS[DEVICE_CL],)
Spent = Callable[[float], None]
_CORES, _IDLE_CPU = 4, 3.17             # of a Nexus 5; percent of them in use when idle
_CPU_AT, _GPU_AT = 4, 5                 # in a row of Table III


def _nobody(seconds: float) -> None:
    """Time that need not be counted."""


def busy(mode: str) -> tuple[float, float]:
    """Cores and share of the GPU that the paper saw in use, above idle."""
    row = TABLE_III[mode]
    gpu = row[_GPU_AT] / 100 if mode == DEVICE_CL else 0.0
    return _CORES * (row[_CPU_AT] - _IDLE_CPU) / 100, gpu


class Recorded:
    """A run of this machine, played back as the phone's; the median of all, or one of them.

    `spent` is told how long each took, for nobody waits for it."""

    def __init__(self, run: ModeRun, number: int | None = None, spent: Spent = _nobody) -> None:
        self._spent = spent
        samples = compute_ms(run)
        self._mode = run.mode
        self._compute_ms = SLOWER[run.mode] * (median(samples) if number is None else
                                               samples[number % len(samples)])

    def load(self) -> None:
        pass

    def close(self) -> None:
        pass

    def __call__(self, path: Path) -> Recognised:
        data = read_picture(path)
        header = read_header(data)
        rescale_ms = _rescale_ms(header.pixels)
        whole_ns = round(1e6 * (rescale_ms + self._compute_ms))
        cores, gpu = busy(self._mode)
        steps = {**dict.fromkeys(STEPS, 0.0), "rescale": rescale_ms, "compute": self._compute_ms}
        self._spent(whole_ns / 1e9)
        return Recognised(path.name, header.width, header.height, len(data), 0, (), "played back",
                          steps, Span(0, whole_ns, round(cores * whole_ns), round(gpu * whole_ns),
                                      0))


def compute_ms(run: ModeRun) -> list[float]:
    """What computing took here; whose picture it was makes no difference to it. The first of a
    process fills caches, and is left out."""
    return run.values("compute")[1:] or run.values("compute")


class Phoned:
    """A server as the phone reaches it: what it does itself takes as long as on the phone."""

    def __init__(self, there: InCloud, spent: Spent = _nobody) -> None:
        self._there, self._spent = there, spent

    def rtt_ms(self, times: int = 5) -> float:
        return self._there.rtt_ms(times)

    def cut(self) -> None:
        self._there.cut()

    def close(self) -> None:
        self._there.close()

    def __call__(self, path: Path, sending: str | None = None) -> Recognised:
        found = self._there(path, sending)
        if sending != ORIGINAL:
            found = self._rescaled(found)
        self._spent(found.span.seconds)
        return found

    def _rescaled(self, found: Recognised) -> Recognised:
        rescale_ms = _rescale_ms(found.width * found.height)
        longer_ns = round(1e6 * (rescale_ms - found.steps_ms["rescale"]))
        return replace(found, steps_ms={**found.steps_ms, "rescale": rescale_ms},
                       span=replace(found.span, end_ns=found.span.end_ns + longer_ns))


def _rescale_ms(pixels: int) -> float:
    return 1e3 * (PAPERS_PHONE.of(pixels / 1e6).value or 0.0)


@dataclass(frozen=True)
class Costs:
    """What a recognition cost the phone, with this radio and a network of this round trip."""

    sheet: Sheet
    radio: Radio
    rtt_s: float

    def joules(self, found: Recognised, way: str, since_s: float | None) -> float:
        """Above idle; `since_s` is how long ago the radio was used, None for long ago."""
        ms = found.steps_ms
        rescale_j = self._core_w() * ms["rescale"] / 1e3
        mode = next((mode for mode, name in WAYS.items() if name == way), None)
        if mode is not None:
            return rescale_j + self._busy_w(mode) * ms["compute"] / 1e3
        there_s = (ms["decode"] + ms["queue"] + ms["compute"] + ms["send"]) / 1e3
        network_s = found.span.seconds - ms["rescale"] / 1e3 - there_s
        up_s = max(network_s - self.rtt_s, 1e-4)
        exchange = Exchange(0.0, 0.0, up_s, self.rtt_s, 0.0, 8 * found.sent_bytes / up_s, 1.0,
                            there_s)
        small = 0.0 if found.sent_bytes == found.file_bytes else rescale_j
        return small + self.radio.exchange_j(exchange, since_s).total_j

    def _core_w(self) -> float:
        return self.sheet.cores_w(1.0) or 0.0

    def _busy_w(self, mode: str) -> float:
        cores, gpu = busy(mode)
        return (self.sheet.cores_w(cores) or 0.0) + gpu * (self.sheet.gpu_w.value or 0.0)


def device_runs(runs: Sequence[ModeRun], model: str) -> dict[str, ModeRun]:
    """By the phone's ways, those of the first part of the study."""
    return {WAYS[one.mode]: one for one in runs if one.model == model and one.mode in WAYS}
