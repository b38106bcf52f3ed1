"""Several runs as one page: who they are, and every figure that two of them share."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from handtorch.record import Result, Run
from handtorch.report.matched import Matched, letter, matched
from handtorch.report.spell import MISSING, duration, esc, number
from handtorch.report.style import CSS
from handtorch.report.write import write_whole

_MOST_ROWS = 5000


def render_comparison(runs: Sequence[Run], names: Sequence[str] = ()) -> str:
    """The page's text; ratios are to the first run. `names` are what the runs are called."""
    found = matched(runs)
    called = list(names) or [f"run {i}" for i in range(1, len(runs) + 1)]
    studies = dict.fromkeys(m.study for m in found)
    parts = [_runs(runs, called), *(_study(s, [m for m in found if m.study == s], len(runs))
                            for s in studies)]
    if not found:
        parts.append('<p class="callout warn">These runs have no figure in common.</p>')
    return ('<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
            '<meta http-equiv="Content-Security-Policy" '
            "content=\"default-src 'none'; style-src 'unsafe-inline'\">"
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            '<meta name="color-scheme" content="light dark">'
            f"<title>HandTorch: {esc(' and '.join(called))}</title><style>{CSS}</style></head>"
            "<body><main>"
            f'<header><p class="brand">HandTorch</p><h1>{esc(" | ".join(called))}</h1></header>'
            f'{"".join(parts)}</main></body></html>\n')


def write_comparison(runs: Sequence[Run], path: str | Path, names: Sequence[str] = ()) -> Path:
    """The page is at `path` afterwards, whole or not at all."""
    return write_whole(Path(path), "page", (render_comparison(runs, names).encode(),))


def _runs(runs: Sequence[Run], names: Sequence[str]) -> str:
    rows = []
    for at, run in enumerate(runs):
        device = run.devices[0] if run.devices else None
        info = run.info
        cells = (names[at], info.command, info.started_utc[:19].replace("T", " "), info.status,
                 MISSING if run.info.duration_ns is None else duration(run.info.duration_ns),
                 MISSING if device is None else f"{device.name}, {device.driver}")
        rows.append(f'<tr><th scope="row">{letter(at)}</th>'
                    + "".join(f'<td class="text long">{esc(c)}</td>' for c in cells) + "</tr>")
    head = ("", "run", "command", "started, UTC", "state", "took", "device")
    return _table("The runs", head, rows)


def _study(study: str, found: Sequence[Matched], count: int) -> str:
    rows = []
    for m in found[:_MOST_ROWS]:
        x = f", {m.x_name} {number(m.x_value)}" if m.x_value is not None else ""
        cells = [_value(r, m.unit) for r in m.results]
        cells += [_ratio(m, at) for at in range(1, count)]
        rows.append(f'<tr><th scope="row">{esc(m.name)}: {esc(m.subject)}{esc(x)}</th>'
                    + "".join(f"<td>{c}</td>" for c in cells) + "</tr>")
    more = (f"<p>{len(found) - _MOST_ROWS:,} more are in the run files.</p>"
            if len(found) > _MOST_ROWS else "")
    head = ("figure", *map(letter, range(count)), *(f"{letter(i)} / A" for i in range(1, count)))
    return f"<section><h2>Study: {esc(study)}</h2>{_table(study, head, rows)}{more}</section>"


def _value(r: Result | None, unit: str) -> str:
    if r is None:
        return MISSING
    if r.value is None:
        return f'<span class="unknown">unknown: {esc(r.value_reason)}</span>'
    word = "" if r.provenance == "measured" else f"<small>{r.provenance}</small>"
    return f"{number(r.value)} {esc(unit)}{word}"


def _ratio(m: Matched, at: int) -> str:
    ratio = m.ratio(at)
    if ratio is None:
        return MISSING
    return f"{number(ratio)}" + ("<small>within the spread</small>" if m.within_spread(at) else "")


def _table(caption: str, head: Sequence[str], rows: Sequence[str]) -> str:
    heads = "".join(f'<th scope="col">{esc(h)}</th>' for h in head)
    return (f'<div class="scroll" tabindex="0" role="region" aria-label="{esc(caption)}"><table>'
            f'<thead><tr>{heads}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>')
