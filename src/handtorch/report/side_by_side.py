"""Results of a comparison as one table: a row for each case and side, in Markdown and in HTML.

A run holds such a comparison where it has results under these names; their subject is the case and
their place the side."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from handtorch.record import Result, Run
from handtorch.record.beside import beside
from handtorch.report import tables
from handtorch.report.learnt import busy
from handtorch.report.spell import MISSING, column, esc, number

TIME, RUNS, FIRST = "time of a run", "runs timed", "first run"
RATIO = "handtorch is so many times as fast"
PEAK, BEYOND = "peak memory of the process", "peak memory beyond the engine"
MARK = " *"            # behind a ratio of times that nobody judges
HEAD = ("case", "side", "ms a run", "quartiles", "blocks", "runs", "handtorch is x as fast",
        "first run, s", "peak, MB", "beyond the engine, MB", "remark")
_NAMES = {TIME, RUNS, FIRST, RATIO, PEAK, BEYOND}


class Line(NamedTuple):
    """One side of one case, as texts."""

    case: str
    side: str
    time: str
    quartiles: str
    blocks: str
    runs: str
    ratio: str
    first: str
    peak: str
    beyond: str
    remark: str


def lines(run: Run) -> list[Line]:
    """In the order in which they were written; empty where nothing was compared."""
    groups: dict[tuple[str, str], dict[str, Result]] = {}
    unjudged = busy(run)
    for r in run.results:
        if r.name in _NAMES and r.place is not None and not r.x_name:
            groups.setdefault((r.subject, r.place), {})[r.name] = r
    return [_line(case, side, found, any(r.study in unjudged for r in found.values()))
            for (case, side), found in groups.items()]


def _line(case: str, side: str, found: dict[str, Result], unjudged: bool) -> Line:
    time = found.get(TIME)
    return Line(case, side, _value(time), _bounds(time), _repeats(time), _count(found.get(RUNS)),
                _ratio(found.get(RATIO), unjudged), _value(found.get(FIRST)),
                _value(found.get(PEAK)), _value(found.get(BEYOND)),
                next((r.value_reason for r in found.values() if r.value_reason), ""))


def _value(r: Result | None) -> str:
    return MISSING if r is None or r.value is None else column(r.value)


def _bounds(r: Result | None) -> str:
    if r is None or r.low is None or r.high is None:
        return MISSING
    return f"{column(r.low)} to {column(r.high)}"


def _repeats(r: Result | None) -> str:
    return MISSING if r is None or r.value is None else str(r.repeats)


def _count(r: Result | None) -> str:
    return MISSING if r is None or r.value is None else number(r.value)


def _ratio(r: Result | None, unjudged: bool) -> str:
    if r is None or r.value is None:
        return MISSING
    return f"{_value(r)} ({_bounds(r)}){MARK if unjudged else ''}"


def markdown(run: Run) -> str:
    """A table for a README; empty where nothing was compared."""
    found = lines(run)
    if not found:
        return ""
    note = f"\n{said}\n" if (said := _note(run)) else ""
    return "".join(_row(cells) for cells in (HEAD, _rule(), *found)) + note


def _note(run: Run) -> str:
    """What the mark means; empty where no ratio has it."""
    shares = [share for study, share in busy(run).items()
              if any(r.study == study and r.name == RATIO for r in run.results)]
    return f"({MARK.strip()}) {beside(max(shares))}." if shares else ""


def _rule() -> list[str]:
    words = ("case", "side", "quartiles", "remark")
    return ["---" if name in words else "---:" for name in HEAD]


def _row(cells: Iterable[str]) -> str:
    plain = (cell.replace("\n", " ").replace("|", "\\|") for cell in cells)
    return f"| {' | '.join(plain)} |\n"


def html_table(run: Run) -> str:
    """The same as a table of the page; empty where nothing was compared."""
    rows = [[esc(line.case), tables.text_cell(line.side), *map(esc, line[2:-1]),
             tables.text_cell(line.remark)] for line in lines(run)]
    note = f'<p class="callout warn">{said}</p>' if (said := _note(run)) else ""
    return note + tables.table("Median of the blocks, and what else is known", HEAD, rows
                               ) if rows else ""
