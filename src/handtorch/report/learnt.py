"""What a run taught about its device: at most ten sentences with numbers, the most telling ones.

Each is made of rows of the run alone, and left out where they are missing. A figure that is not
known stays unknown, with its reason. Where a study did not judge its times, because other programs
were busy, times are marked, no ratio is made of them, and the last sentence says why."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from statistics import median

from handtorch.record import Result, Run

MOST = 10
# Why a study does not judge: what it says where others used the machine meanwhile.
BUSY = re.compile(r"other programs used (\d+)\s?%")
_BESIDE = " (beside other programs)"
Told = Iterator[str]


def learnt(run: Run, most: int = MOST) -> tuple[str, ...]:
    """At most so many sentences, in the order of the studies; empty for a run without figures."""
    found = [(rank, at, line) for at, (rank, made) in enumerate(_SENTENCES) for line in made(run)]
    chosen = sorted(sorted(found)[:most], key=lambda one: one[1])
    return tuple(line for _, _, line in chosen)


def busy(run: Run) -> dict[str, int]:
    """By study, how much of the cores others used while it was timed, where that was too much."""
    found: dict[str, int] = {}
    for v in run.verdicts:
        for share in BUSY.findall(f"{v.holds_reason} {v.answer}"):
            found[v.study] = max(found.get(v.study, 0), int(share))
    return found


# --- rows

def _rows(run: Run, study: str, name: str, subject: str | None = None, x: float | None = None
          ) -> list[Result]:
    return [r for r in run.results if r.study == study and r.name == name and r.value is not None
            and (subject is None or r.subject == subject) and (x is None or r.x_value == x)]


def _row(run: Run, study: str, name: str, subject: str | None = None, x: float | None = None
         ) -> Result | None:
    found = _rows(run, study, name, subject, x)
    return found[0] if found else None


def _value(run: Run, study: str, name: str, subject: str | None = None, x: float | None = None
           ) -> float | None:
    found = _row(run, study, name, subject, x)
    return None if found is None else found.value


def _known(rows: Sequence[Result]) -> list[float]:
    return [r.value for r in rows if r.value is not None]


def _beside(run: Run, study: str) -> str:
    return _BESIDE if study in busy(run) else ""


def _times(ratio: Result) -> str:
    """`1.5 times as fast as`; not a number where it differs from 1 by no more than its spread."""
    value = ratio.value or 0.0
    level = ratio.spread is not None and abs(value - 1) <= ratio.spread
    return "as fast, within its spread, as" if level else f"{_n(value)} times as fast as"


def _n(value: float) -> str:
    """Three digits, and no powers of ten where people would not write them."""
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e9 else f"{value:.3g}"


def _span(values: Sequence[float]) -> str:
    low, high = f"{min(values):.2g}", f"{max(values):.2g}"
    return low if low == high else f"{low} to {high}"


def _list(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


# --- sentences

def _device(run: Run) -> Told:
    for place in run.places:
        for d in run.devices:
            if place.device == d.id and place.name == run.places[0].name:
                shares = any(c.same_silicon and place.name in (c.first, c.second)
                             for c in run.comparisons)
                own = ", on the host's own cores" if shares else ""
                tested = {"passed": "passed its self-test", "failed": "FAILED its self-test",
                          "not run": "not self-tested (`handtorch devices` does it)"}[d.self_test]
                yield (f"{place.name} is {d.name}, {d.compute_units} compute units{own}, "
                       f"{d.global_bytes / 2**30:.3g} GiB, driver {d.driver}, {tested}.")


def _digits(run: Run) -> Told:
    ours = _value(run, "digits", "accuracy", "captured step")
    theirs = _value(run, "digits", "accuracy", "PyTorch eager")
    ratio = _row(run, "digits", "PyTorch / captured step")
    if ours is None or theirs is None:
        return
    speed = "" if ratio is None or "digits" in busy(run) else f"; it is {_times(ratio)} PyTorch"
    yield (f"A captured PyTorch step learns digits to {ours:.1%}, PyTorch itself to {theirs:.1%}"
           f"{speed}.")


def _sgemm(run: Run) -> Told:
    chosen = _rows(run, "sgemm", "rate", "chosen")
    if not chosen:
        return
    ladder = {r.x_value for r in _rows(run, "sgemm", "rate", "naive")}
    r = max(chosen, key=lambda one: (one.x_value in ladder, one.x_value))
    naive = _value(run, "sgemm", "rate", "naive", r.x_value)
    blas = _row(run, "sgemm", "chosen kernel / better BLAS", "chosen", r.x_value)
    told = [f"Matrix products reach {_n(r.value or 0.0)} GFLOPS (n = {_n(r.x_value or 0.0)})"]
    compared = "sgemm" not in busy(run)
    if naive and compared:
        told.append(f"{_n((r.value or 0.0) / naive)} times the naive kernel's {_n(naive)}")
    if blas is not None and compared:
        told.append(f"{_times(blas)} the CPU's BLAS")
    yield f"{', '.join(told)}{_beside(run, 'sgemm')}."


def _backprop(run: Run) -> Told:
    moved = _known(_rows(run, "backprop", "copies / (kernels + copies)",
                         "op by op, tuned kernels"))
    ratios = _known(_rows(run, "backprop", "times as fast as torch CPU", "resident step"))
    paper = next((p.value for p in run.published if p.study == "backprop"
                  and p.name == "copies / (kernels + copies)"), None)
    told = []
    if moved:
        beside = "" if paper is None else f" (published for phones: {_n(paper)} %)"
        told.append(f"op by op, copies are {_span(moved)} % of kernels and copies{beside}")
    if ratios and "backprop" not in busy(run):
        told.append(f"kept on the device a step is {_span(ratios)} times as fast as torch's")
    if told:
        line = "; ".join(told)
        yield f"{line[0].upper()}{line[1:]}{_beside(run, 'backprop')}."


def _rnn(run: Run) -> Told:
    name, size = "time of a window, 2 layers", 32.0
    ms = _value(run, "rnn", name, "ours", size)
    one = _value(run, "rnn", "times as fast as one CPU thread, 2 layers", "ours", size)
    coarse = _value(run, "rnn", "coarse units: times as fast as one CPU thread")
    if ms is None or one is None:
        return
    theirs = "" if coarse is None else f", MobiRNN's way {_n(coarse)} times"
    speed = _BESIDE if "rnn" in busy(run) else (
        f", {_n(one)} times as fast as one CPU thread{theirs}")
    yield f"An LSTM of 2 x 32 takes {_n(ms)} ms a window{speed}."


_NOBODY = "not known"


def _load(run: Run) -> Told:
    rows = [r for r in run.results
            if r.study == "rnn" and r.name == "device quicker than CPU under load"]
    winners: dict[str, list[str]] = {}
    for r in rows:
        who = _NOBODY if r.value is None else "the device" if r.value else "the CPU"
        winners.setdefault(who, []).append(r.subject.removesuffix(" load"))
    if set(winners) == {_NOBODY}:
        yield "Which place runs an LSTM sooner could not be told under any load."
    elif winners:
        told = [f"under {_list(bands)} load {who}" for who, bands in winners.items()]
        yield f"Which place runs an LSTM sooner: {'; '.join(told)}{_beside(run, 'rnn')}."


def _training(run: Run) -> Told:
    ratios = _rows(run, "training", "times as fast as torch")
    models = list(dict.fromkeys(r.subject for r in ratios))
    if not ratios:
        return
    narrow = " (narrow)"
    plain = [model.removesuffix(narrow) for model in models]
    mark = narrow if all(model.endswith(narrow) for model in models) else ""
    who = f"{_list(plain)}{mark}" if len(models) < 4 else f"{len(models)} models{mark}"
    off = _known([r for r in run.results if r.study == "training"
                  and r.name == "loss: difference from torch, step 1"])
    same = f", first losses within {max(off):.1g} of torch's" if off else ""
    train = "trains" if len(models) == 1 else "train"
    speed = "" if "training" in busy(run) else (
        f" {_span(_known(ratios))} times as fast as in torch")
    yield f"{who} {train}{speed}{same}."


def _daily(run: Run) -> Told:
    gains, days, scene = [], 0.0, ""
    rows = [r for r in run.results if r.study == "daily" and r.value is not None
            and r.name.startswith("held-out accuracy, ")]
    for batch in dict.fromkeys(r.subject for r in rows):
        mine = sorted((r for r in rows if r.subject == batch), key=lambda r: r.x_value or 0.0)
        gains.append((mine[-1].value or 0.0) - (mine[0].value or 0.0))
        days, scene = mine[-1].x_value or 0.0, mine[0].name.partition(", ")[2]
    if gains and days:
        low, high = f"{min(gains):+.1f}", f"{max(gains):+.1f}"
        change = low if low == high else f"{low} to {high}"
        yield (f"{_n(days)} days of learning on the device changed accuracy on unseen {scene} by "
               f"{change} points.")


def _recognize(run: Run) -> Told:
    def best(name: str, where: str) -> float | None:
        found = [r for r in _rows(run, "recognize", name) if f", {where} + " in r.subject]
        return min(_known(found), default=None)
    here, cloud = (best("inference", where) for where in ("device", "cloud"))
    if here is None or cloud is None:
        return
    slow, far = (best("inference on the paper's phone", where) for where in ("device", "cloud"))
    # The phone is simulated from these times.
    phone = "" if slow is None or far is None or "recognize" in busy(run) else (
        f"; on the paper's phone (simulated) {slow:,.0f} and {far:,.0f}")
    yield (f"A picture is recognised in {here:.0f} ms here, in {cloud:.0f} ms by a cloud on the "
           f"same cores{_beside(run, 'recognize')}{phone}.")


def _auto(run: Run) -> Told:
    rows = _rows(run, "recognize", "regret of auto")
    told = [f"{100 + (r.value or 0.0):.1f} % of {_UNITS[r.subject[-1]]}" for r in rows
            if r.subject.rpartition(", ")[2] in _UNITS]
    if told and "recognize" not in busy(run):
        yield (f"Choosing device or cloud by itself takes {_list(told)} of the best place "
               "(simulated).")


_UNITS = {"s": "the time", "J": "the energy"}


def _power(run: Run) -> Told:
    rows = [r for r in run.results if r.study == "training"
            and r.name.startswith("joules of a step")]
    known = [r for r in rows if r.value is not None and r.provenance == "measured"]
    if known:
        r = max(known, key=lambda one: one.value or 0.0)
        rail = r.name.partition(", ")[2]
        yield (f"A step of {r.subject} at batch {_n(r.x_value or 0.0)} takes {_n(r.value or 0.0)} "
               f"J" + (f" on {rail}." if rail else "."))
    elif rows:
        why = next((r.value_reason for r in rows if r.value_reason), "only simulated sensors")
        yield f"What a step draws is not known: {why}."


def _others(run: Run) -> Told:
    found = busy(run)
    if found:
        yield (f"Other programs used up to {max(found.values())} % of the cores during "
               f"{_list(list(found))}: no speeds are compared there; run it again on a quiet "
               "machine.")


def _compared(run: Run) -> Told:
    """Of `handtorch bench`: ours against each of its peers, over all cases."""
    sides: dict[str, list[float]] = {}
    unjudged = busy(run)
    for r in run.results:
        if r.study not in unjudged and r.name == "handtorch is so many times as fast" \
                and r.place and r.value is not None:
            sides.setdefault(r.place, []).append(r.value)
    for side, ratios in sides.items():
        over = f" (median {median(ratios):.2g})" if len(ratios) > 2 else ""
        cases = f", {len(ratios)} cases" if len(ratios) > 1 else ""
        yield f"HandTorch is {_span(ratios)} times as fast as {side}{over}{cases}."


# (rank, sentences): the lower the rank, the more it tells; in the order of the studies.
_SENTENCES: tuple[tuple[int, Callable[[Run], Told]], ...] = (
    (1, _device), (2, _digits), (3, _sgemm), (4, _backprop), (5, _rnn), (12, _load),
    (6, _training), (9, _power), (8, _daily), (7, _recognize), (11, _auto), (6, _compared),
    (0, _others),
)
