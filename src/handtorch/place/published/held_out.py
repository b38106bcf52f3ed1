"""Every held-out row with what was predicted of it, and how far off that is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import median

from handtorch.place.predict import predict
from handtorch.place.published.fit import FRAMEWORKS, fit, work_of
from handtorch.place.published.nets import layers_of
from handtorch.place.published.papers import answers
from handtorch.place.published.row import Row, paper_rows
from handtorch.place.published.tables import table_rows


@dataclass(frozen=True)
class Judged:
    """`error` is (predicted - published) / published."""

    row: Row
    predicted: float

    @property
    def error(self) -> float:
        return self.predicted / self.row.value - 1

    @property
    def part(self) -> str:
        """The paper or table it is of."""
        return self.row.id.split(".")[0]


def judged_papers() -> tuple[Judged, ...]:
    """The held-out rows of the four papers; they need nothing but this package."""
    rows = {r.id: r for r in paper_rows()}
    found = answers(rows)
    held = [r for r in rows.values() if r.tag == "held-out"]
    missing = [r.id for r in held if r.id not in found]
    assert not missing, f"held-out rows that nothing predicts: {missing}"
    return tuple(Judged(r, found[r.id]) for r in held)


@cache
def judged_tables(shared: Path) -> tuple[Judged, ...]:
    """The held-out rows of the tables in `shared`; nothing where there are none."""
    rows = table_rows(shared)
    found: list[Judged] = []
    for framework in FRAMEWORKS:
        held = [r for r in rows if r.framework == framework and r.tag == "held-out"]
        if not held:
            continue
        fitted = fit(framework, rows)
        found += [Judged(r, 1e3 * predict(map(work_of, layers_of(r.network)),
                                          fitted.rates[r.setting], fitted.software).total_s)
                  for r in held]
    return (*found, *_power(rows))


def _power(rows: Iterable[Row]) -> list[Judged]:
    """A straight line between nothing and everything busy, as sheets have it."""
    power = [r for r in rows if r.framework == "linear power"]
    ends: dict[str, list[Row]] = {}
    for row in power:
        if row.tag == "calibration":
            ends.setdefault(row.setting, []).append(row)
    found = []
    for row in power:
        if row.tag == "held-out":
            low, high = sorted(ends[row.setting], key=lambda r: r.given["busy"])
            along = (row.given["busy"] - low.given["busy"]) / (high.given["busy"]
                                                              - low.given["busy"])
            found.append(Judged(row, low.value + along * (high.value - low.value)))
    return found


def median_error(judged: Sequence[Judged]) -> float:
    return median(abs(j.error) for j in judged)


def by_part(judged: Sequence[Judged]) -> dict[str, tuple[int, float]]:
    """For each paper and table: how many rows, and their median absolute error."""
    parts: dict[str, list[Judged]] = {}
    for one in judged:
        parts.setdefault(one.part, []).append(one)
    return {part: (len(of), median_error(of)) for part, of in parts.items()}


def table(judged: Sequence[Judged]) -> str:
    """All rows, the good and the bad, in the order they were published."""
    lines = [f"{'predicted':>12} {'published':>12} {'unit':<10} {'error':>8}  row"]
    for one in judged:
        mark = " (derived)" if one.row.derived else ""
        lines.append(f"{one.predicted:12.4g} {one.row.value:12.4g} {one.row.unit:<10} "
                     f"{100 * one.error:+7.0f}%  {one.part}: {one.row.setting}: "
                     f"{one.row.what}{mark}")
    return "\n".join(lines)


def summary(judged: Sequence[Judged]) -> str:
    lines = [f"{part:>14} {count:6} rows, median absolute error {100 * error:.1f} %"
             for part, (count, error) in by_part(judged).items()]
    lines.append(f"{'all':>14} {len(judged):6} rows, median absolute error "
                 f"{100 * median_error(judged):.1f} %")
    return "\n".join(lines)
