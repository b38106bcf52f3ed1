"""The twelve observations of the training paper, each a pure function of what was measured here.

Each gives a `Finding`: it holds, it does not, or it cannot be judged here and why; always with the
figures that decide. Power is judged on measured joules alone, never on estimates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from statistics import mean, median, stdev

from handtorch.baseline.fair import MOST_OTHERS
from handtorch.profile.memory import GRADIENTS, INTERMEDIATES, PARAMETERS, WORKSPACE
from handtorch.studies.training_cells import DEVICE, RECURRENT, VISION, Cell, Kind, Planned

MUCH = 1.5                  # "much higher": so many times
POINTS = 0.10               # a difference of utilisation that counts
PREDICTABLE = 0.10          # the next step is foretold within this
GROWS = 1.05                # more than what steps vary by
DIFFERENT = 1.5             # the largest gain by the smallest
BY_TIME = (1, 2, 3, 4, 5, 7, 10, 11)


@dataclass(frozen=True)
class Day:
    """Accuracy after a day (0: before the first) of one series: a batch size and a seed."""

    batch: int
    seed: int
    day: int
    training: float
    held_out: float


@dataclass(frozen=True)
class Seen:
    """What was measured: cells and plans of `training`, days of `daily`."""

    cells: tuple[Cell, ...] = ()
    plans: tuple[Planned, ...] = ()
    days: tuple[Day, ...] = ()
    scene: str = ""                     # what the days were about, where that is to be said
    same_silicon: bool = False          # the device is the CPU it is compared with

    @property
    def others(self) -> float | None:
        """What other programs used of the cores beside the middle cell; None if nobody tells."""
        shares = [c.others for c in self.cells if c.others is not None]
        return median(shares) if shares else None

    @property
    def doubt(self) -> str:
        """Why times mean little; empty where the machine was quiet."""
        if self.others is None or self.others <= MOST_OTHERS:
            return ""
        return f"other programs used {self.others:.0%} of this machine's cores meanwhile: run it " \
               "again"

    @property
    def on_device(self) -> list[Cell]:
        return [c for c in self.cells if c.side == DEVICE and c.measured]


@dataclass(frozen=True)
class Finding:
    holds: bool | None
    figures: str
    reason: str = ""

    def __post_init__(self) -> None:
        assert (self.holds is None) == bool(self.reason), "exactly what is unknown has a reason"


def _unknown(reason: str, figures: str = "") -> Finding:
    return Finding(None, figures or "Nothing was measured that decides it.", reason)


_SAME = "the device is the CPU itself: its cores are what the device's use is made of"


def by_kind(cells: Iterable[Cell]) -> dict[Kind, list[Cell]]:
    """In order of batch."""
    found: dict[Kind, list[Cell]] = {}
    for cell in sorted(cells, key=lambda c: c.batch):
        found.setdefault(cell.kind, []).append(cell)
    return found


def device_is_busier(seen: Seen) -> Finding:
    """1: the device is used much more than the cores."""
    if seen.same_silicon:
        return _unknown(_SAME)
    pairs = [(c.use.device, c.use.mean_core) for c in seen.on_device]
    known = [(d, m) for d, m in pairs if d is not None and m is not None]
    if not known:
        return _unknown("the use of device and cores is not known of any cell")
    much = sum(d >= MUCH * m for d, m in known)
    return Finding(2 * much > len(known), f"Device {median(d for d, _ in known):.0%}, cores "
                   f"{median(m for _, m in known):.0%} (medians of {len(known)} cells); {MUCH:g} "
                   f"times as much in {much}.")


def use_is_predictable(seen: Seen) -> Finding:
    """2: a step is like the one before it, in time and in the processor time it uses."""
    times = [c.use.time_error for c in seen.on_device if c.use.time_error is not None]
    if not times:
        return _unknown("no cell has two measured steps")
    uses = [c.use.use_error for c in seen.on_device if c.use.use_error is not None]
    told = f"The next step's time is foretold within {median(times):.1%} (median of {len(times)} " \
           f"cells)"
    told += f", its use of the cores within {median(uses):.1%} ({len(uses)})." if uses else "."
    good = median(times) <= PREDICTABLE and (not uses or median(uses) <= PREDICTABLE)
    return Finding(good, told)


def device_use_follows_batch(seen: Seen) -> Finding:
    """3: a larger batch uses the device more, and the cores no more."""
    if seen.same_silicon:
        return _unknown(_SAME)
    device, cores = [], []
    for cells in by_kind(seen.on_device).values():
        first, last = cells[0], cells[-1]
        ends = (first.use.device, last.use.device, first.use.mean_core, last.use.mean_core)
        if first.batch < last.batch and None not in ends:
            a, b, c, d = (x for x in ends if x is not None)
            device.append(b - a)
            cores.append(abs(d - c))
    if not device:
        return _unknown("no model has the use of device and cores at two batches")
    return Finding(mean(device) > 0 and mean(device) > 2 * mean(cores),
                   f"From the smallest to the largest batch the device's use changes by "
                   f"{100 * mean(device):+.1f} points, the cores' by {100 * mean(cores):.1f} "
                   f"(means of {len(device)} models; the paper: 10 to 15 and 2.1).")


def cores_differ(seen: Seen) -> Finding:
    """4: some cores are used more than others."""
    spreads = [max(c.use.cores.values()) - min(c.use.cores.values())
               for c in seen.on_device if len(c.use.cores) > 1]
    if not spreads:
        return _unknown("the use of two cores is not known of any cell")
    return Finding(median(spreads) >= POINTS, f"The busiest core is {100 * median(spreads):.0f} "
                   f"points above the least busy one (median of {len(spreads)} cells; "
                   f"{100 * POINTS:.0f} count as different).")


def domains_differ(seen: Seen) -> Finding:
    """5: recurrent nets use the device less than those for pictures."""
    def uses(models: Sequence[str]) -> list[float]:
        return [c.use.device for c in seen.on_device
                if c.kind.model in models and c.use.device is not None]
    pictures, recurrent = uses(VISION), uses(RECURRENT)
    if not pictures or not recurrent:
        return _unknown("the device's use is not known of both a net for pictures and a recurrent "
                        "one")
    gap = median(pictures) - median(recurrent)
    return Finding(gap >= POINTS, f"Pictures {median(pictures):.0%}, recurrent nets "
                   f"{median(recurrent):.0%} of the time (the paper: 95 % and 25 %).")


def _measured_power(seen: Seen) -> tuple[list[Cell], str]:
    found = [c for c in seen.on_device if c.power.joules and c.power.provenance == "measured"]
    if found:
        return found, ""
    other = {c.power.provenance for c in seen.on_device if c.power.joules}
    why = next((c.power.missing for c in seen.on_device if c.power.missing), "")
    return [], (f"power is {', '.join(sorted(other))} here, not measured" if other else
                why or "no power was measured")


def _of_part(cell: Cell, part: str) -> float | None:
    joules = [j for rail, j in cell.power.joules.items() if cell.power.parts.get(rail) == part]
    return sum(joules) if joules else None


def memory_outdraws_device_for_some(seen: Seen) -> Finding:
    """6: the GPU draws most where pictures are learnt, the memory where a recurrent net is."""
    cells, why = _measured_power(seen)
    if why:
        return _unknown(why)
    pairs = [(c, _of_part(c, "gpu"), _of_part(c, "memory")) for c in cells]
    known = [(c, g, m) for c, g, m in pairs if g is not None and m is not None]
    pictures = [g / m for c, g, m in known if c.kind.model in VISION and m > 0]
    recurrent = [g / m for c, g, m in known if c.kind.model in RECURRENT and m > 0]
    if not pictures or not recurrent:
        return _unknown("GPU and memory have no rails of their own in both domains")
    return Finding(median(pictures) > 1 > median(recurrent), "GPU by memory: "
                   f"{median(pictures):.2g} for pictures, {median(recurrent):.2g} for recurrent "
                   "nets (the paper: 2, and below 1).")


def power_is_predictable(seen: Seen) -> Finding:
    """7: as 2, of power."""
    cells, why = _measured_power(seen)
    if why:
        return _unknown(why)
    errors = [c.power.error for c in cells if c.power.error is not None]
    if not errors:
        return _unknown("no cell has two steps with readings of power")
    return Finding(median(errors) <= PREDICTABLE, f"The next step's power is foretold within "
                   f"{median(errors):.1%} (median of {len(errors)} cells).")


def energy_grows_less_than_batch(seen: Seen) -> Finding:
    """8: more energy for a larger batch, but less than in proportion."""
    cells, why = _measured_power(seen)
    if why:
        return _unknown(why)
    found = []
    for mine in by_kind(cells).values():
        first, last = mine[0], mine[-1]
        rails = first.power.joules.keys() & last.power.joules.keys()
        before = sum(first.power.joules[r] for r in rails)
        if first.batch < last.batch and before > 0:
            after = sum(last.power.joules[r] for r in rails)
            found.append((after / before, last.batch / first.batch))
    if not found:
        return _unknown("no model has measured joules at two batches")
    return Finding(all(1 < e < b for e, b in found), "Energy of a step grows "
                   f"{min(e for e, _ in found):.2g} to {max(e for e, _ in found):.2g} times where "
                   f"the batch grows {max(b for _, b in found):g} times (the paper: 2.2 to 10.5 "
                   "for 16).")


def batch_decides_memory(seen: Seen) -> Finding:
    """9: intermediates grow with the batch, weights and gradients do not; so a batch may be too
    large for the memory where a smaller one is not."""
    grown, steady = [], True
    for cells in by_kind(c for c in seen.on_device if c.memory and c.memory.roles).values():
        first, last = cells[0].memory, cells[-1].memory
        if cells[0].batch == cells[-1].batch or first is None or last is None:
            continue
        steady &= all(first.roles.get(r, 0) == last.roles.get(r, 0) for r in (PARAMETERS,))
        grown.append(_inside(last.roles) / max(1, _inside(first.roles)))
    by_model: dict[Kind, list[Planned]] = {}
    for plan in seen.plans:
        by_model.setdefault(plan.kind, []).append(plan)
    decided = [k for k, plans in by_model.items()
               if len({p.fits_alone() for p in plans}) == 2]
    if not grown or not by_model:
        return _unknown("no model was planned and measured at two batches")
    told = (f"From the smallest to the largest batch measured, intermediates grow "
            f"{min(grown):.2g} to {max(grown):.2g} times, parameters "
            f"{'do not' if steady else 'do too'}; {len(decided)} of {len(by_model)} models fit at "
            f"a small batch and not at a larger one up to {max(p.batch for p in seen.plans)}"
            + (f" ({', '.join(k.model for k in decided)})." if decided else "."))
    return Finding(min(grown) > GROWS and steady and bool(decided), told)


def _inside(roles: dict[str, int] | object) -> int:
    assert isinstance(roles, dict)
    return sum(roles.get(r, 0) for r in (INTERMEDIATES, WORKSPACE, GRADIENTS))


def _gains(seen: Seen) -> tuple[dict[str, float], float]:
    """By model how much more samples a second at its largest batch; and how much larger that is."""
    found, factor = {}, 1.0
    for kind, cells in by_kind(seen.on_device).items():
        first, last = cells[0].samples_per_s, cells[-1].samples_per_s
        if cells[0].batch < cells[-1].batch and first and last:
            found[kind.model] = last / first
            factor = max(factor, cells[-1].batch / cells[0].batch)
    return found, factor


def throughput_grows(seen: Seen) -> Finding:
    """10: a larger batch, more samples a second, for all models."""
    gains, factor = _gains(seen)
    if not gains:
        return _unknown("no model was measured at two batches")
    flat = [f"{m} {g:.2f}" for m, g in gains.items() if g <= GROWS]
    return Finding(not flat, f"For {factor:g} times the batch throughput grows "
                   f"{min(gains.values()):.2f} to {max(gains.values()):.2f} times over "
                   f"{len(gains)} models" + (f"; not, or by less than 5 %: {', '.join(flat)}."
                                             if flat else "."))


def throughput_differs(seen: Seen) -> Finding:
    """11: by how much depends on the model."""
    gains, factor = _gains(seen)
    if len(gains) < 2:
        return _unknown("two models at two batches are needed")
    low, high = min(gains, key=gains.__getitem__), max(gains, key=gains.__getitem__)
    ratio = gains[high] / gains[low]
    return Finding(ratio >= DIFFERENT, f"For {factor:g} times the batch {gains[high]:.2f} times as "
                   f"many samples a second ({high}) and {gains[low]:.2f} times ({low}): a factor "
                   f"of {ratio:.2f} between them (the paper: 15.3 and 1.7).")


def accuracy_grows(seen: Seen) -> Finding:
    """12: training accuracy grows slowly from day to day."""
    series: dict[tuple[int, int], list[Day]] = {}
    for day in sorted(seen.days, key=lambda d: d.day):
        series.setdefault((day.batch, day.seed), []).append(day)
    gains = [days[-1].training - days[0].training for days in series.values() if len(days) > 1]
    unseen = [days[-1].held_out - days[0].held_out for days in series.values() if len(days) > 1]
    if not gains:
        return _unknown("it takes days of training, which `handtorch study daily` has; `handtorch "
                        "study all` runs both")
    doubt = 2 * stdev(gains) / sqrt(len(gains)) if len(gains) > 1 else 0.0
    days = max(d.day for d in seen.days)
    start = mean(d.training for d in seen.days if d.day == 0)
    where = f"By the study daily, on {seen.scene}: after" if seen.scene else "After"
    return Finding(mean(gains) - doubt > 0, f"{where} {days} days training accuracy went from "
                   f"{start:.2%} by {100 * mean(gains):+.2f} points (two standard errors "
                   f"{100 * doubt:.2f}, {len(gains)} series), held-out accuracy by "
                   f"{100 * mean(unseen):+.2f} (the paper: 60.65 % to 61.32 %, training).")


def judged(seen: Seen) -> list[Finding]:
    """All twelve. Beside other busy programs what is judged by times is told, but not judged."""
    found = [judge(seen) for _, judge in OBSERVATIONS]
    doubt = seen.doubt
    return [replace(f, holds=None, reason=doubt) if doubt and n in BY_TIME and f.holds is not None
            else f for n, f in enumerate(found, 1)]


# Statements are the paper's own, shortened.
OBSERVATIONS: tuple[tuple[str, Callable[[Seen], Finding]], ...] = (
    ("GPU utilisation is much higher than that of the CPU's cores", device_is_busier),
    ("Utilisation is predictable: it repeats step after step", use_is_predictable),
    ("GPU utilisation is sensitive to the batch size, the CPU's is not", device_use_follows_batch),
    ("Different cores have different utilisation", cores_differ),
    ("GPU utilisation varies between application domains", domains_differ),
    ("For some models the memory draws more power than the GPU", memory_outdraws_device_for_some),
    ("Power is predictable across steps", power_is_predictable),
    ("Energy grows with the batch size, but not in proportion", energy_grows_less_than_batch),
    ("A good batch size is critical to be able to train", batch_decides_memory),
    ("Throughput increases with the batch size", throughput_grows),
    ("Across models throughput changes differently with the batch size", throughput_differs),
    ("Training on the device can slowly increase training accuracy", accuracy_grows),
)
