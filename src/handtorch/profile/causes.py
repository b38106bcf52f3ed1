"""Causes of a slow step, each with the time a step would save without it.

A cause is looked for in every step and averaged. No two of the savings count the same time, but for
a larger batch, a free machine and another place, which change everything."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from handtorch.graph.opset import OPS
from handtorch.meters.procfs import TICK_NS
from handtorch.profile.bounds import OpBound, Peaks, StepTimes, Timed
from handtorch.record import Gap, Run

Cause = Literal["copies", "waits", "unfused", "slow kernel", "tiny launches", "input", "memory",
                "busy machine", "staging", "enqueue", "other place"]
_REACHED = 0.6                              # of the roofline: what good kernels get
_SLOW = 1 / 3                               # below that share of it a kernel is slow
_MOST_LARGER = 8                            # times the batch that is proposed at most
_FUSABLE = {name for name, op in OPS.items() if op.pointwise}
_REGION = "pointwise"                       # several operations in one launch already
_AHEAD = "call the next step before the loss of this one is read"
_LEAST_OTHERS = 0.10                        # of the cores
SHORTEST_NS = int(TICK_NS / _LEAST_OTHERS)  # each core's counter is wrong by up to a tick


@dataclass(frozen=True)
class Change:
    """What to do, and how much sooner a step would be done."""

    cause: Cause
    saves_ns: float
    what: str
    how: str


def copies(steps: Sequence[StepTimes]) -> Change | None:
    """Transfers between the launches of a step, and the device's idle time beside them."""
    spent, count, moved = 0.0, 0, 0
    for step in steps:
        for timed in _inner_copies(step):
            spent += timed.own_ns + sum(g.end_ns - g.start_ns for g in _beside(step, timed))
            count, moved = count + 1, moved + (timed.launch.moved_bytes or 0)
    if not count:
        return None
    each = count / len(steps)
    return Change("copies", spent / len(steps),
                  f"{each:.0f} copies between host and device inside a step, "
                  f"{moved / len(steps) / 1e6:.2f} MB, between {_launches(steps)} launches",
                  "leave values on the device from one operation to the next")


def waits(steps: Sequence[StepTimes]) -> Change | None:
    """Waits of the host before the step's last launch; each leaves the device without work."""
    spent, count = 0.0, 0
    for step in steps:
        count += len(_inner_waits(step))
        spent += sum(g.end_ns - g.start_ns for g in _waited(step))
    if not count:
        return None
    return Change("waits", spent / len(steps),
                  f"the host waits {count / len(steps):.0f} times inside a step of "
                  f"{_launches(steps)} launches; until it has woken and enqueued the next one, the "
                  "device idles", "wait once, at the end of the step")


def _inner_waits(step: StepTimes) -> list[tuple[int, int]]:
    return [w for w in step.waits if step.kernels and w[1] <= step.kernels[-1].start_ns]


def _waited(step: StepTimes) -> list[Gap]:
    """The gaps between launches of a step inside which the host waits, without those of copies."""
    if not _inner_waits(step):
        return []
    first, last = step.kernels[0].end_ns, step.kernels[-1].start_ns
    copied = {g.number for t in _inner_copies(step) for g in _beside(step, t)}
    return [g for g in step.gaps
            if first <= g.start_ns and g.end_ns <= last and g.number not in copied]


def enqueue(steps: Sequence[StepTimes]) -> Change | None:
    """The device is faster than the host enqueues, and nobody waits in between."""
    if any(_inner_waits(step) for step in steps):
        return None
    return Change("enqueue", _gap_ns(steps, "enqueue"), "the device idles while the host enqueues",
                  "fewer launches: a larger batch, or more of the step in one launch")


def staging(steps: Sequence[StepTimes]) -> Change:
    return Change("staging", _gap_ns(steps, "staging"),
                  "the device idles while the batch is checked and copied in", "fill step.stage() "
                  f"in place, or {_AHEAD}")


def waiting_for_input(steps: Sequence[StepTimes]) -> Change:
    return Change("input", _gap_ns(steps, "input"),
                  "the device idles while the caller prepares the next batch",
                  f"prepare it in a thread of its own, or {_AHEAD}")


def unfused(steps: Sequence[StepTimes], peaks: Peaks) -> Change | None:
    """Point-wise launches one after the other: each writes what the next one reads again.

    By the roofline: what the launches of a chain allow at best as they are, and as one launch with
    all of their arithmetic and without the bytes in between. The chain's own time shrinks by that
    share; where arithmetic bounds it, that is less than the bytes' share."""
    spent, count, spared, names = 0.0, 0, 0, dict[str, None]()
    for step in steps:
        for chain in _chains(step):
            less = sum(t.launch.spared_bytes or 0 for t in chain[1:])
            before = sum(t.floor_ns for t in chain)
            after = max(sum(peaks.compute_ns(t.launch) for t in chain),
                        sum(peaks.memory_ns(t.launch) for t in chain) - peaks.bytes_ns(less))
            spent += sum(t.own_ns for t in chain) * (1 - max(after, 0.0) / before)
            count, spared = count + len(chain) - 1, spared + less
            names |= {t.launch.op: None for t in chain}
    if not count:
        return None
    return Change("unfused", spent / len(steps),
                  f"{count / len(steps):.0f} values go through memory between point-wise "
                  f"operations ({', '.join(list(names)[:6])}) that one launch could do: "
                  f"{spared / len(steps) / 1e6:.2f} MB of a step's traffic",
                  "fuse the chain: ht.train_step and ht.inference do; write it without what "
                  "keeps its parts apart")


def slow_kernels(ops: Sequence[OpBound], chained: set[str]) -> Iterator[Change]:
    """Kernels far below the roofline, by kernel."""
    slow: dict[tuple[str, ...], list[OpBound]] = {}
    for op in ops:
        reached = op.of_peak
        bound = op.bound in ("compute", "memory") and op.node not in chained
        if bound and reached is not None and reached < _SLOW:
            slow.setdefault(op.kernels, []).append(op)
    for kernels, same in slow.items():
        time, floor = sum(o.time_ns for o in same), sum(o.floor_ns for o in same)
        where = f" in {same[0].layer}" if same[0].layer else ""
        yield Change("slow kernel", time - floor / _REACHED,
                     f"{same[0].op} ({', '.join(kernels)}){where} reaches "
                     f"{100 * floor / time:.1f} % of what the device allows; it is bound by "
                     f"{'arithmetic' if same[0].bound == 'compute' else 'memory'}",
                     "handtorch tune, or another kernel: good ones reach 60 %")


def memory_layers(ops: Sequence[OpBound], chained: set[str]) -> Iterator[Change]:
    """Layers whose kernels are near the memory's rate: only fewer bytes make them faster."""
    layers: dict[tuple[str, str], list[OpBound]] = {}
    for op in ops:
        near = (op.of_peak or 0) >= _SLOW
        if op.bound == "memory" and near and op.node not in chained:
            layers.setdefault((op.layer or op.op, op.phase), []).append(op)
    for (layer, phase), same in layers.items():
        time = sum(o.time_ns for o in same)
        rate = sum(o.floor_ns for o in same) / time
        shown = f"at {100 * rate:.0f} % of the memory's rate" if rate <= 1 else (
            f"at {rate:.1f} times the memory's rate, so partly from caches")
        yield Change("memory", time / 2, f"{layer} ({phase}: {same[0].op}) is bound by memory: it "
                     f"moves its bytes {shown}", "fewer bytes: 16-bit values would halve them, "
                     "fusing with a neighbour would keep them in registers")


def tiny_launches(steps: Sequence[StepTimes], peaks: Peaks) -> Change | None:
    """Launches that cost more to launch than to compute, and the host's work around them; a larger
    batch does not shorten the gaps that the host's waits leave."""
    own, floor, count = 0.0, 0.0, 0
    for step in steps:
        tiny = [t for t in step.kernels if t.bound == "launch"]
        if 2 * len(tiny) < len(step.kernels):
            continue
        waited = {g.number for g in _waited(step)}
        own += sum(t.own_ns for t in tiny) + sum(
            g.end_ns - g.start_ns for g in step.gaps if g.number not in waited
            and g.cause in ("launch", "enqueue", "wake", "staging", "dispatch"))
        floor += sum(t.floor_ns for t in tiny)
        count += len(tiny)
    if not count:
        return None
    larger = min(_MOST_LARGER, own / floor if floor else _MOST_LARGER)
    return Change("tiny launches", own / len(steps) * (1 - 1 / larger),
                  f"{count / len(steps):.0f} of {_launches(steps)} launches compute for less than "
                  f"a launch takes ({peaks.launch_ns / 1000:.1f} us): the batch is tiny",
                  f"a batch {larger:.0f} times as large; the time is that of as many samples")


def busy_machine(run: Run, steps: Sequence[StepTimes], on_host: bool) -> Change | None:
    """Other programs' processor time, where the device is the host's own processor."""
    others = cores_of_others(run)
    if others is None or run.machine is None or not on_host:
        return None
    share = others / run.machine.cores
    if share < _LEAST_OTHERS:
        return None
    wall = sum(s.wall_ns for s in steps) / len(steps)
    return Change("busy machine", wall * min(share, 0.9),
                  f"other programs use {others:.1f} of {run.machine.cores} cores",
                  "end them, or measure again when the machine is free")


def cores_of_others(run: Run) -> float | None:
    """Cores that other programs kept busy while the run was profiled; None if it is not known, or
    was read for so short a time that the ticks of the counter are no smaller than what matters."""
    def rate(quantity: str) -> float | None:
        seen = [(s.time_ns, s.value) for s in run.samples
                if s.quantity == quantity and s.value is not None]
        if len(seen) < 2 or (apart_ns := seen[-1][0] - seen[0][0]) < SHORTEST_NS:
            return None
        return 1e9 * (seen[-1][1] - seen[0][1]) / apart_ns
    everybody, own = rate("machine_cpu_s"), rate("process_cpu_s")
    return None if everybody is None or own is None else max(0.0, everybody - own)


def _inner_copies(step: StepTimes) -> list[Timed]:
    if not step.kernels:
        return []
    first, last = step.kernels[0].start_ns, step.kernels[-1].end_ns
    return [t for t in step.work if t.bound == "copy" and first < t.start_ns < last]


def _beside(step: StepTimes, timed: Timed) -> Iterator[Gap]:
    """The gap that a launch ends; parts of one gap of several causes belong together."""
    at = timed.start_ns
    for gap in reversed(step.gaps):
        if gap.end_ns == at and gap.start_ns < timed.start_ns:
            yield gap
            at = gap.start_ns


def _linked(a: Timed, b: Timed) -> bool:
    """Whether one launch could do both: neighbours of one phase, point-wise, of which the second
    reads what the first wrote."""
    first, second = a.launch, b.launch
    ops = {first.op, second.op}
    return (second.number == first.number + 1 and bool(second.spared_bytes)
            and ops <= _FUSABLE | {_REGION} and ops != {_REGION} and first.phase == second.phase
            and a.floor_ns > 0 and not {"launch", "copy"} & {a.bound, b.bound})


def _chains(step: StepTimes) -> Iterator[list[Timed]]:
    """Launches of which each is linked to the one before, two and more."""
    chain: list[Timed] = []
    for timed in step.work:
        if chain and not _linked(chain[-1], timed):
            if len(chain) > 1:
                yield chain
            chain = []
        chain.append(timed)
    if len(chain) > 1:
        yield chain


def chained_nodes(steps: Sequence[StepTimes]) -> set[str]:
    return {t.launch.node for s in steps for chain in _chains(s) for t in chain}


def _gap_ns(steps: Sequence[StepTimes], cause: str) -> float:
    return sum(g.end_ns - g.start_ns for s in steps for g in s.gaps
               if g.cause == cause) / len(steps)


def _launches(steps: Sequence[StepTimes]) -> str:
    return f"{sum(len(s.kernels) for s in steps) / len(steps):.0f}"


FROM_STEPS: tuple[Callable[[Sequence[StepTimes]], Change | None], ...] = (
    copies, waits, enqueue, staging, waiting_for_input)
