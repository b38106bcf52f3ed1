"""Memory of a step: over its launches by role, at its peak, and who is alive then."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from handtorch.record import Memory, Run
from handtorch.report import tables
from handtorch.report.axis import Axis, size_axis, x_axis
from handtorch.report.charts import Frame, grid
from handtorch.report.spell import esc, size

# From the foot of a stack upwards: what lasts, what crosses, what comes and goes.
_ROLES = {"parameters": "c0", "optimizer state": "c2", "buffers": "c5", "constants": "c7",
          "inputs": "c3", "outputs": "c4", "gradients": "c1", "intermediates": "c6",
          "workspace": "c8", "slack": "g2"}
_OTHERS = ("c9", "c5", "c7", "g1", "c3", "c1")            # by name, for roles of other makers
_ORDER = {role: i for i, role in enumerate(_ROLES)}
ALIVE = "alive at the peak"
_MOST_ALIVE = 25
_WIDE, _SLIM = (1000, 340, 84, 20, 20, 46), (360, 300, 70, 12, 20, 44)

Key = tuple[str, str]
Curve = list[tuple[int, int]]


def memory(run: Run) -> str:
    """All that the run knows of memory; empty where it knows nothing."""
    curves = _curves(run)
    alive: dict[Key, list[Memory]] = {}
    held: dict[tuple[str, str, str], list[Memory]] = {}
    for m in run.memory:
        if m.moment == ALIVE:
            alive.setdefault((m.subject, m.place), []).append(m)
        elif m.launch is None:
            held.setdefault((m.subject, m.place, m.moment), []).append(m)
    parts = [_over(key, roles) for key, roles in curves.items()]
    most: dict[str, int] = {}         # bars of one moment are to one scale
    for (_, _, moment), group in held.items():
        most[moment] = max(most.get(moment, 1), sum(m.bytes or 0 for m in group))
    parts += [_bar(key, sorted(group, key=_order), most[key[2]]) for key, group in held.items()]
    parts += [_alive(key, rows) for key, rows in alive.items()]
    if held:
        parts.append(_table([m for group in held.values() for m in group]))
    return "".join(parts)


def colour(role: str) -> str:
    """The same for a role wherever it is drawn."""
    return _ROLES.get(role) or _OTHERS[sum(role.encode()) % len(_OTHERS)]


def _order(m: Memory) -> int:
    return _ORDER.get(m.role, len(_ORDER))


def _curves(run: Run) -> dict[Key, dict[str, Curve]]:
    found: dict[Key, dict[str, Curve]] = {}
    for m in run.memory:
        if m.launch is not None and m.bytes is not None:
            roles = found.setdefault((m.subject, m.place), {})
            roles.setdefault(m.role, []).append((m.launch, m.bytes))
    return {key: {role: sorted(roles[role])
                  for role in sorted(roles, key=lambda r: _ORDER.get(r, len(_ORDER)))}
            for key, roles in found.items()}


def _over(key: Key, roles: Mapping[str, Curve]) -> str:
    """Areas over each other, from one launch at which something changes to the next."""
    spots = sorted({launch for curve in roles.values() for launch, _ in curve})
    ends = [*spots, spots[-1] + 1]
    heights = {role: _at(curve, spots) for role, curve in roles.items()}
    totals = [sum(column) for column in zip(*heights.values(), strict=True)]
    peak = max(range(len(spots)), key=totals.__getitem__)
    drawn = "".join(_svg(key, box, ends, heights, totals, peak, css)
                    for box, css in ((_WIDE, "wide"), (_SLIM, "slim")))
    keys = "".join(f'<li><i class="{colour(role)}"></i>{esc(role)}</li>' for role in roles)
    return (f'<figure class="chart"><figcaption class="ylabel">{esc(key[0])} on {esc(key[1])}: '
            f'memory over a step <span>most at launch {spots[peak]:,}: {size(totals[peak])}</span>'
            f'</figcaption>{drawn}<ul class="legend always">{keys}</ul></figure>')


def _at(curve: Curve, spots: Sequence[int]) -> list[int]:
    """Bytes at each launch of `spots`: what was said last."""
    found, i, now = [], 0, 0
    for spot in spots:
        while i < len(curve) and curve[i][0] <= spot:
            now = curve[i][1]
            i += 1
        found.append(now)
    return found


def _svg(key: Key, box: tuple[int, int, int, int, int, int], ends: Sequence[int],
         heights: Mapping[str, Sequence[int]], totals: Sequence[int], peak: int, css: str) -> str:
    x: Axis = x_axis([float(e) for e in range(ends[0], ends[-1] + 1)], 10 if css == "wide" else 5)
    frame = Frame(*box, x, size_axis(max(totals)))
    below = [0] * len(totals)
    areas = []
    for role, line in heights.items():
        above = [a + b for a, b in zip(below, line, strict=True)]
        if any(line):
            areas.append(f'<path class="area {colour(role)}" '
                         f'd="{_area(frame, ends, below, above)}"/>')
        below = above
    at = frame.px((ends[peak] + ends[peak + 1]) / 2)
    mark = (f'<path class="peak" d="M{at:.1f} {frame.py(0):.1f}V{frame.py(totals[peak]):.1f}"/>'
            f'<path class="dot ink" d="M{at - 4:.1f} {frame.py(totals[peak]) - 9:.1f}h8l-4 7z"/>')
    return (f'<svg class="{css}" viewBox="0 0 {frame.width} {frame.height}" role="img" '
            f'aria-label="Memory by role over the launches of a step of {esc(key[0])}; the table '
            f'below holds the peak.">{grid(frame, "launch")}{"".join(areas)}{mark}'
            f"{_columns(frame, ends, heights, totals)}</svg>")


def _area(frame: Frame, ends: Sequence[int], below: Sequence[int], above: Sequence[int]) -> str:
    def stairs(line: Sequence[int]) -> list[str]:
        return [f"{frame.px(x):.1f} {frame.py(y):.1f}"
                for (start, end), y in zip(pairwise(ends), line, strict=True) for x in (start, end)]

    return f"M{'L'.join(stairs(above) + stairs(below)[::-1])}Z"


def _columns(frame: Frame, ends: Sequence[int], heights: Mapping[str, Sequence[int]],
             totals: Sequence[int]) -> str:
    """What hovering says, without being seen; of very many the larger steps in memory."""
    made = []
    stride = -(-len(totals) // 300)
    for i in range(0, len(totals), stride):
        left, right = frame.px(ends[i]), frame.px(ends[min(i + stride, len(ends) - 1)])
        said = [f"launch {ends[i]:,}: {size(totals[i])}",
                *(f"{role} {size(line[i])}" for role, line in heights.items() if line[i])]
        made.append(f'<rect class="sense" x="{left:.1f}" y="{frame.top}" '
                    f'width="{max(right - left, 0.5):.1f}" '
                    f'height="{frame.height - frame.top - frame.bottom}"><title>'
                    f"{esc(chr(10).join(said))}</title></rect>")
    return "".join(made)


def _bar(key: tuple[str, str, str], group: Sequence[Memory], full: int) -> str:
    subject, place, moment = key
    known = [m for m in group if m.bytes]
    total = sum(m.bytes or 0 for m in known)
    bits = "".join(f'<i class="{colour(m.role)} {m.provenance}" title="{esc(m.role)}: '
                   f'{size(m.bytes or 0)}" style="width:{100 * (m.bytes or 0) / full:.3f}%"></i>'
                   for m in known)
    keys = "".join(f'<li><i class="{colour(m.role)}"></i>{esc(m.role)} {size(m.bytes or 0)}</li>'
                   for m in known)
    return (f'<div class="chart"><p class="ylabel">{esc(subject)} on {esc(place)}, {esc(moment)}'
            f'<span>: {size(total)}</span></p><div class="stack">{bits}</div>'
            f'<ul class="legend always">{keys}</ul></div>')


def _alive(key: Key, rows: Sequence[Memory]) -> str:
    """The peak opened up: what lies in memory then, the largest first."""
    ordered = sorted(rows, key=lambda m: -(m.bytes or 0))
    total = sum(m.bytes or 0 for m in rows) or 1
    shown = [[esc(m.role), size(m.bytes or 0), f"{100 * (m.bytes or 0) / total:.1f} %",
              tables.provenance(m.provenance)] for m in ordered[:_MOST_ALIVE]]
    rest = ordered[_MOST_ALIVE:]
    if rest:
        left = sum(m.bytes or 0 for m in rest)
        shown.append([f"{len(rest):,} more", size(left), f"{100 * left / total:.1f} %",
                      tables.provenance(rest[0].provenance)])
    caption = f"Alive at the peak of {esc(key[0])} on {esc(key[1])}, largest first"
    return (f"<details open><summary>Who is alive at the peak of {esc(key[0])} on {esc(key[1])}"
            f"</summary>{tables.table(caption, ['what', 'size', 'share', 'provenance'], shown)}"
            "</details>")


def _table(held: Sequence[Memory]) -> str:
    rows = [[esc(m.role), tables.text_cell(f"{m.subject}, {m.place}"), tables.text_cell(m.moment),
             tables.value_or_reason(None if m.bytes is None else size(m.bytes), m.bytes_reason),
             tables.provenance(m.provenance)] for m in held]
    table = tables.table("Memory by role", ["role", "of", "when", "size", "provenance"], rows)
    return f"<details><summary>Memory as a table</summary>{table}</details>"
