"""Tables of the page. Cells are HTML that is already escaped; the first of each row is its head."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from handtorch.record import Published, Result, Run
from handtorch.report.charts import hover
from handtorch.report.series import Figure, Series
from handtorch.report.spell import MISSING, duration, esc, number, quantity, size

_MOST_COLUMNS = 24
_MOST_ROWS = 600
_MARKS = {"measured": "", "estimated": "<sup>e</sup>", "simulated": "<sup>s</sup>"}


def table(caption: str, head: Sequence[str], rows: Iterable[Sequence[str]], css: str = "") -> str:
    """A captioned table in a box of its own that scrolls sideways where the page is narrow."""
    heads = "".join(f'<th scope="col">{cell}</th>' for cell in head)
    body = "".join(f'<tr><th scope="row">{first}</th>{"".join(map(_cell, rest))}</tr>'
                   for first, *rest in rows)
    return (f'<div class="scroll" tabindex="0" role="region" aria-label="Table: {caption}">'
            f'<table class="{css}"><caption>{caption}</caption><thead><tr>{heads}</tr></thead>'
            f'<tbody>{body}</tbody></table></div>')


def _cell(html: str) -> str:
    return html if html.startswith("<td") else f"<td>{html}</td>"


def text_cell(text: str) -> str:
    """A cell of words: set to the left, and allowed to break."""
    return f'<td class="text">{esc(text) or MISSING}</td>'


def provenance(word: str) -> str:
    """The word as a small badge, told apart by its shape as well as its colour."""
    return f'<td class="text"><span class="badge {esc(word)}">{esc(word)}</span></td>'


def value_or_reason(value: str | None, reason: str) -> str:
    return value if value is not None else f'<span class="unknown">unknown: {esc(reason)}</span>'


def matrix(figure: Figure) -> str:
    """Series down, x across, median over spread, the best of each column set in bold.

    Empty where there are too many x for a person to read across."""
    if len(figure.xs) > _MOST_COLUMNS:
        return ""
    best = {x: _best(figure, x) for x in figure.xs}
    rows = []
    for s in figure.series:
        at = {r.x_value: r for r in s.results}
        cells = [_matrix_cell(at.get(x), best[x]) for x in figure.xs]
        rows.append([esc(s.label), *cells, provenance(s.provenance)])
    head = [esc(figure.x_name), *(number(x) for x in figure.xs), "provenance"]
    what = f"{esc(figure.name)}{f' in {esc(figure.unit)}' if figure.unit else ''}"
    return table(f"{what}: median, below it the interquartile spread", head, rows, "matrix")


def _best(figure: Figure, x: float) -> float | None:
    values = [r.value for s in figure.series for r in s.known if r.x_value == x]
    known = [v for v in values if v is not None]
    if len(known) < 2 or figure.better == "neither":
        return None
    return max(known) if figure.better == "higher" else min(known)


def _matrix_cell(r: Result | None, best: float | None) -> str:
    if r is None:
        return f"<td>{MISSING}</td>"
    if r.value is None:
        return f'<td title="{esc(hover(r))}"><span class="unknown">{MISSING}</span></td>'
    css = ' class="best"' if r.value == best else ""
    spread = "" if r.spread is None else f"<small>{number(r.spread)}</small>"
    return f'<td{css} title="{esc(hover(r))}">{number(r.value)}{_MARKS[r.provenance]}{spread}</td>'


def extremes(figure: Figure) -> str:
    """For a long curve: where each series begins, where it ends, and its best."""
    rows = []
    for s in figure.series:
        known = s.known
        if known:
            pick = min if figure.better == "lower" else max
            best = pick(known, key=lambda r: r.value or 0.0)
            rows.append([esc(s.label), *(_point(r) for r in (known[0], known[-1], best)),
                         number(len(known)), provenance(s.provenance)])
    name = "lowest" if figure.better == "lower" else "highest"
    unit = f" in {esc(figure.unit)}" if figure.unit else ""
    return table(f"{esc(figure.name)}{unit}, and the {esc(figure.x_name)} it belongs to",
                 ["series", "first", "last", name, "points", "provenance"], rows)


def _point(r: Result) -> str:
    return (f'<td title="{esc(hover(r))}">{number(r.value or 0.0)}'
            f"<small>{number(r.x_value or 0.0)}</small></td>")


def every_result(figure: Figure) -> str:
    """One row per result with all that is known of it; long curves are cut, and say so."""
    pairs = [(s, r) for s in figure.series for r in s.results]
    rows = [_result_row(figure, s, r) for s, r in pairs[:_MOST_ROWS]]
    x = [esc(figure.x_label)] if figure.x_name else []
    head = ["series", *x, "median", "spread", "bounds", "repeats", "provenance"]
    caption = f"{esc(figure.name)}, every figure"
    if len(pairs) > _MOST_ROWS:
        caption += f" ({_MOST_ROWS:,} of {len(pairs):,}; the run file holds the rest)"
    return table(caption, head, rows)


def _result_row(figure: Figure, s: Series, r: Result) -> list[str]:
    x = [number(r.x_value) if r.x_value is not None else MISSING] if figure.x_name else []
    value = None if r.value is None else quantity(r.value, r.unit)
    bounds = MISSING
    if r.low is not None and r.high is not None:
        bounds = f"{number(r.low)} to {number(r.high)}<small>{esc(r.bounds)}</small>"
    return [esc(s.label), *x, value_or_reason(value, r.value_reason),
            MISSING if r.spread is None else number(r.spread), bounds, f"{r.repeats:,}",
            provenance(r.provenance)]


def published_table(values: Iterable[Published]) -> str:
    """Printed figures with where they were printed; empty if there are none."""
    rows = [[esc(p.subject), text_cell(p.name),
             MISSING if p.x_value is None else f"{esc(p.x_name)} {number(p.x_value)}",
             quantity(p.value, p.unit), text_cell(p.source)] for p in values]
    if not rows:
        return ""
    head = ["what", "quantity", "at", "value", "source"]
    return table("Published, not measured here", head, rows)


def machine_table(run: Run) -> str:
    m = run.machine
    if m is None:
        return '<p class="none">This run recorded no machine.</p>'
    memory = None if m.memory_bytes is None else size(m.memory_bytes)
    model = None if m.cpu_model is None else esc(m.cpu_model)
    rows = [["processor", f'<td class="text">{value_or_reason(model, m.cpu_model_reason)}</td>'],
            ["architecture", text_cell(m.architecture)],
            ["cores", text_cell(f"{m.cores}, of which {m.usable_cores} usable here")],
            ["memory", f'<td class="text">{value_or_reason(memory, m.memory_reason)}</td>'],
            ["system", text_cell(m.os)], ["Python", text_cell(m.python)]]
    return table("Machine", ["fact", '<span class="left">value</span>'], rows)


def device_table(run: Run) -> str:
    rows = [[esc(d.name), text_cell(f"{d.vendor}, {d.platform}"), text_cell(d.driver),
             text_cell(d.kind), number(d.compute_units), size(d.global_bytes), size(d.local_bytes),
             size(d.largest_allocation_bytes),
             f'<td class="text"><span class="badge test-{esc(d.self_test.replace(" ", "-"))}">'
             f"{esc(d.self_test)}</span></td>"] for d in run.devices]
    if not rows:
        return '<p class="none">This run used no OpenCL device.</p>'
    return table("OpenCL devices", ["device", "vendor, platform", "driver", "kind", "compute units",
                                    "memory", "local memory", "largest allocation", "self-test"],
                 rows)


def place_table(run: Run) -> str:
    names = {d.id: d.name for d in run.devices}
    rows = [[esc(p.name), text_cell(p.kind),
             text_cell(names.get(p.device, "") if p.device is not None else ""),
             f'<td class="text">'
             f"{value_or_reason(None if p.cores is None else esc(p.cores), p.cores_reason)}</td>"]
            for p in run.places]
    return table("Places", ["place", "kind", "device", "cores"], rows) if rows else ""


def software_table(run: Run) -> str:
    rows = [[esc(s.name), '<td class="text">' + value_or_reason(
        None if s.version is None else esc(s.version), s.version_reason) + "</td>"]
        for s in run.software]
    if not rows:
        return '<p class="none">This run recorded no software versions.</p>'
    return table("Software", ["name", '<span class="left">version</span>'], rows)


def sample_table(run: Run) -> str:
    """Each sensor's quantity: how many readings, their range, how many failed; empty if none."""
    groups: dict[tuple[str, str, str], list[float | None]] = {}
    for s in run.samples:
        groups.setdefault((s.meter, s.quantity, s.provenance), []).append(s.value)
    rows = []
    for (meter, name, word), values in groups.items():
        known = sorted(v for v in values if v is not None)
        spots = (known[0], known[len(known) // 2], known[-1]) if known else ()
        rows.append([esc(name), text_cell(meter), number(len(values)),
                     number(len(values) - len(known)),
                     *([number(v) for v in spots] or [MISSING] * 3), provenance(word)])
    if not rows:
        return ""
    return table("Sensor readings", ["quantity", "meter", "readings", "unknown", "lowest", "middle",
                                     "highest", "provenance"], rows)


def step_table(run: Run) -> str:
    """Steps of each subject at each place: count, median and quartile spread of their time."""
    groups: dict[tuple[str, str, str, str], list[int]] = {}
    for s in run.steps:
        groups.setdefault((s.subject, s.place, s.kind, s.provenance), []).append(
            s.end_ns - s.start_ns)
    rows = []
    for (subject, place, kind, word), times in groups.items():
        times.sort()
        n = len(times)
        spread = times[(3 * n) // 4] - times[n // 4] if n > 1 else None
        rows.append([esc(subject), text_cell(place), text_cell(kind), f"{n:,}",
                     duration(times[n // 2]), MISSING if spread is None else duration(spread),
                     provenance(word)])
    if not rows:
        return ""
    return table("Steps", ["what", "place", "kind", "steps", "median time", "spread", "provenance"],
                 rows)
