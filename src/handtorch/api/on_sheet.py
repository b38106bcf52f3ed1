"""A program on a device that is not at hand: time, memory and energy by its sheet. `simulated`."""

from __future__ import annotations

from dataclasses import dataclass

from handtorch.api.budget import device_bytes
from handtorch.place.draw import draw_of
from handtorch.place.ours import PRODUCT, SHARES, work_of
from handtorch.place.predict import PROVENANCE, Times, predict
from handtorch.place.processor import doubts, rates_of
from handtorch.place.sheet import Processor, Sheet
from handtorch.plan.cost import Roofline
from handtorch.program import Program


@dataclass(frozen=True)
class Simulated:
    """One run of a program. `energy_j` None is unknown and `energy_how` says why; `fits` compares
    what the device holds with all the memory that it offers."""

    device: str
    processor: str
    kind: str
    times: Times
    held_bytes: int
    capacity_bytes: int | None
    energy_j: float | None
    energy_how: str
    doubts: tuple[str, ...]
    provenance: str = PROVENANCE

    @property
    def fits(self) -> bool | None:
        return None if self.capacity_bytes is None else self.held_bytes <= self.capacity_bytes

    def text(self) -> str:
        t = self.times
        lines = [f"{self.provenance} on {self.device}, {self.processor} ({self.kind}):",
                 f"  time      {1e3 * t.total_s:,.2f} ms, most of it {t.bound} (arithmetic "
                 f"{1e3 * t.compute_s:,.2f}, memory {1e3 * t.memory_s:,.2f}, launches "
                 f"{1e3 * t.launch_s:,.2f}, copies {1e3 * t.copy_s:,.2f})",
                 f"  launches  {t.launches:,}",
                 f"  memory    {self.held_bytes:,} bytes held; {self._fit()}",
                 "  energy    " + (self.energy_how if self.energy_j is None else
                                   f"{self.energy_j:,.3g} J ({self.energy_how})")]
        return "\n".join([*lines, *(f"  doubt     {line}" for line in self.doubts)])

    def _fit(self) -> str:
        if self.capacity_bytes is None:
            return "what the device has is not known"
        word = "fits into" if self.fits else "DOES NOT FIT into"
        return f"{word} the device's {self.capacity_bytes:,}, all of which it is unlikely to get"


def simulated(program: Program, sheet: Sheet, kind: str = "", load: float = 0.0) -> Simulated:
    """One step, or one run of a model, on the sheet's processor of that kind (its GPU if not told),
    of which others use `load`. Batch and results are copied, one copy for each."""
    processor = sheet.processor(kind)
    shares = SHARES[processor.kind]
    works = [work_of(s.kernel, s.flops, s.bytes) for s in program.steps]
    copies = [p.value.nbytes for p in (*program.graph.inputs, *program.graph.outputs)]
    times = predict(works, rates_of(processor), shares.software, copies, load)
    drawn = draw_of(sheet, processor.kind, float(sheet.core_count))
    moved = sum(s.bytes for s in program.steps)
    energy_j, how = ((None, f"not known: {drawn}") if isinstance(drawn, str) else
                     (drawn.total_j(times.total_s, moved), drawn.how))
    offered = _offered_bytes(sheet, processor)
    more = [f"capacity is {sheet.capacity_bytes.doubt}"] if sheet.capacity_bytes.doubt else []
    if program.spec.assumed:
        more.append(f"as on the weakest phone: {', '.join(program.spec.assumed)}")
    return Simulated(
        sheet.name, processor.name, processor.kind, times, device_bytes(program.plan),
        offered, energy_j, how,
        (shares.source, *doubts(processor), *more))


def _offered_bytes(sheet: Sheet, processor: Processor) -> int | None:
    """What the driver offers where that is known, else all that the device has."""
    known = [int(b) for b in (sheet.capacity_bytes.value, processor.limits.get("global_bytes"))
             if b is not None]
    return min(known, default=None)


def roofline_of(processor: Processor) -> Roofline:
    """What a budget trades by: the sheet's rates, as products reach them."""
    rates, shares = rates_of(processor), SHARES[processor.kind].software
    return Roofline(shares.share(PRODUCT) * rates.flops_per_s, rates.bytes_per_s,
                    1e9 * rates.launch_s, PROVENANCE)
