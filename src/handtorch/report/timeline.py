"""The timeline of a place: its steps, launches and idle times, zoomed by `web/timeline.js`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from handtorch.record import Run
from handtorch.report.levels import Levels, levels
from handtorch.report.packed import packed
from handtorch.report.script import data_block
from handtorch.report.spell import MISSING, esc
from handtorch.report.trace import Group, Span, Track, trace_of

_PHASES = {"forward": "c0", "backward": "c1", "optimizer": "c2", "transfer": "c3",
           "recompute": "c5", "host": "g2", "idle": "soft"}
_OTHERS = ("c4", "c6", "c7", "c8", "c9")
_SHOWN_STEPS = 3
_STEPS, _HOST, _IDLE = "steps", "host", "idle"
CAUSES = {
    "input": "the caller had not called yet: its data, its own code",
    "staging": "the host checked the batch and copied it in",
    "enqueue": "the host was still enqueuing",
    "launch": "handed over, not yet started: driver and device",
    "wake": "done, and the waiting host had not noticed",
    "profiler": "the profiler read its events",
    "dispatch": "torch between two operations: Python, autograd, and the stamps",
    "other": "no cause found",
}
_BUTTONS = (("in", "+", "Zoom in"), ("out", "\N{MINUS SIGN}", "Zoom out"),
            ("left", "\N{LEFTWARDS ARROW}", "Move left"),
            ("right", "\N{RIGHTWARDS ARROW}", "Move right"),
            ("steps", "3 steps", "Show 3 steps"), ("all", "All", "Show all that was recorded"),
            ("before", "\N{SINGLE LEFT-POINTING ANGLE QUOTATION MARK} launch", "Previous launch"),
            ("after", "launch \N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK}", "Next launch"))


def timelines(run: Run) -> list[tuple[str, str]]:
    """(place, figure) for each place with launches on a time axis, in the order of the run."""
    if not run.launches or not _has_times(run):
        return []
    trace = trace_of(run)
    return [(group.name, _figure(group, levels(run, group.name), trace.left_out))
            for group in trace.groups if _works(group)]


def _has_times(run: Run) -> bool:
    known = {clock.name for clock in run.clocks if clock.offset_ns is not None}
    return any(la.clock in known and la.start_ns is not None for la in run.launches)


def _works(group: Group) -> list[Track]:
    return [t for t in group.tracks if _kind(t.name) == "work"]


def _kind(track: str) -> str:
    """What kind of row a track of `trace.py` is; "host 2" is what overlaps with "host"."""
    first = track.split(" ")[0]
    return {_STEPS: "step", _HOST: "host", _IDLE: "idle"}.get(first, "work")


class _Labels:
    """Every text once; the spans say which."""

    def __init__(self) -> None:
        self.phases: dict[str, str] = {}
        self._known: dict[tuple[Any, ...], int] = {}
        self._others = 0

    def of(self, span: Span, kind: str) -> int:
        said = dict(span.args)
        phase = _IDLE if kind == "idle" else span.category
        what = CAUSES.get(span.name, "") if kind == "idle" else said.get("op", "")
        made = (span.name, self._phase(phase), what, said.get("layer", ""), said.get("line", ""),
                said.get("flops", 0), said.get("bytes", 0), int("time" in said))
        return self._known.setdefault(made, len(self._known))

    def _phase(self, phase: str) -> int:
        if phase not in self.phases:
            css = _PHASES.get(phase)
            if css is None:
                css = _OTHERS[self._others % len(_OTHERS)]
                self._others += 1
            self.phases[phase] = css
        return list(self.phases).index(phase)

    @property
    def all(self) -> list[tuple[Any, ...]]:
        return list(self._known)


def _figure(group: Group, under: Sequence[Levels], left_out: int) -> str:
    order = {"step": 0, "work": 1, "host": 2, "idle": 3}
    tracks = sorted((t for t in group.tracks if t.spans), key=lambda t: order[_kind(t.name)])
    begin = min(t.spans[0].start_ns for t in tracks)
    end = max(max(s.end_ns for s in t.spans) for t in tracks)
    labels = _Labels()
    rows = [{"name": t.name, "kind": _kind(t.name), "count": len(t.spans),
             "spans": packed((s.start_ns - begin, s.end_ns - begin, labels.of(s, _kind(t.name)))
                             for s in t.spans)} for t in tracks]
    shown = _window(tracks, begin, end)
    data = {"span": max(end - begin, 1), "window": shown, "rows": rows, "labels": labels.all,
            "phases": list(labels.phases.items()),
            "tracks": [_track(level, begin, end) for level in under]}
    count = sum(len(t.spans) for t in _works(group))
    drawn = dict.fromkeys(s.category for t in tracks if _kind(t.name) in ("work", "host")
                          for s in t.spans)
    keys = [(phase or MISSING, labels.phases[phase]) for phase in drawn]
    keys += [("idle", "soft")] if any(_kind(t.name) == "idle" for t in tracks) else []
    return _markup(group.name, count, data, keys, under, left_out)


def _window(tracks: Sequence[Track], begin: int, end: int) -> tuple[int, int]:
    """Three steps in a row with the one of median time in the middle, and a little around them."""
    spans = sorted((s for t in tracks if _kind(t.name) == "step" for s in t.spans),
                   key=lambda s: s.start_ns)
    if not spans:
        return 0, max(end - begin, 1)
    median = sorted(spans, key=lambda s: s.end_ns - s.start_ns)[len(spans) // 2]
    first = max(0, min(spans.index(median) - 1, len(spans) - _SHOWN_STEPS))
    three = spans[first:first + _SHOWN_STEPS]
    start, stop = three[0].start_ns, max(s.end_ns for s in three)
    around = (stop - start) // 50
    return max(0, start - begin - around), min(end - begin, stop - begin + around) or 1


def _track(level: Levels, begin: int, end: int) -> dict[str, Any]:
    lines = []
    for i, line in enumerate(level.lines):
        near = list(_between(line.points, begin, end))
        lines.append({"name": line.name, "provenance": line.provenance, "css": f"c{i}",
                      "times": [max(0, t - begin) for t, _ in near],
                      "values": [None if v is None else float(f"{v:.4g}") for _, v in near]})
    return {"name": level.name, "unit": level.unit, "lines": [x for x in lines if x["times"]]}


def _between(points: Sequence[tuple[int, float | None]], begin: int, end: int
             ) -> Iterator[tuple[int, float | None]]:
    """Those that hold at some time from begin to end."""
    for i, (time, value) in enumerate(points):
        if time <= end and (i + 1 == len(points) or points[i + 1][0] > begin):
            yield time, value


def _markup(place: str, count: int, data: dict[str, Any], keys: Sequence[tuple[str, str]],
            under: Sequence[Levels], left_out: int) -> str:
    buttons = "".join(f'<button type="button" data-do="{name}" aria-label="{said}" '
                      f'title="{said}">{text}</button>' for name, text, said in _BUTTONS)
    items = "".join(f'<li><i class="{css}"></i>{esc(name)}</li>' for name, css in keys)
    lines = "".join(
        f'<li><i class="c{i} {line.provenance}"></i>{esc(level.name)}: {esc(line.name)} '
        f'<span class="badge {line.provenance}">{line.provenance}</span></li>'
        for level in under for i, line in enumerate(level.lines))
    lost = (f" {left_out:,} launches and readings of this run have no usable time and are not "
            "drawn." if left_out else "")
    what = f"Timeline of {count:,} launches on {esc(place)}"
    return (
        f'<figure class="chart zoomed"><figcaption class="ylabel">{what} '
        '<span class="badge measured">measured</span></figcaption>'
        f'<div class="tools" role="group" aria-label="Timeline">{buttons}</div>'
        f'<div class="surface" role="application" tabindex="0" aria-label="{what}. Plus and minus '
        'zoom, arrows move, 0 shows three steps, A all; comma and full stop go from launch to '
        'launch. The tables below sum it up."><canvas aria-hidden="true"></canvas></div>'
        '<noscript><p class="callout">The timeline needs scripts; the tables below do not.</p>'
        '</noscript><p class="readout" role="status"></p>'
        f'<ul class="legend always">{items}{lines}</ul>'
        '<p class="hint">Click it, then zoom with the wheel; drag to move; double-click a block to '
        f'zoom to it. Keys: + \N{MINUS SIGN} arrows 0 A , .{lost}</p>{data_block(data)}</figure>')
