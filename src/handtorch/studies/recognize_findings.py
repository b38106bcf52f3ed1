"""What the study `recognize` found: rows, the paper's tables with ours beside them, verdicts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from handtorch.baseline.fair import MOST_OTHERS, middle_half
from handtorch.cloud.pressure import Loading
from handtorch.cloud.scenes import SIZES, Scene
from handtorch.profile.sampled import Readings
from handtorch.record import Result, Verdict
from handtorch.record.row import Provenance
from handtorch.studies.recognize_modes import (
    CLOUD_CL,
    CLOUD_CPU,
    DEVICE_CL,
    DEVICE_CPU,
    MODES,
    ModeRun,
    use_over_time,
)
from handtorch.studies.recognize_published import NAME, SLOWER, SLOWER_HOW, published
from handtorch.studies.study import HOST

__all__ = ["NAME", "QUESTION", "Findings", "judge", "published", "results"]

QUESTION = ("Does a picture get the same labels on the device and in the cloud, and do the steps "
            "account for the time?")
WHERE = "Is a picture recognised sooner in the cloud, as the paper found for a phone?"
CLOUDS = {CLOUD_CPU: "cloud on this machine, CPU", CLOUD_CL: "cloud on this machine, OpenCL"}
WITHIN = 0.03
_STEPS = ("load", "rescale", "upload", "decode", "queue", "compute", "send", "download")


@dataclass
class Findings:
    """All that was measured; `others` is the share of the cores that other programs used."""

    scenes: Sequence[Scene]
    plain_ms: dict[str, float]
    runs: list[ModeRun] = field(default_factory=list)
    as_they_are: list[ModeRun] = field(default_factory=list)
    loadings: dict[tuple[str, str, int], Loading] = field(default_factory=dict)
    series: Readings | None = None
    others: float | None = None

    def mode(self, mode: str) -> list[ModeRun]:
        return [one for one in self.runs if one.mode == mode]


def slowed_ms(one: ModeRun) -> float:
    """An inference as if the device were the paper's phone: what runs on it takes longer."""
    factor = SLOWER[DEVICE_CPU]
    rescaled = one.median("rescale") * factor
    rest = one.inference_ms() - one.median("rescale")
    return rescaled + rest * SLOWER.get(one.mode, 1.0)


def results(found: Findings, place: str) -> Iterator[Result]:
    """Rows of all of it."""
    places = {**CLOUDS, DEVICE_CPU: HOST, DEVICE_CL: place}
    for one in found.runs:
        yield from _of_mode(one, places[one.mode])
    for one in found.as_they_are:
        yield _row("inference, sent as it is", _of(one), places[one.mode],
                   [p["end_to_end_ms"] for p in one.pictures], "ms")
    for model, ms in found.plain_ms.items():
        yield _row("load", f"{model}, {DEVICE_CL}, captured and compiled", place, [ms], "ms")
    yield from _rescaling(found)
    for key, loading in found.loadings.items():
        yield from _of_loading(key, loading, place)
    if found.series is not None:
        for name, points in use_over_time(found.series).items():
            for seconds, value in points:
                yield _row(name, f"over time: {_of(found.runs[0])}", place, [value], "",
                           x=("time", seconds, "s"))


def _of(one: ModeRun) -> str:
    return f"{one.model}, {one.mode}"


def _of_mode(one: ModeRun, place: str) -> Iterator[Result]:
    for step in _STEPS:
        yield _row(step, _of(one), place, one.values(step), "ms")
    yield _row("inference", _of(one), place,
               [p["sum_of_steps_ms"] - p["steps_ms"]["load"] for p in one.pictures], "ms")
    yield _row("recognition, loading shared out", _of(one), place,
               [one.recognition_ms(len(one.pictures))], "ms")
    yield _row("time in no step", _of(one), place, [100 * x for x in one.unaccounted()], "%")
    yield _row("CPU", _of(one), place, [100 * p["cpu_cores"] for p in one.pictures], "% of a core")
    shares = [100 * p["device_share"] for p in one.pictures if p["device_share"] is not None]
    if shares:
        yield _row("device", _of(one), place, shares, "%", better="neither")
    yield _row("memory", _of(one), place, [p["memory_bytes"] / 1e6 for p in one.pictures], "MB")
    for name, key, factor, unit in (("power", "power_w", 1e3, "mW"),
                                    ("energy of an inference", "energy_mwh", 1.0, "mWh")):
        known = [factor * p[key] for p in one.pictures[1:] or one.pictures if p[key] is not None]
        word = one.pictures[0]["energy_provenance"]
        yield _row(name, _of(one), place, known, unit, why=one.pictures[0]["energy_how"],
                   provenance="estimated" if word == "estimated" else "measured")
    if one.mode in SLOWER or one.mode in CLOUDS:
        yield _row("inference on the paper's phone", _of(one), place, [slowed_ms(one)], "ms",
                   provenance="simulated")


def _rescaling(found: Findings) -> Iterator[Result]:
    """By picture, over all modes in which it is made ready for the model alone."""
    for scene in found.scenes:
        height, width = SIZES[scene.size]
        taken = [p["steps_ms"]["rescale"] for one in found.runs if one.mode not in CLOUDS
                 for p in one.pictures if p["file"] == scene.path.name]
        kb = next(p["file_bytes"] / 1000 for p in found.runs[0].pictures
                  if p["file"] == scene.path.name)
        yield _row("rescale by picture", f"{width} x {height}, {scene.made_of}", None, taken, "ms",
                   x=("picture file", kb, "KB"))


def _of_loading(key: tuple[str, str, int], loading: Loading, place: str) -> Iterator[Result]:
    model, way, heap = key
    subject = f"{model}, {way}" + (f", heap of {heap >> 20} MB" if heap else "")
    yield _row("from start to ready", subject, place,
               [] if loading.failed else [loading.answer_ms], "ms", why=loading.failed)
    if loading.load is None or loading.use is None:
        return
    yield _row("memory at most", subject, place, [loading.peak_bytes / 1e6], "MB")
    yield _row("heap taken", subject, place, [loading.heap_bytes / 1e6], "MB")
    for phase, cost in (("load", loading.load), ("use", loading.use)):
        for name, value, unit in (
                ("duration", cost.ms, "ms"), ("collections", cost.collections, ""),
                ("collecting", cost.collecting_ms, "ms"),
                ("longest pause", cost.longest_pause_ms, "ms"),
                ("minor faults", cost.minor_faults, ""), ("major faults", cost.major_faults, "")):
            yield _row(f"{name} of {phase}", subject, place, [float(value)], unit)


def _row(name: str, subject: str, place: str | None, values: Sequence[float], unit: str, *,
         why: str = "", provenance: Provenance = "measured", better: Any = "lower",
         x: tuple[str, float, str] = ("", 0.0, "")) -> Result:
    known = len(values) > 0
    return Result(study=NAME, name=name, subject=subject, place=place,
                  value=median(values) if known else None,
                  value_reason="" if known else why or "it was not measured", unit=unit,
                  better=better, repeats=len(values),
                  spread=middle_half(tuple(values)) if len(values) > 1 else None,
                  provenance=provenance, x_name=x[0], x_value=x[1] if x[0] else None, x_unit=x[2])


def judge(found: Findings) -> list[Verdict]:
    """Labels and sums; then where it is sooner, slowed as the paper's phone was."""
    return [_same(found), _sooner(found)]


def _same(found: Findings) -> Verdict:
    """A mode's share in no step is the median over its pictures; below 0, steps overlapped."""
    worst = max(found.runs, key=lambda one: abs(median(one.unaccounted())))
    share = abs(median(worst.unaccounted()))
    tops = [one.tops() for one in found.runs if all(one.tops().values())]
    doubt = "" if tops else "no trained weights are at hand, so there are no labels to compare"
    differ = sorted({file for one in tops for file in one if one[file] != tops[0][file]})
    labels = (f"{len(differ)} of {len(tops[0])} pictures get other labels in another mode"
              if differ else f"{len(tops[0])} pictures get the same five labels in "
              f"{len(tops)} modes") if tops else doubt
    return Verdict(
        study=NAME, question=QUESTION, holds=None if doubt else not differ and share <= WITHIN,
        holds_reason=doubt,
        answer=f"{labels[0].upper()}{labels[1:]}; the sum of steps is within {share:.1%} of the "
               f"time ({_of(worst)}), allowed are {WITHIN:.0%}.")


def _sooner(found: Findings) -> Verdict:
    here = {mode: median(one.inference_ms() for one in found.mode(mode)) for mode in MODES}
    phone = {mode: median(slowed_ms(one) for one in found.mode(mode)) for mode in MODES}
    best, best_phone = min(here, key=here.__getitem__), min(phone, key=phone.__getitem__)
    doubt = ""
    if found.others is not None and found.others > MOST_OTHERS:
        doubt = f"other programs used {found.others:.0%} of this machine's cores meanwhile"
    return Verdict(
        study=NAME, question=WHERE, holds=None if doubt else best_phone in CLOUDS,
        holds_reason=doubt,
        answer="Nothing is said of which is sooner." if doubt else
               f"Measured, on the same cores: {best} at {here[best]:.0f} ms. Simulated, with the "
               f"phone slower by {SLOWER[DEVICE_CPU]:.0f} and {SLOWER[DEVICE_CL]:.0f} times "
               f"({SLOWER_HOW[DEVICE_CPU]}; {SLOWER_HOW[DEVICE_CL]}): {best_phone} at "
               f"{phone[best_phone]:.0f} ms.")
