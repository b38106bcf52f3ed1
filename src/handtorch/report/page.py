"""A run as one self-contained HTML page: no network, light and dark, desk and phone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from handtorch.record import Run, RunInfo, Verdict
from handtorch.record.beside import beside
from handtorch.report import tables
from handtorch.report.charts import bar_chart, line_chart
from handtorch.report.decision import decisions, others
from handtorch.report.energy import energy
from handtorch.report.frame import Section, document, reading, section
from handtorch.report.kernels import breakdowns, kernel_table, middle_steps, said
from handtorch.report.learnt import busy
from handtorch.report.learnt import learnt as taught
from handtorch.report.memory import memory
from handtorch.report.roofline import rooflines
from handtorch.report.series import Figure, figures, unmatched
from handtorch.report.side_by_side import html_table
from handtorch.report.spell import duration, esc
from handtorch.report.summary import summary
from handtorch.report.timeline import timelines

_MOST_KERNEL_TABLES = 6
_MOST_VERDICTS = 8               # that are read one after the other
_MOST_LINES = 4                  # of a chart that is still clear at half the width


def render(run: Run) -> str:
    """The page's text. Equal runs give equal pages; any text of the run is shown as text only."""
    return document(f"HandTorch: {run.info.command}", _head(run.info), [
        learnt(run), section("Side by side", [html_table(run)]), _steps(run),
        section("Memory", [memory(run)]), section("Energy", [energy(run)]),
        section("Roofline", [rooflines(run)]), *_studies(run),
        section("Sensors", [tables.sample_table(run)]), setting(run), reading()])


def _head(info: RunInfo) -> str:
    took = duration(info.duration_ns) if info.duration_ns is not None else "not finished"
    started = info.started_utc[:19].replace("T", " ")
    return (f"<h1>{esc(info.command)}</h1>"
            f'<p class="facts"><span class="badge {info.status}">{info.status}</span> '
            f"<span>{esc(started)} UTC</span> <span>{took}</span></p>{status_note(info)}")


def status_note(info: RunInfo) -> str:
    """What to know of a run that did not end well; empty for one that did."""
    text = {"complete": "", "running": "This run has not ended, or was killed: the page shows what "
            "it had written by then.", "interrupted": f"This run was interrupted "
            f"({info.status_reason}); the page shows what it had measured by then.",
            "failed": f"This run failed: {info.status_reason}"}[info.status]
    return f'<p class="callout warn">{esc(text)}</p>' if text else ""


def learnt(run: Run) -> Section:
    parts = [_taught(run), summary(run)]
    if not run.verdicts and not any(parts):
        none = "This run came to no verdict." if run.results else "This run holds no results."
        parts.append(f'<p class="none">{none}</p>')
    for c in run.comparisons:
        pair = f"<b>{esc(c.first)}</b> and <b>{esc(c.second)}</b>"
        reason = c.same_silicon_reason
        if c.same_silicon is not None:              # there it is a sentence of its own
            reason = reason[:1].upper() + reason[1:]
        why = f" {esc(reason)}" if reason else ""
        if c.same_silicon:
            parts.append(f'<p class="callout warn">Same silicon: {pair} share the same cores, so '
                         f"each slows the other when both work.{why}</p>")
        elif c.same_silicon is None:
            parts.append(f'<p class="callout warn">Same silicon unknown for {pair}:{why}</p>')
        else:
            parts.append(f'<p class="callout">Separate silicon: {pair} share no cores.{why}</p>')
    return section("What was learnt", [*parts, _verdicts(run.verdicts)])


def _taught(run: Run) -> str:
    """What a main job says at its end, in the same words."""
    lines = "".join(f"<li>{esc(line)}</li>" for line in taught(run))
    return f'<ul class="taught">{lines}</ul>' if lines else ""


def _verdicts(verdicts: Sequence[Verdict]) -> str:
    """As a list; of many, those that nothing decides are folded away."""
    many = len(verdicts) > _MOST_VERDICTS
    shown = [v for v in verdicts if v.holds is not None or not many]
    folded = [v for v in verdicts if v.holds is None and many]
    html = f'<ul class="verdicts">{"".join(map(_verdict, shown))}</ul>' if shown else ""
    if folded:
        by_reason: dict[tuple[str, str], list[Verdict]] = {}
        for v in folded:
            by_reason.setdefault((v.study, v.holds_reason), []).append(v)
        html += (f"<details><summary>{len(folded):,} questions that cannot be judged here, and why"
                 f'</summary><ul class="verdicts">{"".join(map(_open, by_reason.values()))}</ul>'
                 "</details>")
    return html


def _open(group: Sequence[Verdict]) -> str:
    """Those of a study that nothing decides for the same reason, which is said once."""
    if len(group) == 1:
        return _verdict(group[0])
    asked = "".join(f'<span class="question">{esc(v.question)}</span><span>{esc(v.answer)}</span>'
                    for v in group)
    return (f'<li class="open"><span class="study">{esc(group[0].study)}: {len(group):,} cannot be '
            f'judged</span><span class="reason">{esc(group[0].holds_reason)}</span>{asked}</li>')


def _verdict(v: Verdict) -> str:
    css, word = {True: ("yes", "holds"), False: ("no", "does not hold"),
                 None: ("open", "cannot be judged")}[v.holds]
    question = f'<span class="question">{esc(v.question)}</span>' if v.question else ""
    reason = f'<span class="reason">{esc(v.holds_reason)}</span>' if v.holds_reason else ""
    return (f'<li class="{css}"><span class="study">{esc(v.study)}: {word}</span>{question}'
            f"<span>{esc(v.answer)}</span>{reason}</li>")


def _studies(run: Run) -> Iterator[Section]:
    drawn = replace(run, results=others(run.results))
    made: dict[str, list[Figure]] = {}
    shares = busy(run)
    for r in run.results:
        made.setdefault(r.study, [])
    for figure in figures(drawn):
        made[figure.study].append(figure)
    for p in unmatched(drawn):
        made.setdefault(p.study, [])
    for study, found in made.items():
        rest = [p for p in unmatched(drawn) if p.study == study]
        title = "Figures of the profile" if study == "profile" else f"Study: {study}"
        yield section(title, [_doubt(shares.get(study)), decisions(run, study), *_figures(found),
                              tables.published_table(rest)])


def _doubt(share: int | None) -> str:
    """Where a study does not judge its times, nor should who looks at their charts."""
    return "" if share is None else (
        f'<p class="callout warn">{beside(share)}, here neither.</p>')


def _figures(found: Sequence[Figure]) -> Iterator[str]:
    """Large curves one below the other, others as cards side by side, lone values in one table."""
    cards: list[str] = []
    lone: list[Figure] = []
    for figure in found:
        lines = len(figure.series) + len({p.subject for p in figure.published})
        if figure.has_curve and lines <= _MOST_LINES:
            cards.append(f'<div class="card">{_curve(figure)}</div>')
        elif figure.has_curve:
            yield _cards(cards)
            cards = []
            yield _curve(figure)
        elif bars := bar_chart(figure):
            cards.append(_card(figure, bars))
        else:
            lone.append(figure)
    yield _cards(cards)
    if lone:
        yield tables.lone_table(lone)
        yield _unknown(lone)


def _cards(cards: Sequence[str]) -> str:
    return f'<div class="cards">{"".join(cards)}</div>' if cards else ""


def _title(figure: Figure) -> str:
    by = f" by {esc(figure.x_name)}" if figure.x_name else ""
    return f"<h3>{esc(figure.name)}{by}</h3>"


def _curve(figure: Figure) -> str:
    short = tables.matrix(figure) or tables.extremes(figure)
    count = sum(len(s.results) for s in figure.series)
    return (f"{_title(figure)}{line_chart(figure)}"
            f"<details><summary>As a table</summary>{short}</details>"
            f"<details><summary>All {count:,} figures with spread, bounds and provenance</summary>"
            f"{tables.every_result(figure)}{tables.published_table(figure.published)}</details>"
            f"{_unknown([figure])}")


def _card(figure: Figure, bars: str) -> str:
    count = sum(len(s.results) for s in figure.series)
    return (f'<div class="card">{_title(figure)}{bars}'
            f"<details><summary>All {count:,} figures with spread, bounds and provenance</summary>"
            f"{tables.every_result(figure)}{tables.published_table(figure.published)}</details>"
            f"{_unknown([figure])}</div>")


def _unknown(found: Sequence[Figure]) -> str:
    """What could not be had, and why, each reason once."""
    reasons: dict[str, list[str]] = {}
    for figure in found:
        for s in figure.series:
            for r in s.results:
                if r.value is None:
                    what = f"{figure.name} of {s.label}" if len(found) > 1 else s.label
                    reasons.setdefault(r.value_reason, []).append(what)
    items = "".join(f"<li>{esc(', '.join(dict.fromkeys(labels)))}: {esc(reason)}</li>"
                    for reason, labels in reasons.items())
    return f'<div class="callout"><p>Not known:</p><ul>{items}</ul></div>' if items else ""


def _steps(run: Run) -> Section:
    parts = [tables.step_table(run), breakdowns(run)]
    parts += [f"<h3>Timeline of {esc(place)}</h3>{figure}" for place, figure in timelines(run)]
    chosen = middle_steps(run)
    for timed in chosen[:_MOST_KERNEL_TABLES]:
        step = timed.step
        parts.append(f"<h3>Kernels of {esc(step.subject)} on {esc(step.place)}</h3>"
                     f"{said(timed)}{kernel_table(timed)}")
    if len(chosen) > _MOST_KERNEL_TABLES:
        parts.append(f"<p>{len(chosen) - _MOST_KERNEL_TABLES} more are in the run file.</p>")
    return section("Steps and launches", parts)


def setting(run: Run) -> Section:
    return section("Where it ran", [tables.machine_table(run), tables.device_table(run),
                                    tables.place_table(run), tables.software_table(run)])
