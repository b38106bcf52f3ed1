"""Part of the study `rnn`: the LSTM on the CPU and on the device, while others use them.

After "MobiRNN: Efficient Recurrent Neural Network Execution on Mobile GPU" (2017), Fig. 7: low
(below 30 %), medium (30 to 50 %) and high (above 70 %) load. Its text gives no times, only which of
the two won; that is what stands beside ours. Each place is called while a generator holds its own
processor at the share; where both are the host's CPU they have different cores: the rows say so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from statistics import median

from handtorch.baseline.fair import middle_half
from handtorch.offload.pair import Pair, har_pair
from handtorch.offload.silicon import comparisons
from handtorch.offload.table import Level, take_level
from handtorch.record import Place, Published, Result, Verdict
from handtorch.record.row import Row
from handtorch.runtime.opencl.discover import choose

NAME = "rnn"
BANDS = {"no": 0.0, "low": 0.2, "medium": 0.4, "high": 0.8}
SOURCE = ("Cao et al., MobiRNN, EMDL 2017, Fig. 7 and section 4.5 (Nexus 6P); the text says which "
          "was quicker, without times")
# The GPU under low and medium load, the CPU where both are under high load.
PAPER_DEVICE_WINS = {"low": True, "medium": True, "high": False}
CALLS, QUICK_CALLS = 100, 16
WINS, TIME, HELD = "device quicker than CPU under load", "time under load", "load held"


def load_figure(quick: bool, progress: Callable[[str], None], device: str | None = None
                ) -> list[Row]:
    """Both places under no, low, medium and high load of their own processor; about 15 s if quick.

    Two places of this figure's own, whether they share silicon, published values and ours. They can
    be added to a run that has the device as number 0."""
    label = choose(device).label
    rows: list[Row] = list(_published())
    with har_pair(label, limit_s=60 if quick else 180, highest=max(BANDS.values())) as pair:
        rows += _places(pair, label)
        taken: dict[tuple[str, str], Level] = {}
        for band, share in BANDS.items():
            for place, load, call in pair.loaded():
                progress(f"{NAME}: {place.name} under {band} load")
                taken[band, place.name] = take_level(
                    place, load, share, call, calls=QUICK_CALLS if quick else CALLS, settle_s=0.3)
    for (band, name), level in taken.items():
        rows += _results(band, name, level)
    rows += [_winner(band, taken[band, "cpu"], taken[band, "device"]) for band in BANDS]
    return rows


def _published() -> Iterator[Published]:
    for band, wins in PAPER_DEVICE_WINS.items():
        yield Published(study=NAME, name=WINS, subject=f"{band} load", value=float(wins),
                        unit="1 = yes", source=SOURCE)


def _places(pair: Pair, label: str) -> Iterator[Row]:
    for place in pair.places:
        on_device = place is pair.device
        cores = ",".join(map(str, place.cores or ()))
        yield Place(name=place.name, kind="device" if on_device else "host cpu",
                    device=0 if on_device else None, cores=cores or None,
                    cores_reason="" if cores else f"{label} is not the host's CPU")
    yield from comparisons(pair.places)


def _results(band: str, name: str, level: Level) -> Iterator[Result]:
    subject = f"{name}, {band} load"
    if level.held is None:
        for what, unit in ((TIME, "ms"), (HELD, "%")):
            yield Result(study=NAME, name=what, subject=subject, place=name, value=None,
                         value_reason=level.refused, unit=unit, better="neither", repeats=0,
                         provenance="measured")
        return
    taken = [1e3 * s for s in level.latencies_s]
    yield Result(study=NAME, name=TIME, subject=subject, place=name, x_name="load",
                 x_value=100 * level.asked, x_unit="%", value=median(taken), unit="ms",
                 better="lower", repeats=len(taken), spread=middle_half(taken),
                 provenance="measured")
    yield Result(study=NAME, name=HELD, subject=subject, place=name, x_name="load",
                 x_value=100 * level.asked, x_unit="%", value=100 * level.held, unit="%",
                 better="neither", repeats=1, provenance="measured")


def _winner(band: str, cpu: Level, device: Level) -> Result:
    """1 or 0, and unknown where the two lie within each other's spread."""
    if cpu.held is None or device.held is None:
        value, why = None, cpu.refused or device.refused
    else:
        apart = abs(cpu.median_s - device.median_s)
        wide = max(middle_half(cpu.latencies_s), middle_half(device.latencies_s))
        decided = apart > wide / 2
        value = float(device.median_s < cpu.median_s) if decided else None
        why = "" if decided else (f"the medians differ by {1e3 * apart:.2g} ms, less than half "
                                  f"their spread of {1e3 * wide:.2g} ms")
    return Result(study=NAME, name=WINS, subject=f"{band} load", value=value, value_reason=why,
                  unit="1 = yes", better="neither", repeats=0 if value is None else 1,
                  provenance="measured")


def judge_load(rows: Sequence[Row], question: str) -> Verdict:
    """Holds if the winners are the paper's; unknown where a load was not held or a tie."""
    ours = {r.subject.removesuffix(" load"): r for r in rows
            if isinstance(r, Result) and r.name == WINS}
    by_word: dict[str, list[str]] = {}
    for band in BANDS:
        by_word.setdefault(_word(ours[band].value), []).append(band)
    told = "; ".join(f"{word} under {', '.join(bands)} load" if len(bands) < len(BANDS) else
                     f"{word} under every load" for word, bands in by_word.items())
    open_ = {band: ours[band].value_reason for band in PAPER_DEVICE_WINS
             if ours[band].value is None}
    same = all(ours[band].value == wins for band, wins in PAPER_DEVICE_WINS.items())
    return Verdict(study=NAME, question=question, answer=f"Quicker here: {told}.",
                   holds=None if open_ else same,
                   holds_reason="; ".join(f"{band} load: {why}" for band, why in open_.items()))


def load_table(rows: Sequence[Row]) -> str:
    """The figure as text: a line for each load, ours and what the paper says."""
    by = {(r.name, r.subject): r for r in rows if isinstance(r, Result)}
    paper = {r.subject: r.value for r in rows if isinstance(r, Published)}
    lines = ["load     cpu ms (held)     device ms (held)   quicker    paper"]
    for band in BANDS:
        cells = [_cell(by[TIME, f"{name}, {band} load"], by[HELD, f"{name}, {band} load"])
                 for name in ("cpu", "device")]
        lines.append(f"{band:8} {cells[0]:17} {cells[1]:18} "
                     f"{_word(by[WINS, f'{band} load'].value):10} "
                     f"{_word(paper.get(f'{band} load')) if band in PAPER_DEVICE_WINS else '-'}")
    return "\n".join(lines) + "\n"


def _cell(time: Result, held: Result) -> str:
    if time.value is None or held.value is None:
        return "not held"
    return f"{time.value:.2f} ({held.value:.0f} %)"


def _word(value: float | None) -> str:
    return "unknown" if value is None else "device" if value else "cpu"
