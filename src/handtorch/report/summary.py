"""A run in a few sentences and tiles: the numbers that matter, each with where it comes from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from handtorch.record import Energy, Run, Step
from handtorch.report.energy import step_joules
from handtorch.report.kernels import TimedStep, middle_steps
from handtorch.report.spell import duration, esc, joules, number, size

_MOST_SUBJECTS = 4


@dataclass(frozen=True)
class Tile:
    """One number in large letters; texts are HTML already."""

    value: str
    what: str
    provenance: str


@dataclass(frozen=True)
class Timed:
    """All steps of one subject at one place."""

    subject: str
    place: str
    steps: tuple[Step, ...]

    @property
    def median_ns(self) -> float:
        return median(s.end_ns - s.start_ns for s in self.steps)

    @property
    def spread_ns(self) -> int:
        times = sorted(s.end_ns - s.start_ns for s in self.steps)
        return times[3 * len(times) // 4] - times[len(times) // 4]


def timed_steps(run: Run) -> list[Timed]:
    """In the order of the run."""
    groups: dict[tuple[str, str], list[Step]] = {}
    for step in run.steps:
        groups.setdefault((step.subject, step.place), []).append(step)
    return [Timed(*key, tuple(steps)) for key, steps in groups.items()]


def summary(run: Run) -> str:
    """Tiles and sentences; empty where the run has neither steps nor verdicts."""
    found = timed_steps(run)
    tiles = list(_tiles(run, found[0])) if found else []
    tiles += list(_judged(run))
    middle = {(t.step.subject, t.step.place): t for t in middle_steps(run)}
    said = [" ".join(_sentences(run, one, middle.get((one.subject, one.place))))
            for one in found[:_MOST_SUBJECTS]]
    said += list(_ratios(run, found))
    html = "".join(f'<li><b>{t.value}</b><span>{t.what}</span>'
                   f'<span class="badge {t.provenance}">{t.provenance}</span></li>' for t in tiles)
    return (f'<ul class="tiles">{html}</ul>' if tiles else "") + "".join(
        f"<p class=said>{text}</p>" for text in said)


def _result(run: Run, name: str, one: Timed) -> float | None:
    return next((r.value for r in run.results if r.name == name and r.subject == one.subject
                 and r.place == one.place), None)


def _tiles(run: Run, one: Timed) -> Iterator[Tile]:
    word = one.steps[0].provenance
    yield Tile(duration(one.median_ns), f"a step of {esc(one.subject)} on {esc(one.place)}", word)
    rate, use = _result(run, "throughput", one), _result(run, "utilisation", one)
    if rate is not None:
        yield Tile(number(rate), "samples a second", "measured")
    if use is not None:
        yield Tile(f"{100 * use:.0f}\N{NO-BREAK SPACE}%", "of a step the device works", "measured")
    peak = [m for m in run.memory if m.moment == "peak" and m.bytes
            and (m.subject, m.place) == (one.subject, one.place)]
    if peak:
        yield Tile(size(sum(m.bytes or 0 for m in peak)), "of memory at the peak",
                   peak[0].provenance)
    for rows in _energies(run, one):
        spent = step_joules(rows)
        if spent is not None:
            yield Tile(joules(spent), f"a step, by {esc(rows[0].meter)}", rows[0].provenance)
            break


def _energies(run: Run, one: Timed) -> Iterator[Sequence[Energy]]:
    groups: dict[tuple[str, str], list[Energy]] = {}
    for e in run.energies:
        if (e.subject, e.place) == (one.subject, one.place):
            groups.setdefault((e.meter, e.quantity), []).append(e)
    yield from groups.values()


def _judged(run: Run) -> Iterator[Tile]:
    if not run.verdicts:
        return
    held = [v.holds for v in run.verdicts]
    yield Tile(f"{held.count(True)} of {len(held)}", "questions: the claim holds", "measured")
    if held.count(None):
        yield Tile(str(held.count(None)), "cannot be judged here", "measured")


def _sentences(run: Run, one: Timed, middle: TimedStep | None) -> Iterator[str]:
    kind, count = one.steps[0].kind, len(one.steps)
    spread = (f"the median of {count:,} steps, the middle half within {duration(one.spread_ns)}"
              if count > 1 else "one step, so nothing is known of its spread")
    yield (f"A {esc(kind)} step of <b>{esc(one.subject)}</b> on <b>{esc(one.place)}</b> takes "
           f"<b>{duration(one.median_ns)}</b>, {spread}.")
    if middle is not None:
        yield from _work(middle)
    yield from _idle(run, one)
    yield from _memory(run, one)


def _work(middle: TimedStep) -> Iterator[str]:
    spent: dict[str, int] = {}
    kernels: dict[tuple[str, str], int] = {}
    for la in middle.launches:
        assert la.start_ns is not None and la.end_ns is not None
        ns = la.end_ns - la.start_ns
        spent[la.phase] = spent.get(la.phase, 0) + ns
        kernels[la.kernel, la.layer] = kernels.get((la.kernel, la.layer), 0) + ns
    whole = sum(spent.values())
    if not whole:
        return
    shares = [f"{esc(phase)} {100 * ns / whole:.0f} %" for phase, ns in
              sorted(spent.items(), key=lambda pair: -pair[1]) if ns >= 0.005 * whole]
    yield f"Of the work {', '.join(shares)}."
    (kernel, layer), ns = max(kernels.items(), key=lambda pair: pair[1])
    where = f" in layer {esc(layer)}" if layer else ""
    yield f"Most of it, {100 * ns / whole:.0f} %, is {esc(kernel)}{where}."


def _idle(run: Run, one: Timed) -> Iterator[str]:
    ours = {s.id for s in one.steps}
    causes: dict[str, int] = {}
    for gap in run.gaps:
        if gap.step in ours:
            causes[gap.cause] = causes.get(gap.cause, 0) + gap.end_ns - gap.start_ns
    idle, whole = sum(causes.values()), sum(s.end_ns - s.start_ns for s in one.steps)
    if idle and whole:
        most = max(causes, key=causes.__getitem__)
        yield (f"Nothing works for {100 * idle / whole:.1f} % of the time, mostly "
               f"({100 * causes[most] / idle:.0f} %) for the cause <i>{esc(most)}</i>.")


def _memory(run: Run, one: Timed) -> Iterator[str]:
    peak = {m.role: m.bytes or 0 for m in run.memory if m.moment == "peak"
            and (m.subject, m.place) == (one.subject, one.place)}
    whole = sum(peak.values())
    if whole:
        most = max(peak, key=peak.__getitem__)
        yield (f"At its peak it holds {size(whole)}, {100 * peak[most] / whole:.0f} % of it "
               f"{esc(most)}.")


def _ratios(run: Run, found: Sequence[Timed]) -> Iterator[str]:
    """The first place against each other one that ran the same."""
    for other in found[1:]:
        one = next(f for f in found if f.subject == other.subject)
        if one is other or not one.median_ns or not other.median_ns:
            continue
        ratio = other.median_ns / one.median_ns
        faster = (f"{number(ratio)} times as fast as" if ratio >= 1
                  else f"{number(1 / ratio)} times as slow as")
        same = _same_silicon(run, one.place, other.place)
        note = " Both share the same cores." if same else "" if same is False else (
            " Whether the two share cores is not recorded.")
        yield (f"<b>{esc(one.place)}</b> is <b>{faster}</b> {esc(other.place)} on "
               f"{esc(one.subject)}.{note}")


def _same_silicon(run: Run, one: str, other: str) -> bool | None:
    """What is recorded of the two; what is said of the host's CPU holds for all that runs on it."""
    kinds = {p.name: p.kind for p in run.places}
    for c in run.comparisons:
        pairs = [((one, other), (c.first, c.second)), ((one, other), (c.second, c.first))]
        for ours, theirs in pairs:
            if all(a == b or kinds.get(a) == kinds.get(b) == "host cpu"
                   for a, b in zip(ours, theirs, strict=True)):
                return c.same_silicon
    return None
