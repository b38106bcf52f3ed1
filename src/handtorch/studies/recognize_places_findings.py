"""What the second part of the study `recognize` found: rows, a table, a verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from statistics import median

from handtorch.baseline.fair import MOST_OTHERS, middle_half
from handtorch.place.situation import CLOUD, DEVICE
from handtorch.profile.columns import table
from handtorch.record import Result, Verdict
from handtorch.studies.recognize_places import FITTED, Places
from handtorch.studies.recognize_published import NAME
from handtorch.studies.recognize_regret import (
    LEAST_SHARE,
    MOST_REGRET,
    Cell,
    holds,
    judged,
    looks,
    regrets,
    shares,
)
from handtorch.studies.unjudged import mark, marked

QUESTION = ("Does `auto` choose as well as one who knows every cost, on networks and pictures that "
            "it was not fitted to?")


def results(found: Places) -> Iterator[Result]:
    """Every way of every cell, and `auto` in it. Simulated: the device is the paper's phone."""
    for cell in found.cells:
        subject = f"{found.model}, {cell.network}, {cell.picture}, {cell.kind}"
        for way, costs in (*cell.ways.items(), ("auto", cell.auto)):
            if costs:
                yield Result(study=NAME, name=f"cost: {way}", subject=subject,
                             value=median(costs), unit=cell.unit, better="lower",
                             repeats=len(costs), provenance="simulated",
                             spread=middle_half(tuple(costs)) if len(costs) > 1 else None)
    for regret in regrets(judged(found.cells)):
        yield Result(study=NAME, name="regret of auto", subject=f"{found.model}, {regret.unit}",
                     value=100 * regret.share, unit="%", better="lower", repeats=1,
                     provenance="simulated")


def judge(found: Places, others: float | None) -> Verdict:
    """Not judged beside other programs: costs over the relay are then theirs."""
    cells = judged(found.cells)
    doubt, answer = "", _answer(found, cells)
    if not cells:
        doubt = "no cell has a winner beyond its spread"
    elif others is not None and others > MOST_OTHERS:
        doubt = f"other programs used {others:.0%} of this machine's cores meanwhile"
        answer = "Nothing is said of how well `auto` chooses."
    return Verdict(study=NAME, question=QUESTION, holds=None if doubt else holds(found.cells),
                   holds_reason=doubt, answer=answer)


def _answer(found: Places, cells: Sequence[Cell]) -> str:
    left = len(found.cells) - len(cells)
    said = " and ".join(f"{r.share:+.1%} of {r.unit}" for r in regrets(cells))
    tried = " and ".join(f"{more:.3g} {unit}" for unit, more in looks(found.cells).items())
    won, undecided = shares(found.cells), sum(cell.undecided for cell in found.cells)
    return " ".join([
        f"Simulated: `auto` takes {said or 'nothing'} over the best, allowed are "
        f"{MOST_REGRET:.0%}, in {len(cells)} cells; {left} more, whose best two ways are within "
        "their spread, are not counted.",
        f"The device wins {won[DEVICE]:.0%} of {len(found.cells) - undecided} cells and the cloud "
        f"{won[CLOUD]:.0%} (at least {LEAST_SHARE:.0%} each); in {undecided} more the places are "
        "within their spread.",
        f"Trying all places for the first time on a network cost {tried or 'nothing'} more, which "
        "is not part of it.",
        f"Left out, for they were seen while the rules were written: {', '.join(FITTED)}."])


def text(found: Places, verdict: Verdict, others: float | None = None) -> str:
    rows = []
    for cell in found.cells:
        usual = Counter(cell.used).most_common(1)
        rows.append((cell.network, cell.picture, cell.kind, _cost(cell.best_of(DEVICE), cell.unit),
                     _cost(cell.best_of(CLOUD), cell.unit), cell.best,
                     usual[0][0] if usual else "-",
                     _cost(median(cell.auto), cell.unit) if cell.auto else "-",
                     f"{cell.regret:+.1%}{mark(others)}" if cell.auto else "-",
                     "within the spread" if cell.within_spread else ""))
    head = ("network", "picture", "target", "device", "cloud", "best", "auto", "its cost", "over",
            "")
    return "\n".join([
        table(head, rows),
        f"{found.model} on the paper's phone (simulated), over relays (simulated); alone: a radio "
        "that sleeps, in a burst: a picture a second",
        marked(others), "What would turn it", *found.crossovers, "", verdict.question,
        verdict.answer,
        *([f"Not judged: {verdict.holds_reason}."] if verdict.holds is None else []), ""])


def _cost(value: float, unit: str) -> str:
    return f"{1e3 * value:.0f} ms" if unit == "s" else f"{value:.3g} J"
