"""A run as one self-contained HTML page: no network, no script, light and dark, desk and phone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from handtorch.record import Memory, Run, Verdict
from handtorch.report import tables
from handtorch.report.charts import bar_chart, line_chart
from handtorch.report.series import Figure, figures, unmatched
from handtorch.report.side_by_side import html_table
from handtorch.report.spell import duration, esc, size
from handtorch.report.style import CSS
from handtorch.report.timeline import kernel_table, middle_steps, timeline
from handtorch.report.write import write_whole

_MOST_TIMELINES = 6
_ROLES = ("parameters", "gradients", "optimizer state", "inputs", "intermediates", "workspace")
_PROVENANCE = {
    "measured": "read from a clock, a counter or a sensor during this run",
    "estimated": "worked out from measured figures and a model or a data sheet",
    "simulated": "made by a stand-in: an emulated network, a slowed core, a device not present",
    "published": "printed by somebody else; drawn dashed and never mixed with ours",
}


def render(run: Run) -> str:
    """The page's text. Equal runs give equal pages; any text of the run is shown as text only."""
    parts = [_head(run), _learnt(run), _section("Side by side", [html_table(run)]), *_studies(run),
             _steps(run), _memory(run), _sensors(run), _setting(run), _reading()]
    # The policy makes the promise hold: even a planted tag could load and run nothing.
    return ('<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
            '<meta http-equiv="Content-Security-Policy" '
            "content=\"default-src 'none'; style-src 'unsafe-inline'\">"
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            '<meta name="color-scheme" content="light dark">'
            f"<title>HandTorch: {esc(run.info.command)}</title><style>{CSS}</style></head>"
            f'<body><main>{"".join(parts)}</main></body></html>\n')


def write_page(run: Run, path: str | Path) -> Path:
    """The page is at `path` afterwards, whole or not at all; an older page there is replaced."""
    return write_whole(Path(path), "page", (render(run).encode(),))


def _section(title: str, parts: Iterable[str]) -> str:
    inner = "".join(parts)
    return f"<section><h2>{title}</h2>{inner}</section>" if inner else ""


def _head(run: Run) -> str:
    info = run.info
    took = duration(info.duration_ns) if info.duration_ns is not None else "not finished"
    started = info.started_utc[:19].replace("T", " ")
    said = {"complete": "", "running": "This run has not ended, or was killed: the page shows what "
            "it had written by then.", "interrupted": f"This run was interrupted "
            f"({info.status_reason}); the page shows what it had measured by then.",
            "failed": f"This run failed: {info.status_reason}"}[info.status]
    note = f'<p class="callout warn">{esc(said)}</p>' if said else ""
    return (f'<header><p class="brand">HandTorch</p><h1>{esc(info.command)}</h1>'
            f'<p class="facts"><span class="badge {info.status}">{info.status}</span> '
            f"<span>{esc(started)} UTC</span> <span>{took}</span></p>{note}</header>")


def _learnt(run: Run) -> str:
    parts = [_verdict(v) for v in run.verdicts]
    if parts:
        parts = [f'<ul class="verdicts">{"".join(parts)}</ul>']
    else:
        none = "This run came to no verdict." if run.results else "This run holds no results."
        parts = [f'<p class="none">{none}</p>']
    for c in run.comparisons:
        pair = f"<b>{esc(c.first)}</b> and <b>{esc(c.second)}</b>"
        why = f" {esc(c.same_silicon_reason)}" if c.same_silicon_reason else ""
        if c.same_silicon:
            parts.append(f'<p class="callout warn">Same silicon: {pair} share the same cores, so '
                         f"each slows the other when both work.{why}</p>")
        elif c.same_silicon is None:
            parts.append(f'<p class="callout warn">Same silicon unknown for {pair}:{why}</p>')
        else:
            parts.append(f'<p class="callout">Separate silicon: {pair} share no cores.{why}</p>')
    return _section("What was learnt", parts)


def _verdict(v: Verdict) -> str:
    css, word = {True: ("yes", "holds"), False: ("no", "does not hold"),
                 None: ("open", "cannot be judged")}[v.holds]
    question = f'<span class="question">{esc(v.question)}</span>' if v.question else ""
    reason = f'<span class="reason">{esc(v.holds_reason)}</span>' if v.holds_reason else ""
    return (f'<li class="{css}"><span class="study">{esc(v.study)}: {word}</span>{question}'
            f"<span>{esc(v.answer)}</span>{reason}</li>")


def _studies(run: Run) -> list[str]:
    made: dict[str, list[str]] = {}
    for figure in figures(run):
        made.setdefault(figure.study, []).append(_figure(figure))
    for study in dict.fromkeys(p.study for p in unmatched(run)):
        rest = [p for p in unmatched(run) if p.study == study]
        made.setdefault(study, []).append(tables.published_table(rest))
    return [_section(f"Study: {esc(study)}", parts) for study, parts in made.items()]


def _figure(figure: Figure) -> str:
    by = f" by {esc(figure.x_name)}" if figure.x_name else ""
    full = tables.every_result(figure)
    if figure.has_curve:
        short = tables.matrix(figure) or tables.extremes(figure)
        count = sum(len(s.results) for s in figure.series)
        shown = (f"{line_chart(figure)}{short}<details><summary>All {count:,} figures with spread, "
                 f"bounds and provenance</summary>{full}</details>")
    else:
        shown = bar_chart(figure) + full
    return (f"<h3>{esc(figure.name)}{by}</h3>{shown}{_unknown(figure)}"
            f"{tables.published_table(figure.published)}")


def _unknown(figure: Figure) -> str:
    """What could not be had, and why, each reason once."""
    reasons: dict[str, list[str]] = {}
    for s in figure.series:
        for r in s.results:
            if r.value is None:
                reasons.setdefault(r.value_reason, []).append(s.label)
    items = "".join(f"<li>{esc(', '.join(dict.fromkeys(labels)))}: {esc(reason)}</li>"
                    for reason, labels in reasons.items())
    return f'<div class="callout"><p>Not known:</p><ul>{items}</ul></div>' if items else ""


def _steps(run: Run) -> str:
    parts = [tables.step_table(run)]
    chosen = middle_steps(run)
    for timed in chosen[:_MOST_TIMELINES]:
        step = timed.step
        parts.append(f"<h3>One step of {esc(step.subject)} on {esc(step.place)}</h3>"
                     f"<p>Step {step.number:,}, the one of median time among those recorded.</p>"
                     f"{timeline(timed)}{kernel_table(timed)}")
    if len(chosen) > _MOST_TIMELINES:
        parts.append(f"<p>{len(chosen) - _MOST_TIMELINES} more are in the run file.</p>")
    return _section("Steps and launches", parts)


def _memory(run: Run) -> str:
    groups: dict[tuple[str, str, str], list[Memory]] = {}
    held = [m for m in run.memory if m.launch is None]       # a curve over a step is no table
    for m in held:
        groups.setdefault((m.subject, m.place, m.moment), []).append(m)
    totals = [sum(m.bytes or 0 for m in group) for group in groups.values()]
    parts = [_memory_bar(key, sorted(group, key=_role_order), max(totals) or 1)
             for key, group in groups.items()]
    if not parts:
        return ""
    rows = [[esc(m.role), tables.text_cell(f"{m.subject}, {m.place}"), tables.text_cell(m.moment),
             tables.value_or_reason(None if m.bytes is None else size(m.bytes), m.bytes_reason),
             tables.provenance(m.provenance)] for m in held]
    table = tables.table("Memory by role", ["role", "of", "when", "size", "provenance"], rows)
    return _section("Memory", [*parts, table])


def _role_order(m: Memory) -> int:
    return _ROLES.index(m.role) if m.role in _ROLES else len(_ROLES)


def _memory_bar(key: tuple[str, str, str], group: Sequence[Memory], full: int) -> str:
    subject, place, moment = key
    known = [m for m in group if m.bytes is not None]
    total = sum(m.bytes or 0 for m in known)
    colour = {m.role: f"c{(_role_order(m) if m.role in _ROLES else len(_ROLES) + i) % 10}"
              for i, m in enumerate(known)}
    bits = "".join(f'<i class="{colour[m.role]} {m.provenance}" title="{esc(m.role)}: '
                   f'{size(m.bytes or 0)}" style="width:{100 * (m.bytes or 0) / full:.3f}%"></i>'
                   for m in known)
    keys = "".join(f'<li><i class="{colour[m.role]}"></i>{esc(m.role)} {size(m.bytes or 0)}</li>'
                   for m in known)
    return (f'<div class="chart"><p class="ylabel">{esc(subject)} on {esc(place)}, {esc(moment)}'
            f'<span>: {size(total)}</span></p><div class="stack">{bits}</div>'
            f'<ul class="legend always">{keys}</ul></div>')


def _sensors(run: Run) -> str:
    return _section("Sensors", [tables.sample_table(run)])


def _setting(run: Run) -> str:
    return _section("Where it ran", [tables.machine_table(run), tables.device_table(run),
                                     tables.place_table(run), tables.software_table(run)])


def _reading() -> str:
    items = "".join(f'<dt><span class="badge {word}">{word}</span></dt><dd>{meaning}</dd>'
                    for word, meaning in _PROVENANCE.items())
    return _section("How to read the figures", [
        f"<dl>{items}</dl><p>A median stands with its interquartile spread: the middle half of the "
        "repeats lies that far apart. A dash is a figure that was not asked for or is not known; "
        "the reason is given beside it. Where a row mixes them, <sup>e</sup> and <sup>s</sup> mark "
        "estimated and simulated figures.</p>"])
