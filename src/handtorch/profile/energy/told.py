"""The joules of a run as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from handtorch.profile.columns import table
from handtorch.profile.energy.groups import MWH_PER_J
from handtorch.profile.group import Group
from handtorch.record import Energy, Run

_TOP = 12
_PARTS = (("phase", 99), ("layer", _TOP), ("op", _TOP))


def told(run: Run, group: Group) -> Iterator[str]:
    """One line for each rail; of the largest one also who took it."""
    step = group.steps[0]
    rows = [e for e in run.energies if (e.subject, e.place) == (step.subject, step.place)]
    rails = [e for e in rows if e.level == "rail"]
    if not rails:
        return
    rate = next((r.value for r in run.results if r.name == "throughput"
                 and (r.subject, r.place) == (step.subject, step.place)), None)
    yield "\n".join(_rail(rail, rows, rate) for rail in rails)
    known = [r for r in rails if r.total_j is not None]
    if known:
        yield _three_steps(known, rows)
        rail = max(known, key=lambda r: r.total_j or 0.0)
        own = [e for e in rows if (e.meter, e.quantity) == (rail.meter, rail.quantity)]
        for level, most in _PARTS:
            parts = [e for e in own if e.level == level]
            if parts:
                yield _table(level, parts, rail, most)


def _rail(rail: Energy, rows: Sequence[Energy], samples_per_s: float | None) -> str:
    head = f"{rail.provenance} by {rail.meter} {rail.quantity}"
    if rail.total_j is None:
        return f"energy {head}: none, {rail.total_reason}"
    joules, seconds, steps = rail.total_j, max(rail.seconds, 1e-12), max(rail.instances, 1)
    rest = {e.level: e.total_j for e in rows if e.total_j is not None
            and (e.meter, e.quantity) == (rail.meter, rail.quantity)
            and e.level in ("idle", "unattributed")}
    parts = [f"{_j(joules / steps)} a step", f"{joules / steps * MWH_PER_J:.4g} mWh",
             f"{joules / seconds:.3g} W on average",
             *([f"{_j(joules / seconds / samples_per_s)} a sample"] if samples_per_s else []),
             *(f"{100 * part / joules:.1f} % {name}" for name, part in rest.items() if joules)]
    return f"energy {head}: {', '.join(parts)} ({rail.how})"


def _three_steps(rails: Sequence[Energy], rows: Sequence[Energy]) -> str:
    """The mean power of every rail in three steps, from the middle on."""
    power = {(e.meter, e.quantity, e.name): e.total_j / max(e.seconds, 1e-12) for e in rows
             if e.level == "step" and e.total_j is not None}
    names = list(dict.fromkeys(name for _, _, name in power))
    shown = names[len(names) // 2:][:3]
    return table(("mean power in step", *shown), [
        (f"{r.meter} {r.quantity}", *(f"{power[r.meter, r.quantity, name]:.3g} W"
                                      if (r.meter, r.quantity, name) in power else ""
                                      for name in shown)) for r in rails])


def _table(level: str, parts: Sequence[Energy], rail: Energy, most: int) -> str:
    """Those that took most first; then those of which nothing can be said."""
    steps = max(rail.instances, 1)
    known = sorted((e for e in parts if e.total_j is not None), key=lambda e: -(e.total_j or 0.0))
    rows = [(e.name, _j((e.total_j or 0.0) / steps), _bounds(e, steps),
             "" if e.dynamic_j is None else _j(e.dynamic_j / steps),
             f"{100 * (e.total_j or 0.0) / (rail.total_j or 1.0):.1f} %",
             f"{(e.total_j or 0.0) / max(e.seconds, 1e-12):.3g} W", "")
            for e in known[:most]]
    if rest := known[most:]:
        joules = sum(e.total_j or 0.0 for e in rest)
        rows.append((f"{len(rest)} more", _j(joules / steps), "", "",
                     f"{100 * joules / (rail.total_j or 1.0):.1f} %", "", ""))
    unknown = [e for e in parts if e.total_j is None]
    reasons = sorted({e.total_reason.partition(":")[0] for e in unknown})
    if unknown:
        rows.append((f"{len(unknown)} not known", "", "", "", "", "", "; ".join(reasons)))
    return table((f"joules by {level}", "a step", "95 %", "above idle", "share", "power", ""), rows)


def _bounds(e: Energy, steps: int) -> str:
    if e.low_j is None or e.high_j is None:
        return ""
    return f"{_j(e.low_j / steps)} to {_j(e.high_j / steps)}"


def _j(joules: float) -> str:
    """Three digits, in a unit that fits."""
    for unit, scale in (("J", 1.0), ("mJ", 1e3), ("uJ", 1e6)):
        if abs(joules) * scale >= 1 or unit == "uJ":
            return f"{joules * scale:.3g} {unit}"
    raise AssertionError("uJ fits always")
