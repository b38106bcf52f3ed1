"""Tables of the page. Cells are HTML that is already escaped; the first of each row is its head."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median

from handtorch.record import Published, Result, Run
from handtorch.report.charts import hover
from handtorch.report.series import Figure, Series
from handtorch.report.spell import MISSING, column, duration, esc, number, quantity, size

_MOST_COLUMNS = 24
_MOST_ROWS = 600
_TEXT = '<td class="text'
_MARKS = {"measured": "", "estimated": "<sup>e</sup>", "simulated": "<sup>s</sup>"}


def table(caption: str, head: Sequence[str], rows: Sequence[Sequence[str]], css: str = "") -> str:
    """A table under its caption, in a box of its own that scrolls sideways on a narrow page.

    A head stands to the left over a column of words, to the right over a column of numbers."""
    words = [bool(rows) and cell.startswith(_TEXT) for cell in (rows[0] if rows else head)]
    heads = "".join(f'<th scope="col"{" class=left" if left else ""}>{cell}</th>'
                    for cell, left in zip(head, words, strict=True))
    body = "".join(f'<tr><th scope="row">{first}</th>{"".join(map(_cell, rest))}</tr>'
                   for first, *rest in rows)
    return (f'<p class="caption">{caption}</p>'
            f'<div class="scroll" tabindex="0" role="region" aria-label="Table: {caption}">'
            f'<table class="{css}" aria-label="{caption}"><thead><tr>{heads}</tr></thead>'
            f"<tbody>{body}</tbody></table></div>")


def _cell(html: str) -> str:
    return html if html.startswith("<td") else f"<td>{html}</td>"


def text_cell(text: str) -> str:
    """A cell of words: set to the left, and allowed to break once it is long."""
    return f'{_TEXT}{" long" if len(text) > 30 else ""}">{esc(text) or MISSING}</td>'


def known_cell(text: str | None, reason: str) -> str:
    """A cell of words that may be unknown, with the reason in its place."""
    return text_cell(text) if text is not None else text_cell(f"unknown: {reason}")


def provenance(word: str) -> str:
    """The word as a small badge, told apart by its shape as well as its colour."""
    return f'<td class="text"><span class="badge {esc(word)}">{esc(word)}</span></td>'


def value_or_reason(value: str | None, reason: str) -> str:
    """A figure already spelled, or why there is none."""
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
        mixed = len({r.provenance for r in s.results}) > 1
        cells = [_matrix_cell(at.get(x), best[x], mixed) for x in figure.xs]
        rows.append([esc(s.label), provenance(s.provenance), *cells])
    head = [esc(figure.x_name), "", *(number(x) for x in figure.xs)]
    what = f"{esc(figure.name)}{f' in {esc(figure.unit)}' if figure.unit else ''}"
    return table(f"{what}: median, below it the interquartile spread", head, rows, "matrix")


def _best(figure: Figure, x: float) -> float | None:
    """The best measured value at x; a modelled one never beats what was measured."""
    values = [r.value for s in figure.series for r in s.known
              if r.x_value == x and r.provenance == "measured" and r.value is not None]
    if len(values) < 2 or figure.better == "neither":
        return None
    return max(values) if figure.better == "higher" else min(values)


def _matrix_cell(r: Result | None, best: float | None, mixed: bool) -> str:
    if r is None:
        return f"<td>{MISSING}</td>"
    if r.value is None:
        return f'<td title="{esc(hover(r))}"><span class="unknown">{MISSING}</span></td>'
    css = ' class="best"' if r.value == best and r.provenance == "measured" else ""
    spread = "" if r.spread is None else f"<small>{column(r.spread, 2)}</small>"
    mark = _MARKS[r.provenance] if mixed else ""
    return f'<td{css} title="{esc(hover(r))}">{column(r.value)}{mark}{spread}</td>'


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
    return (f'<td title="{esc(hover(r))}">{column(r.value or 0.0)}'
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
            MISSING if r.spread is None else column(r.spread, 2), bounds, f"{r.repeats:,}",
            provenance(r.provenance)]


def lone_table(found: Sequence[Figure]) -> str:
    """Figures of one value or none, a row for each value, with what was published beside it."""
    rows = []
    for figure in found:
        printed = "; ".join(f"{p.subject}: {number(p.value)}" for p in figure.published)
        for s in figure.series:
            for r in s.results:
                rows.append([esc(figure.name), text_cell(s.label),
                             MISSING if r.value is None else quantity(r.value, r.unit),
                             MISSING if r.spread is None else column(r.spread, 2),
                             text_cell(printed), provenance(r.provenance)])
    return table("Single figures", ["what", "of", "value", "spread", "published", "provenance"],
                 rows)


def published_table(values: Iterable[Published]) -> str:
    """Printed figures with where they were printed, said once if they share it; or nothing."""
    values = tuple(values)
    if not values:
        return ""
    sources = dict.fromkeys(p.source for p in values)
    shared = len(sources) == 1
    rows = [[esc(p.subject), text_cell(p.name),
             MISSING if p.x_value is None else f"{esc(p.x_name)} {number(p.x_value)}",
             quantity(p.value, p.unit), *([] if shared else [text_cell(p.source)])] for p in values]
    head = ["what", "quantity", "at", "value", *([] if shared else ["source"])]
    said = f": {esc(values[0].source)}" if shared else ""
    return table(f"Published, not measured here{said}", head, rows)


def machine_table(run: Run) -> str:
    m = run.machine
    if m is None:
        return '<p class="none">This run recorded no machine.</p>'
    memory = None if m.memory_bytes is None else size(m.memory_bytes)
    rows = [["processor", known_cell(m.cpu_model, m.cpu_model_reason)],
            ["architecture", text_cell(m.architecture)],
            ["cores", text_cell(f"{m.cores}, of which {m.usable_cores} usable here")],
            ["memory", known_cell(memory, m.memory_reason)],
            ["system", text_cell(m.os)], ["Python", text_cell(m.python)]]
    return table("Machine", ["fact", "value"], rows)


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
             known_cell(p.cores, p.cores_reason)] for p in run.places]
    return table("Places", ["place", "kind", "device", "cores"], rows) if rows else ""


def software_table(run: Run) -> str:
    rows = [[esc(s.name), known_cell(s.version, s.version_reason)] for s in run.software]
    if not rows:
        return '<p class="none">This run recorded no software versions.</p>'
    return table("Software", ["name", "version"], rows)


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
                     duration(median(times)), MISSING if spread is None else duration(spread),
                     provenance(word)])
    if not rows:
        return ""
    return table("Steps", ["what", "place", "kind", "steps", "median time", "spread", "provenance"],
                 rows)
