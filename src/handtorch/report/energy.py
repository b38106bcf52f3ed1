"""Joules of a step by layer, phase and operation, with the interval each lies in."""

from __future__ import annotations

from collections.abc import Sequence

from handtorch.record import Energy, Run
from handtorch.report import tables
from handtorch.report.spell import MISSING, esc, joules, number

_MOST_BARS = 24
_LEVELS = ("layer", "phase")
Key = tuple[str, str, str, str]


def energy(run: Run) -> str:
    """A figure for each signal that tells joules of layers; empty where none does."""
    groups: dict[Key, list[Energy]] = {}
    for e in run.energies:
        groups.setdefault((e.subject, e.place, e.meter, e.quantity), []).append(e)
    parts = [_of(key, rows) for key, rows in groups.items()]
    return "".join(parts) + _missing(run)


def step_joules(rows: Sequence[Energy]) -> float | None:
    """Of one step on average, from the row of the whole rail."""
    rail = next((e for e in rows if e.level == "rail"), None)
    return rail.total_j / rail.instances if rail and rail.total_j and rail.instances else None


def _of(key: Key, rows: Sequence[Energy]) -> str:
    subject, place, meter, quantity = key
    rail = next((e for e in rows if e.level == "rail"), None)
    steps = rail.instances if rail is not None else 0
    who = f"{esc(subject)} on {esc(place)}, {esc(meter)} {esc(quantity)}"
    if rail is None or not steps or rail.total_j is None:
        why = rail.total_reason if rail is not None else "its rail has no total"
        return f'<p class="callout">{who}: joules are not known: {esc(why)}</p>'
    whole = rail.total_j / steps
    title = (f'<figcaption class="ylabel">{who}<span>: {joules(whole)} a step, '
             f'{number(rail.total_j / rail.seconds)} W on average</span> '
             f'<span class="badge {rail.provenance}">{rail.provenance}</span></figcaption>'
             if rail.seconds else f'<figcaption class="ylabel">{who}</figcaption>')
    layers = [e for e in rows if e.level in ("layer", "idle", "unattributed")]
    bars = _bars(layers, steps)
    table = "".join(_table(level, [e for e in rows if e.level == level], steps, whole)
                    for level in (*_LEVELS, "op"))
    return (f'<figure class="chart">{title}{bars}<p class="hint">How: {esc(rail.how)}.</p></figure>'
            f"<details><summary>Joules of layers, phases and operations as tables</summary>{table}"
            "</details>")


def _bars(rows: Sequence[Energy], steps: int) -> str:
    known = sorted((e for e in rows if e.total_j is not None), key=lambda e: -(e.total_j or 0))
    full = max([*(e.total_j or 0.0 for e in known), *(e.high_j or 0.0 for e in known)], default=0)
    if full <= 0:
        return ""
    made = [_bar(e, steps, full, i) for i, e in enumerate(known[:_MOST_BARS])]
    rest = known[_MOST_BARS:]
    more = (f'<p class="hint">{len(rest):,} more are in the table.</p>' if rest else "")
    return f'<div class="bars">{"".join(made)}</div>{more}'


def _bar(e: Energy, steps: int, full: float, i: int) -> str:
    total = e.total_j or 0.0
    name = e.name or e.level
    css = "g2" if e.level in ("idle", "unattributed") else "c0"
    said, whisker = "no interval is known", ""
    if e.low_j is not None and e.high_j is not None:
        low, high = max(e.low_j, 0.0), max(e.high_j, 0.0)
        said = f"95 % lie from {joules(e.low_j / steps)} to {joules(e.high_j / steps)}"
        whisker = (f'<b class="whisker" style="left:{100 * low / full:.2f}%;'
                   f'width:{100 * (high - low) / full:.2f}%"></b>')
    text = (f"{name}: {joules(total / steps)} a step, {e.provenance}, {said}, "
            f"{number(1e3 * e.seconds / steps)} ms a step")
    return (f'<div class="bar" title="{esc(text)}"><span class="what">{esc(name)}</span>'
            f'<span class="track"><i class="{css} {e.provenance}" '
            f'style="width:{max(0.0, 100 * total / full):.2f}%"></i>{whisker}</span>'
            f'<span class="value">{joules(total / steps)}</span></div>')


def _table(level: str, rows: Sequence[Energy], steps: int, whole: float) -> str:
    if not rows:
        return ""
    ordered = sorted(rows, key=lambda e: -(e.total_j or 0.0))
    cells = [[esc(e.name), tables.value_or_reason(
        None if e.total_j is None else joules(e.total_j / steps), e.total_reason),
        MISSING if e.low_j is None or e.high_j is None
        else f"{joules(e.low_j / steps)} to {joules(e.high_j / steps)}",
        MISSING if e.dynamic_j is None else joules(e.dynamic_j / steps),
        MISSING if e.total_j is None or not whole
        else f"{100 * e.total_j / steps / whole:.1f} %",
        tables.provenance(e.provenance)] for e in ordered]
    return tables.table(f"Joules by {level}", [level, "a step", "95 %", "above idle", "share",
                                               "provenance"], cells)


def _missing(run: Run) -> str:
    """Sensors that are not here, in a place where they can be looked up."""
    if not run.missing:
        return ""
    rows = [[esc(m.source), tables.text_cell(m.why), tables.text_cell(m.fix)] for m in run.missing]
    return ("<details><summary>Sensors and readings that were missing</summary>"
            f"{tables.table('Not sensed', ['source', 'why', 'what would help'], rows)}</details>")
