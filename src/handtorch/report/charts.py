"""Charts as inline SVG and HTML: lines over an x axis, bars without one.

Drawn twice, for a desk and for a phone, because text in a scaled SVG would shrink with it; CSS
shows the one that fits. Measured lines are solid, estimated and simulated ones dotted, published
values dashed with hollow markers. Hovering a line, a label or a point brings it forward.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from handtorch.record import Published, Result
from handtorch.report.axis import Axis, spans_decades, x_axis, y_axis
from handtorch.report.series import Figure, Series
from handtorch.report.spell import esc, number, quantity

COLOURS = 10  # --c0 ... in style.py
GREYS = 3  # --g0 ...
_MOST_MARKERS = 40
_MOST_POINTS = 400
_LABEL_GAP = 16
_LABEL_CHARS = 30


@dataclass(frozen=True)
class Frame:
    """The plot area of one SVG and its two axes."""

    width: int
    height: int
    left: int
    right: int
    top: int
    bottom: int
    x: Axis
    y: Axis

    def px(self, value: float) -> float:
        return self.left + self.x.at(value) * (self.width - self.left - self.right)

    def py(self, value: float) -> float:
        return self.height - self.bottom - self.y.at(value) * (self.height - self.top - self.bottom)


@dataclass(frozen=True)
class Line:
    """One drawn line: what it is called, how it looks, and its points as (x, y, what hover says).

    A line without points' x runs across the whole chart at its one value."""

    label: str
    css: str
    shape: int
    points: tuple[tuple[float | None, float, str], ...]
    band: tuple[tuple[float, float, float], ...] = ()


def line_chart(figure: Figure) -> str:
    """The figure as lines over x, with a legend where the labels do not fit beside the lines.

    Unknown values are left out here; the table below a chart lists them with their reasons."""
    lines = _lines(figure)
    tall = max(400, len(lines) * _LABEL_GAP + 130)
    room = 46 + 8 * min(_LABEL_CHARS, max(len(line.label) for line in lines))
    wide, slim = (1000, tall, 62, room, 14, 46), (360, 340, 52, 22, 14, 44)
    logs = (True, False) if spans_decades(_heights(lines)) else (False,)
    drawn = "".join(
        f'<div class="{"log" if log else "linear"}">{_svg(figure, lines, wide, log, labels=True)}'
        f"{_svg(figure, lines, slim, log, labels=False)}</div>" for log in logs)
    return (f'<div class="chart">{_scale_choice(figure) if logs[0] else ""}{_heading(figure)}'
            f"{drawn}{_key(lines)}{_legend(lines)}</div>")


def bar_chart(figure: Figure) -> str:
    """One horizontal bar per known result, from zero; empty where bars would mislead.

    That is: fewer than two bars, or a value below zero."""
    shown = [(s, r) for s in figure.series for r in s.known]
    values = [r.value or 0.0 for _, r in shown] + [p.value for p in figure.published]
    if len(values) < 2 or min(values) < 0 or max(values) == 0:
        return ""
    full = max(values + [r.high for _, r in shown if r.high is not None])
    rows = [_bar(s.title, r.value or 0.0, full, f"{_css(s)} {r.provenance}", hover(r), figure.unit)
            for s, r in shown]
    rows += [_bar(f"{p.subject} (published)", p.value, full, "published", _printed(p), figure.unit)
             for p in figure.published]
    return f'<div class="chart">{_heading(figure)}<div class="bars">{"".join(rows)}</div></div>'


def hover(r: Result) -> str:
    """Everything known about a result as one line of plain text (not yet escaped)."""
    if r.value is None:
        return f"{r.subject}: {r.value_reason}"
    at = f" at {r.x_name} {number(r.x_value)}" if r.x_value is not None else ""
    parts = [f"{r.subject}{at}: {number(r.value)} {r.unit}".rstrip(), r.provenance]
    if r.spread is not None:
        parts.append(f"spread {number(r.spread)}")
    if r.low is not None and r.high is not None:
        parts.append(f"{r.bounds} {number(r.low)} to {number(r.high)}")
    if r.repeats > 1:
        parts.append(f"median of {r.repeats:,}")
    return ", ".join(parts)



def _heading(figure: Figure) -> str:
    sense = "" if figure.better == "neither" else f", {figure.better} is better"
    return f'<p class="ylabel">{esc(figure.unit or figure.name)}<span>{sense}</span></p>'


def _css(series: Series) -> str:
    return f"g{series.look % GREYS}" if series.neutral else f"c{series.look % COLOURS}"


def _printed(p: Published) -> str:
    return f"{p.subject}: {number(p.value)} {p.unit}, published: {p.source}"


def _lines(figure: Figure) -> list[Line]:
    lines = []
    few = len(figure.series) <= 3
    for s in figure.series:
        points = tuple((r.x_value, r.value or 0.0, hover(r)) for r in s.known)
        band = tuple((r.x_value or 0.0, r.low, r.high) for r in s.known
                     if few and r.low is not None and r.high is not None)
        dotted = "" if s.provenance == "measured" else " modelled"
        # Past the last colour the marker changes, so that no two lines look alike.
        shape = s.look // GREYS + 1 if s.neutral else s.look // COLOURS
        if points:
            lines.append(Line(s.title, f"{_css(s)}{dotted}", shape, points, band))
    printed: dict[str, list[Published]] = {}
    for p in figure.published:
        printed.setdefault(p.subject, []).append(p)
    for subject, values in printed.items():
        points = tuple(sorted(((p.x_value, p.value, _printed(p)) for p in values),
                              key=lambda point: point[0] or 0.0))
        lines.append(Line(subject, "published", 0, points))
    return lines


def _heights(lines: Iterable[Line]) -> list[float]:
    """Every y that the chart must have room for."""
    return [y for line in lines for y in (*(y for _, y, _ in line.points),
                                          *(edge for _, *edges in line.band for edge in edges))]


def _scale_choice(figure: Figure) -> str:
    """Two buttons that need no script: style.py hides the charts of the scale not chosen."""
    name = esc(f"scale {figure.study} {figure.name} {figure.x_name}")
    return (f'<fieldset class="choice"><legend>Scale</legend>'
            f'<label><input type="radio" name="{name}" checked>logarithmic</label>'
            f'<label><input type="radio" name="{name}" class="to-linear">linear</label></fieldset>')


def _svg(figure: Figure, lines: Sequence[Line], box: tuple[int, int, int, int, int, int],
         log: bool, *, labels: bool) -> str:
    xs = [x for line in lines for x, _, _ in line.points if x is not None]
    frame = Frame(*box, x_axis(xs, 12 if labels else 6),
                  y_axis(_heights(lines), 8 if labels else 6, log=log))
    places = _label_rows(lines, frame) if labels else {}
    # The yardsticks first, so that where lines coincide ours lies on top.
    order = sorted(range(len(lines)), key=lambda i: not lines[i].css.startswith("g"))
    drawn = "".join(_draw(lines[i], frame, places.get(i)) for i in order)
    kind = "wide" if labels else "slim"
    return (f'<svg class="{kind}" viewBox="0 0 {frame.width} {frame.height}" role="img" '
            f'aria-label="Chart: {esc(figure.name)} against {esc(figure.x_label)}. The table below '
            f'holds its figures.">{grid(frame, figure.x_label)}{drawn}</svg>')


def grid(frame: Frame, x_label: str) -> str:
    """Ticks, their lines, and the name of the x axis."""
    right, bottom = frame.width - frame.right, frame.height - frame.bottom
    parts = []
    for value, text in frame.y.ticks:
        y = frame.py(value)
        parts.append(f'<path class="grid" d="M{frame.left} {y:.1f}H{right}"/>'
                     f'<text class="tick end" x="{frame.left - 8}" y="{y + 4:.1f}">{text}</text>')
    for value, text in _apart(frame):
        x = frame.px(value)
        parts.append(f'<path class="axis" d="M{x:.1f} {bottom}v5"/>'
                     f'<text class="tick mid" x="{x:.1f}" y="{bottom + 18}">{text}</text>')
    parts.append(f'<path class="axis" d="M{frame.left} {bottom}H{right}"/>'
                 f'<text class="tick mid" x="{(frame.left + right) / 2:.0f}" '
                 f'y="{frame.height - 6}">{esc(x_label)}</text>')
    return "".join(parts)


def _apart(frame: Frame) -> list[tuple[float, str]]:
    """The x ticks whose texts keep clear of each other; the last one always stays."""
    room = 8 * max(len(text) for _, text in frame.x.ticks) + 4
    kept: list[tuple[float, str]] = []
    for value, text in reversed(frame.x.ticks):
        if not kept or frame.px(kept[-1][0]) - frame.px(value) >= room:
            kept.append((value, text))
    return kept[::-1]


def _draw(line: Line, frame: Frame, label_y: float | None) -> str:
    points = [(x, y, text) for x, y, text in line.points if x is not None]
    parts = [f'<g class="s {line.css}"><title>{esc(line.label)}</title>']
    if line.band:
        parts.append(f'<path class="band" d="{_band(line, frame)}"/>')
    for _, y, text in (p for p in line.points if p[0] is None):
        parts.append(f'<path class="line" d="M{frame.left} {frame.py(y):.1f}'
                     f'H{frame.width - frame.right}"><title>{esc(text)}</title></path>')
    if len(points) > 1:
        route = _thin([(frame.px(x), frame.py(y)) for x, y, _ in points])
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in route)
        parts.append(f'<path class="line" d="M{path}"/>')
    if len(points) <= _MOST_MARKERS:
        parts += [f'<path class="dot" d="{_marker(line.shape, frame.px(x), frame.py(y))}">'
                  f'<title>{esc(text)}</title></path>' for x, y, text in points]
    if label_y is not None:
        parts.append(_label(line, frame, label_y))
    return "".join(parts) + "</g>"


def _label(line: Line, frame: Frame, label_y: float) -> str:
    x, y, _ = line.points[-1]
    edge = frame.width - frame.right
    start = frame.px(x) + 6 if x is not None else edge
    text = esc(_short(line.label))
    return (f'<path class="lead" d="M{start:.1f} {frame.py(y):.1f}L{edge + 8} {frame.py(y):.1f}'
            f'L{edge + 22} {label_y:.1f}"/>'
            f'<path class="dot" d="{_marker(line.shape, edge + 28, label_y)}"/>'
            f'<text class="label" x="{edge + 37}" y="{label_y + 4:.1f}">{text}</text>')


def _short(label: str) -> str:
    """Cut where it is too long for its place; which run or place it is of, behind the last dot,
    stays: without it the labels of a comparison would be equal."""
    if len(label) <= _LABEL_CHARS:
        return label
    name, dot, of = label.rpartition(" · ")
    if not dot or len(of) > _LABEL_CHARS // 2:
        name, dot, of = label, "", ""
    return f"{name[:_LABEL_CHARS - 1 - len(dot + of)].rstrip()}…{dot}{of}"


def _label_rows(lines: Sequence[Line], frame: Frame) -> dict[int, float]:
    """For each line the height of its label: near its last point, none over another."""
    order = sorted(range(len(lines)), key=lambda i: frame.py(lines[i].points[-1][1]))
    ideal = [frame.py(lines[i].points[-1][1]) for i in order]
    rows: list[float] = []
    for y in ideal:  # push down ...
        rows.append(max(y, rows[-1] + _LABEL_GAP) if rows else y)
    limit = frame.height - frame.bottom + 6.0
    for k in range(len(rows) - 1, -1, -1):  # ... and back up from the lower edge
        rows[k] = min(rows[k], limit)
        limit = rows[k] - _LABEL_GAP
    return dict(zip(order, rows, strict=True))


def _thin(route: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """At most 400 points: of each run of neighbours its lowest and highest, so peaks stay."""
    if len(route) <= _MOST_POINTS:
        return route
    run = -(-2 * len(route) // _MOST_POINTS)
    kept: set[int] = {0, len(route) - 1}
    for at in range(0, len(route), run):
        part = range(at, min(at + run, len(route)))
        kept |= {min(part, key=lambda i: route[i][1]), max(part, key=lambda i: route[i][1])}
    return [route[i] for i in sorted(kept)]


def _band(line: Line, frame: Frame) -> str:
    upper = [f"{frame.px(x):.1f} {frame.py(high):.1f}" for x, _, high in line.band]
    lower = [f"{frame.px(x):.1f} {frame.py(low):.1f}" for x, low, _ in line.band]
    return f"M{'L'.join(upper + lower[::-1])}Z"


def _marker(shape: int, x: float, y: float) -> str:
    """Circle, square, triangle, diamond, again."""
    if shape % 4 == 0:
        return f"M{x - 3.2:.1f} {y:.1f}a3.2 3.2 0 1 0 6.4 0a3.2 3.2 0 1 0 -6.4 0Z"
    corners = ((), ((-3, -3), (3, -3), (3, 3), (-3, 3)), ((0, -4), (4, 3), (-4, 3)),
               ((0, -4.4), (4.4, 0), (0, 4.4), (-4.4, 0)))[shape % 4]
    return f"M{'L'.join(f'{x + dx:.1f} {y + dy:.1f}' for dx, dy in corners)}Z"


def _key(lines: Iterable[Line]) -> str:
    """What dashed and dotted mean, where either is drawn."""
    css = {line.css.split()[-1] for line in lines}
    meanings = {"published": "published by others", "modelled": "estimated or simulated"}
    keys = "".join(f"<li>{_swatch(name, 0)}{text}</li>"
                   for name, text in meanings.items() if name in css)
    return f'<ul class="legend key">{keys}</ul>' if keys else ""


def _legend(lines: Iterable[Line]) -> str:
    """Names and last values, for the narrow chart, which has no room for labels."""
    keys = "".join(f"<li>{_swatch(line.css, line.shape)}{esc(line.label)} "
                   f"<small>{number(line.points[-1][1])}</small></li>" for line in lines)
    return f'<ul class="legend">{keys}</ul>'


def _swatch(css: str, shape: int) -> str:
    return (f'<svg viewBox="0 0 26 12" class="{css} s" aria-hidden="true"><path class="line" '
            f'd="M0 6H26"/><path class="dot" d="{_marker(shape, 13, 6)}"/></svg>')


def _bar(label: str, value: float, full: float, css: str, text: str, unit: str) -> str:
    width = 100 * value / full
    return (f'<div class="bar" title="{esc(text)}"><span class="what">{esc(label)}</span>'
            f'<span class="track"><i class="{css}" style="width:{width:.2f}%"></i></span>'
            f'<span class="value">{quantity(value, unit)}</span></div>')
