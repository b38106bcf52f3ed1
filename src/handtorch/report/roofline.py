"""The roofline: what each operation reached, under what the device does at best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from handtorch.record import Launch, Result, Run
from handtorch.report import tables
from handtorch.report.axis import Axis, log_axis
from handtorch.report.charts import Frame, grid
from handtorch.report.spell import duration, esc, number

ARITHMETIC, MEMORY = "arithmetic peak", "memory peak"
_PHASES = ("forward", "backward", "optimizer")
_WIDE, _SLIM = (1000, 420, 70, 30, 18, 46), (360, 330, 56, 14, 18, 44)
_MOST_ROWS = 40
_LEAST_SHARE = 0.001             # of the time: what takes less is in the table only


@dataclass(frozen=True)
class Spot:
    """One kernel in one layer and phase: all its launches of all steps together."""

    kernel: str
    layer: str
    phase: str
    flops: int
    bytes: int
    ns: int
    launches: int

    @property
    def intensity(self) -> float:
        return self.flops / self.bytes

    @property
    def gflops(self) -> float:
        return self.flops / self.ns


def rooflines(run: Run) -> str:
    """One for each place of which both best rates and launches with known work are recorded."""
    best: dict[str, dict[str, Result]] = {}
    for r in run.results:
        if r.name in (ARITHMETIC, MEMORY) and r.place is not None and r.value:
            best.setdefault(r.place, {})[r.name] = r
    parts = []
    for place, roofs in best.items():
        spots = spots_of(run, place)
        if len(roofs) == 2 and spots:
            parts.append(_figure(place, spots, roofs[ARITHMETIC], roofs[MEMORY]))
    return "".join(parts)


def spots_of(run: Run, place: str) -> list[Spot]:
    """Longest first; what computes nothing or moves nothing has no place on a roofline."""
    steps = {s.id for s in run.steps if s.place == place}
    groups: dict[tuple[str, str, str], list[Launch]] = {}
    for la in run.launches:
        if la.step in steps and la.lane != "host" and la.flops and la.moved_bytes:
            groups.setdefault((la.kernel, la.layer, la.phase), []).append(la)
    found = []
    for (kernel, layer, phase), same in groups.items():
        ns = sum(la.end_ns - la.start_ns for la in same
                 if la.end_ns is not None and la.start_ns is not None)
        if ns > 0:
            found.append(Spot(kernel, layer, phase, sum(la.flops or 0 for la in same),
                              sum(la.moved_bytes or 0 for la in same), ns, len(same)))
    return sorted(found, key=lambda s: -s.ns)


def _figure(place: str, spots: Sequence[Spot], arithmetic: Result, memory: Result) -> str:
    top, slope = (arithmetic.value or 0) / 1e9, (memory.value or 0) / 1e9
    whole = sum(s.ns for s in spots)
    large = [s for s in spots if s.ns >= _LEAST_SHARE * whole]
    drawn = "".join(_svg(place, large, whole, top, slope, box, css)
                    for box, css in ((_WIDE, "wide"), (_SLIM, "slim")))
    phases = dict.fromkeys(s.phase for s in spots)
    keys = "".join(f'<li><i class="{_colour(p)}"></i>{esc(p)}</li>' for p in phases)
    rows = [[esc(s.kernel), tables.text_cell(s.layer), tables.text_cell(s.phase),
             number(s.intensity), number(s.gflops),
             f"{100 * s.gflops / min(top, slope * s.intensity):.0f} %", duration(s.ns),
             f"{s.launches:,}"] for s in spots[:_MOST_ROWS]]
    table = tables.table(
        f"Operations on {esc(place)}, longest first"
        + (f" ({_MOST_ROWS} of {len(spots):,})" if len(spots) > _MOST_ROWS else ""),
        ["kernel", "layer", "phase", "FLOP/B", "GFLOP/s", "of the roof", "time", "launches"], rows)
    return (f'<figure class="chart"><figcaption class="ylabel">{esc(place)}: GFLOP/s '
            f"<span>under what it does at best: {number(top)} GFLOP/s and {number(slope)} GB/s, "
            'both measured in this run; a disc is as large as its time</span> '
            f'<span class="badge {arithmetic.provenance}">{arithmetic.provenance}</span>'
            f'</figcaption>{drawn}<ul class="legend always">{keys}</ul><p class="hint">'
            f"Above the slope: its data came out of a cache. {_left(len(spots) - len(large))}"
            "</p></figure>"
            f"<details><summary>The roofline as a table</summary>{table}</details>")


def _left(count: int) -> str:
    return f"{count:,} that take less than 0.1 % of the time are in the table." if count else ""


def _colour(phase: str) -> str:
    return f"c{_PHASES.index(phase)}" if phase in _PHASES else "c5"


def _svg(place: str, spots: Sequence[Spot], whole: int, top: float, slope: float,
         box: tuple[int, int, int, int, int, int], css: str) -> str:
    ridge = top / slope
    xs = [*(s.intensity for s in spots), ridge]
    ys = [*(s.gflops for s in spots), top]
    few = 6 if css == "slim" else 10
    x: Axis = log_axis(min(xs) / 1.5, max(xs) * 1.8, few)
    y: Axis = log_axis(min(ys) / 1.6, max(ys) * 1.6, few - 2)
    frame = Frame(*box, x, y)
    left = max(x.low, y.low / slope)
    roof = (f"M{frame.px(left):.1f} {frame.py(left * slope):.1f}"
            f"L{frame.px(ridge):.1f} {frame.py(top):.1f}H{frame.width - frame.right}")
    discs = "".join(_disc(s, frame, s.ns / whole, css == "slim") for s in spots)
    return (f'<svg class="{css}" viewBox="0 0 {frame.width} {frame.height}" role="img" '
            f'aria-label="Roofline of {esc(place)}; the table below holds its figures.">'
            f'{grid(frame, "FLOP for each byte moved")}'
            f'<path class="roof" d="{roof}"/>{discs}</svg>')


def _disc(s: Spot, frame: Frame, share: float, small: bool) -> str:
    radius = (3 + 14 * share**0.5) * (0.7 if small else 1)
    x, y = frame.px(s.intensity), frame.py(s.gflops)
    said = (f"{s.kernel}{f' in {s.layer}' if s.layer else ''}: {number(s.gflops)} GFLOP/s, "
            f"{s.phase}, {number(s.intensity)} FLOP/B, {100 * share:.1f} % of the time")
    return (f'<g class="s {_colour(s.phase)}"><circle class="dot disc" cx="{x:.1f}" cy="{y:.1f}" '
            f'r="{radius:.1f}"><title>{esc(said)}</title></circle></g>')
