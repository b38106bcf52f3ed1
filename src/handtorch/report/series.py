"""Results of a run arranged for showing: a `Figure` per quantity, a `Series` per line or bar."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from handtorch.record import Published, Result, Run


@dataclass(frozen=True)
class Series:
    """Results of one subject at one place, by ascending x; `neutral` is what others measure up to.

    `look` numbers the series within its figure and so chooses its colour and marker."""

    label: str
    look: int
    neutral: bool
    results: tuple[Result, ...]

    @property
    def known(self) -> tuple[Result, ...]:
        return tuple(r for r in self.results if r.value is not None)

    @property
    def provenance(self) -> str:
        """The word all its figures share, or the words it mixes."""
        return ", ".join(sorted({r.provenance for r in self.results}))

    @property
    def title(self) -> str:
        """The label, with the provenance where it is not plainly measured."""
        word = self.provenance
        return self.label if word == "measured" else f"{self.label} ({word})"


@dataclass(frozen=True)
class Figure:
    """One quantity of one study: ours as series, other people's printed figures beside them."""

    study: str
    name: str
    unit: str
    x_name: str
    x_unit: str
    better: str
    series: tuple[Series, ...]
    published: tuple[Published, ...]

    @property
    def xs(self) -> tuple[float, ...]:
        """Every x at which a result is asked for, known or not."""
        return tuple(sorted({r.x_value for s in self.series for r in s.results
                             if r.x_value is not None}))

    @property
    def has_curve(self) -> bool:
        """Whether there is anything to draw over an x axis."""
        return bool(self.x_name) and len({r.x_value for s in self.series for r in s.known}) >= 2

    @property
    def x_label(self) -> str:
        return f"{self.x_name} ({self.x_unit})" if self.x_unit else self.x_name


def figures(run: Run) -> tuple[Figure, ...]:
    """The run's results grouped by quantity, in the order in which each first appears."""
    groups: dict[tuple[str, ...], list[Result]] = {}
    for r in run.results:
        groups.setdefault((r.study, r.name, r.unit, r.x_name, r.x_unit), []).append(r)
    kinds = {place.name: place.kind for place in run.places}
    made = []
    for (study, name, unit, x_name, x_unit), results in groups.items():
        printed = tuple(p for p in run.published
                        if (p.study, p.name, p.unit) == (study, name, unit)
                        and p.x_name in ("", x_name))
        made.append(Figure(study, name, unit, x_name, x_unit, results[0].better,
                           _series(results, kinds), printed))
    return tuple(made)


def unmatched(run: Run) -> tuple[Published, ...]:
    """Published values beside which this run measured nothing; they are listed, not drawn."""
    shown = {id(p) for figure in figures(run) for p in figure.published}
    return tuple(p for p in run.published if id(p) not in shown)


def _series(results: Iterable[Result], kinds: Mapping[str, str]) -> tuple[Series, ...]:
    lines: dict[tuple[str, str | None], list[Result]] = {}
    for r in results:
        lines.setdefault((r.subject, r.place), []).append(r)
    subjects = [subject for subject, _ in lines]
    on_host = [kinds.get(place or "") == "host cpu" for _, place in lines]
    # A host CPU beside devices is the yardstick: drawn in the colour of the text, not as one more.
    yardstick = 0 < sum(on_host) <= 3 and not all(on_host)
    made, colours, greys = [], 0, 0
    for ((subject, place), points), host in zip(lines.items(), on_host, strict=True):
        label = f"{subject} · {place}" if subjects.count(subject) > 1 and place else subject
        neutral = yardstick and host
        points.sort(key=lambda r: r.x_value or 0.0)
        made.append(Series(label, greys if neutral else colours, neutral, tuple(points)))
        greys, colours = greys + neutral, colours + (not neutral)
    return tuple(made)
