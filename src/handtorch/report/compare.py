"""Two or more runs beside each other: before and after, two devices, a phone and a laptop."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from handtorch.record import Run
from handtorch.report import tables
from handtorch.report.charts import bar_chart, line_chart
from handtorch.report.frame import Section, document, reading, section
from handtorch.report.series import Figure, Series, figures
from handtorch.report.spell import MISSING, duration, esc, number, quantity, size
from handtorch.report.summary import Timed, timed_steps

_MOST_FIGURES = 60
_MOST_ROWS = 40


@dataclass(frozen=True)
class Named:
    """A run and what it is called beside the others."""

    name: str
    run: Run


def render_comparison(runs: Sequence[Run], names: Sequence[str] = ()) -> str:
    """A page on what differs; the first run is what the others are held against."""
    given = list(names) or [f"run {i}" for i in range(1, len(runs) + 1)]
    named = [Named(n, r) for n, r in zip(_apart(given), runs, strict=True)]
    title = " and ".join(n.name for n in named)
    return document(f"HandTorch: {title}", _head(named), [
        section("What differs", [_said(named), _setting(named)]),
        section("Steps", [_steps(named)]), section("Kernels", [_kernels(named)]),
        section("Memory", [_memory(named)]), *_studies(named), reading()])


def _apart(names: Sequence[str]) -> list[str]:
    """Each name once: what comes again gets a number."""
    made: list[str] = []
    for name in names:
        count = sum(m == name or m.startswith(f"{name} (") for m in made)
        made.append(f"{name} ({count + 1})" if count else name)
    return made


def _head(named: Sequence[Named]) -> str:
    rows = [[esc(n.name), tables.text_cell(n.run.info.command),
             tables.text_cell(n.run.info.started_utc[:19].replace("T", " ")),
             f'<td class="text"><span class="badge {n.run.info.status}">{n.run.info.status}</span>'
             "</td>"] for n in named]
    table = tables.table("Runs compared; the first is what the others are held against",
                         ["run", "command", "started (UTC)", "ended"], rows)
    return f"<h1>{esc(' | '.join(n.name for n in named))}</h1>{table}"


def _pairs(named: Sequence[Named]) -> Iterator[tuple[Timed, list[tuple[Named, Timed]]]]:
    """Steps of the first run, and those of others that did the same: at the place of the same name
    if there is one, else at the first."""
    for one in timed_steps(named[0].run):
        found = []
        for other in named[1:]:
            same = [t for t in timed_steps(other.run) if t.subject == one.subject]
            like = [t for t in same if t.place == one.place] or same[:1]
            if like:
                found.append((other, like[0]))
        if found:
            yield one, found


def _said(named: Sequence[Named]) -> str:
    said = []
    for one, others in _pairs(named):
        for other, theirs in others:
            ratio = theirs.median_ns / one.median_ns if one.median_ns else 1.0
            word = ("as long as" if abs(ratio - 1) < 0.005 else
                    f"{number(ratio)} times as long as" if ratio > 1 else
                    f"{number(100 * ratio)} % as long as")
            apart = abs(theirs.median_ns - one.median_ns)
            within = apart < max(one.spread_ns, theirs.spread_ns)
            note = " That is within the spread of one of them." if within else ""
            said.append(f"<p class=said>A step of <b>{esc(one.subject)}</b> takes "
                        f"<b>{duration(theirs.median_ns)}</b> on {esc(theirs.place)} in "
                        f"<b>{esc(other.name)}</b>, {word} the {duration(one.median_ns)} on "
                        f"{esc(one.place)} in {esc(named[0].name)}.{note}</p>")
    said += [f"<p>{esc(text)}</p>" for text in _verdicts(named)]
    return "".join(said) or '<p class="none">These runs timed no steps of the same subject.</p>'


def _verdicts(named: Sequence[Named]) -> Iterator[str]:
    """Questions that the runs answer differently."""
    words = {True: "holds", False: "does not hold", None: "cannot be judged"}
    asked: dict[tuple[str, str], dict[str, str]] = {}
    for n in named:
        for v in n.run.verdicts:
            asked.setdefault((v.study, v.question), {})[n.name] = words[v.holds]
    for (study, question), answers in asked.items():
        if len(set(answers.values())) > 1:
            told = "; ".join(f"{name}: {word}" for name, word in answers.items())
            yield f"{study}: {question} {told}"


def _setting(named: Sequence[Named]) -> str:
    """Facts of machine, devices and software in which the runs differ."""
    facts: dict[str, list[str]] = {}
    for i, n in enumerate(named):
        for name, value in _facts(n.run):
            facts.setdefault(name, [MISSING] * len(named))[i] = value
    rows = [[esc(name), *map(tables.text_cell, values)] for name, values in facts.items()
            if len(set(values)) > 1]
    if not rows:
        return "<p>Machine, devices and software are the same in all of them.</p>"
    return tables.table("Where they ran differently", ["fact", *(esc(n.name) for n in named)], rows)


def _facts(run: Run) -> Iterator[tuple[str, str]]:
    if run.machine is not None:
        yield "processor", run.machine.cpu_model or f"unknown: {run.machine.cpu_model_reason}"
        yield "architecture", run.machine.architecture
        yield "usable cores", str(run.machine.usable_cores)
        yield "system", run.machine.os
        yield "Python", run.machine.python
    for i, d in enumerate(run.devices):
        name = "device" if len(run.devices) == 1 else f"device {i}"
        yield name, f"{d.name}, {d.driver}"
        yield f"{name}: compute units", str(d.compute_units)
        yield f"{name}: self-test", d.self_test
    for s in run.software:
        yield s.name, s.version or f"unknown: {s.version_reason}"
    for c in run.comparisons:
        word = {True: "share cores", False: "share no cores", None: "unknown"}[c.same_silicon]
        yield f"{c.first} and {c.second}", word


def _steps(named: Sequence[Named]) -> str:
    """Bars of the median step of each subject, and the figures with their spread."""
    groups: dict[str, list[tuple[str, Timed]]] = {}
    for n in named:
        for t in timed_steps(n.run):
            groups.setdefault(t.subject, []).append((n.name, t))
    parts = []
    for subject, found in groups.items():
        full = max(t.median_ns for _, t in found) or 1
        looks = {n.name: f"c{i % 10}" for i, n in enumerate(named)}
        bars = "".join(
            f'<div class="bar" title="{esc(name)}: {duration(t.median_ns)}, spread '
            f'{duration(t.spread_ns)}, {len(t.steps):,} steps, {t.steps[0].provenance}">'
            f'<span class="what">{esc(name)} \N{MIDDLE DOT} {esc(t.place)}</span>'
            f'<span class="track"><i class="{looks[name]} {t.steps[0].provenance}" '
            f'style="width:{100 * t.median_ns / full:.2f}%"></i></span>'
            f'<span class="value">{duration(t.median_ns)}</span></div>' for name, t in found)
        rows = [[esc(name), tables.text_cell(t.place), f"{len(t.steps):,}", duration(t.median_ns),
                 duration(t.spread_ns), tables.provenance(t.steps[0].provenance)]
                for name, t in found]
        parts.append(
            f'<figure class="chart"><figcaption class="ylabel">A step of {esc(subject)}<span>, '
            f'lower is better</span></figcaption><div class="bars">{bars}</div></figure>'
            + tables.table(f"A step of {esc(subject)}", ["run", "place", "steps", "median",
                                                         "spread", "provenance"], rows))
    return "".join(parts)


def _kernels(named: Sequence[Named]) -> str:
    """Time of each operation in a step, of all runs, by how much it changed at most."""
    spent = [_per_step(n.run) for n in named]
    if sum(bool(s) for s in spent) < 2:
        return ""
    ops = dict.fromkeys(op for s in spent for op in s)
    change = {op: max(s.get(op, 0.0) for s in spent) - min(s.get(op, 0.0) for s in spent)
              for op in ops}
    chosen = sorted(ops, key=lambda op: -change[op])[:_MOST_ROWS]
    rows = [[esc(op[0]), tables.text_cell(op[1]), tables.text_cell(op[2]),
             *(duration(s[op]) if op in s else MISSING for s in spent),
             *(_ratio(spent[0].get(op), s.get(op)) for s in spent[1:])] for op in chosen]
    head = ["operation", "layer", "phase", *(esc(n.name) for n in named),
            *(f"{esc(n.name)} / {esc(named[0].name)}" for n in named[1:])]
    caption = "Device time in a step, what changed most first"
    if len(ops) > _MOST_ROWS:
        caption += f" ({_MOST_ROWS} of {len(ops):,})"
    return tables.table(caption, head, rows)


def _ratio(one: float | None, other: float | None) -> str:
    return f"{number(other / one)}" if one and other else MISSING


def _per_step(run: Run) -> dict[tuple[str, str, str], float]:
    """Nanoseconds by operation, layer and phase, in a step of the run's first subject and place."""
    found = timed_steps(run)
    if not found:
        return {}
    ours = {s.id for s in found[0].steps}
    spent: dict[tuple[str, str, str], float] = {}
    for la in run.launches:
        if la.step in ours and la.lane != "host" and la.start_ns is not None \
                and la.end_ns is not None:
            key = (la.op, la.layer, la.phase)
            spent[key] = spent.get(key, 0.0) + (la.end_ns - la.start_ns) / len(ours)
    return spent


def _memory(named: Sequence[Named]) -> str:
    rows: dict[tuple[str, str], list[str]] = {}
    words: dict[tuple[str, str], str] = {}
    for i, n in enumerate(named):
        for m in n.run.memory:
            if m.moment == "peak" and m.bytes is not None:
                key = m.subject, m.role
                rows.setdefault(key, [MISSING] * len(named))[i] = size(m.bytes)
                words[key] = m.provenance
    if not rows:
        return ""
    return tables.table(
        "Memory at the peak", ["role", "of", *(esc(n.name) for n in named), "provenance"],
        [[esc(role), tables.text_cell(subject), *cells, tables.provenance(words[subject, role])]
         for (subject, role), cells in rows.items()])


def _studies(named: Sequence[Named]) -> Iterator[Section]:
    """Figures that two runs or more have, drawn with a line for each run."""
    groups: dict[tuple[str, ...], list[tuple[Named, Figure]]] = {}
    for n in named:
        for f in figures(n.run):
            groups.setdefault((f.study, f.name, f.unit, f.x_name), []).append((n, f))
    made: dict[str, list[str]] = {}
    for (study, *_), same in groups.items():
        if len(same) > 1:
            shown = made.setdefault(study, [])
            if len(shown) <= _MOST_FIGURES:
                shown.append(_together(same))
    for study, parts in made.items():
        yield section(f"Study: {study}", parts)


def _together(same: Sequence[tuple[Named, Figure]]) -> str:
    first = same[0][1]
    series: list[Series] = []
    for n, figure in same:
        for s in figure.series:
            series.append(replace(s, label=f"{s.label} \N{MIDDLE DOT} {n.name}", look=len(series),
                                  neutral=False))
    joined = replace(first, series=tuple(series))
    drawn = line_chart(joined) if joined.has_curve else bar_chart(joined)
    by = f" by {esc(first.x_name)}" if first.x_name else ""
    rows = [[esc(s.label), MISSING if r.x_value is None else number(r.x_value),
             MISSING if r.value is None else quantity(r.value, r.unit),
             MISSING if r.spread is None else number(r.spread), tables.provenance(r.provenance)]
            for s in joined.series for r in s.results]
    table = tables.table(f"{esc(first.name)}{by}, of all runs",
                         ["series", esc(first.x_name) or "x", "median", "spread", "provenance"],
                         rows)
    fold = f"<details><summary>As a table</summary>{table}</details>" if drawn else table
    return f"<h3>{esc(first.name)}{by}</h3>{drawn}{fold}"
