"""Cloud or device: what each way of doing the work costs, which is best, and what `auto` took.

A run holds such a table where it has results called "cost: WAY"; their subject is the case."""

from __future__ import annotations

import math
from collections.abc import Sequence

from handtorch.record import Result, Run
from handtorch.report import tables
from handtorch.report.spell import MISSING, esc, joules, number

_PREFIX, _AUTO, _CLOUD = "cost: ", "auto", "cloud"


def is_cost(r: Result) -> bool:
    return r.name.startswith(_PREFIX)


def decisions(run: Run, study: str) -> str:
    """Every case of the study with its costs; empty where it compared no places."""
    cases: dict[str, dict[str, Result]] = {}
    for r in run.results:
        if r.study == study and is_cost(r) and r.value is not None:
            cases.setdefault(r.subject, {})[r.name.removeprefix(_PREFIX)] = r
    shown = {case: ways for case, ways in cases.items() if set(ways) - {_AUTO}}
    if not shown:
        return ""
    parts = [_won(shown), _map(shown), _table(shown)]
    return f"<h3>Cloud or device</h3>{''.join(parts)}"


def _best(ways: dict[str, Result], cloud: bool | None = None) -> tuple[str, Result] | None:
    """The cheapest way, of all or of one place; `auto` is a choice among them, not a way."""
    able = {way: r for way, r in ways.items()
            if way != _AUTO and (cloud is None or way.startswith(_CLOUD) == cloud)}
    if not able:
        return None
    way = min(able, key=lambda w: able[w].value or 0.0)
    return way, able[way]


def _place(ways: dict[str, Result]) -> str:
    best = _best(ways)
    return "" if best is None else _CLOUD if best[0].startswith(_CLOUD) else "device"


def _won(cases: dict[str, dict[str, Result]]) -> str:
    places = [_place(ways) for ways in cases.values()]
    words = sorted({r.provenance for ways in cases.values() for r in ways.values()})
    badges = " ".join(f'<span class="badge {w}">{w}</span>' for w in words)
    return (f"<p>In {len(cases):,} cases the cloud is cheaper in {places.count(_CLOUD):,} and the "
            f"device in {places.count('device'):,}. {badges}</p>")


def _map(cases: dict[str, dict[str, Result]]) -> str:
    """A bar to the left where the device is cheaper, to the right where the cloud is."""
    rows = []
    for case, ways in cases.items():
        here, there = _best(ways, False), _best(ways, True)
        if here is None or there is None or not here[1].value or not there[1].value:
            continue
        ratio = here[1].value / there[1].value
        side = "cloud" if ratio > 1 else "device"
        times = max(ratio, 1 / ratio)
        rows.append((case, side, times, f"{case}\n{side} is {number(times)} times cheaper\n"
                     f"{here[0]}: {_cost(here[1])}\n{there[0]}: {_cost(there[1])}"))
    if not rows:
        return ""
    most = max(times for _, _, times, _ in rows)
    bars = "".join(_duel(case, side, times, _length(times, most), said)
                   for case, side, times, said in rows)
    return ('<figure class="chart"><figcaption class="ylabel">How many times cheaper, by case'
            '<span> (logarithmic)</span></figcaption><div class="duels"><div class="duel head" '
            'aria-hidden="true"><span class="what"></span><span class="half">'
            'device</span><span class="half">cloud</span></div>'
            f'{bars}</div></figure>')


def _length(times: float, most: float) -> float:
    return 100 * math.log(times) / math.log(most) if most > 1 else 0.0


def _duel(case: str, side: str, times: float, length: float, said: str) -> str:
    bar = f'<i class="{"c0" if side == "device" else "c1"}" style="width:{length:.1f}%"></i>'
    text = f'<b>{number(times)}\N{MULTIPLICATION SIGN}</b>'
    halves = (f'<span class="half here">{text}{bar}</span><span class="half"></span>'
              if side == "device" else
              f'<span class="half here"></span><span class="half">{bar}{text}</span>')
    return (f'<div class="duel" title="{esc(said)}"><span class="what">{esc(case)}</span>'
            f"{halves}</div>")


def _table(cases: dict[str, dict[str, Result]]) -> str:
    rows = []
    for case, ways in cases.items():
        best, here, there = _best(ways), _best(ways, False), _best(ways, True)
        assert best is not None
        auto = ways.get(_AUTO)
        over = MISSING if auto is None or not best[1].value or auto.value is None else (
            f"{100 * (auto.value / best[1].value - 1):+.1f} %")
        rows.append([esc(case), _way(here), _way(there), tables.text_cell(best[0]),
                     MISSING if auto is None else _cost(auto), over,
                     tables.provenance(best[1].provenance)])
    table = tables.table("What each place costs at its best, by case",
                         ["case", "device", "cloud", "best", "auto", "over the best",
                          "provenance"], rows)
    return f"<details open><summary>The decisions as a table</summary>{table}</details>"


def _way(found: tuple[str, Result] | None) -> str:
    return MISSING if found is None else _cost(found[1])


def _cost(r: Result) -> str:
    value = r.value or 0.0
    if r.unit == "J":
        return joules(value)
    if r.unit == "s" and value < 1:
        return f"{number(1e3 * value)}\N{NO-BREAK SPACE}ms"
    return f"{number(value)}\N{NO-BREAK SPACE}{esc(r.unit)}"


def others(results: Sequence[Result]) -> tuple[Result, ...]:
    """What is left to be drawn as figures of their own."""
    return tuple(r for r in results if not is_cost(r))
